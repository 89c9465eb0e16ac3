//! Parses kinds of findings and thresholds in options and configuration files. An unknown name is reported with the most
//! similar known one. Shells complete the names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;

use super::value_parsers;
use crate::findings::{Finding, Kind, RULES, Severity, THRESHOLDS, Threshold, ThresholdSetting, ThresholdUnit};
use crate::units::similar::did_you_mean;

/// A clap value parser for one of them.
#[derive(Clone)]
pub struct SuggestingParser<T> {
    pub parse: fn(&str) -> Result<T, String>,
    /// For shell completion
    pub possible_values: fn() -> Vec<String>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for SuggestingParser<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, option: Option<&clap::Arg>, word: &OsStr) -> Result<T, clap::Error> {
        let option = option.map(|option| format!(" for '{option}'")).unwrap_or_default();
        let text = word.to_string_lossy();
        (self.parse)(&text).map_err(|why| {
            let message = format!("invalid value '{text}'{option}: {why}");
            clap::Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new((self.possible_values)().into_iter().map(PossibleValue::new)))
    }
}

/// A kind of finding.
pub fn parse_kind(word: &str) -> Result<Kind, String> {
    Kind::from_name(word).ok_or_else(|| format!("no such kind of finding{}", meant_or_all(word, kind_names())))
}

/// Findings of a kind, or of a severity and worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingSelector {
    Kind(Kind),
    Severity(Severity),
}

impl FindingSelector {
    pub fn parse(word: &str) -> Result<FindingSelector, String> {
        if let Some(severity) = SEVERITIES.into_iter().find(|severity| severity.as_str() == word) {
            return Ok(FindingSelector::Severity(severity));
        }
        let kind = Kind::from_name(word).map(FindingSelector::Kind);
        kind.ok_or_else(|| format!("no such kind of finding or severity{}", meant_or_all(word, FindingSelector::names())))
    }

    /// The words that it takes.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        SEVERITIES.into_iter().map(Severity::as_str).chain(kind_names())
    }

    pub fn selects(self, finding: &Finding) -> bool {
        match self {
            FindingSelector::Kind(kind) => finding.kind == kind,
            FindingSelector::Severity(severity) => finding.severity >= severity,
        }
    }
}

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

/// `disk-latency=5`, `latency-critical-multiple=20x`, `blocked-ratio=30%`.
pub fn parse_setting(text: &str) -> Result<ThresholdSetting, String> {
    let (word, value) = text.split_once('=').ok_or("the form is KIND=VALUE, such as disk-latency=5")?;
    let word = word.trim();
    let threshold = match Kind::from_name(word) {
        Some(kind) => {
            Threshold::primary_for(kind).ok_or_else(|| format!("{word} has no threshold: every occurrence is a finding"))?
        }
        None => Threshold::from_name(word).ok_or_else(|| {
            let known: Vec<String> = setting_names().collect();
            let meant = did_you_mean(word, known.iter().map(String::as_str));
            let places = ": docs/findings.md has the kinds, docs/configuration.md all thresholds";
            format!("no such kind or threshold{}", if meant.is_empty() { places } else { &meant })
        })?,
    };
    ThresholdSetting::new(threshold, parse_threshold_value(threshold.unit, value)?)
}

/// Parses a value in the unit of the threshold; `30%`, `5s`, `3x`, `1M` where the unit allows it.
pub fn parse_threshold_value(unit: ThresholdUnit, text: &str) -> Result<f64, String> {
    let text = text.trim();
    let plain = |text: &str| value_parsers::parse_decimal(text.trim_end());
    let (value, such_as) = match unit {
        ThresholdUnit::Share => {
            (text.strip_suffix('%').map_or_else(|| plain(text), |text| plain(text).map(|v| v / 100.0)), "0.3 or 30%")
        }
        ThresholdUnit::Multiple => (plain(text.trim_end_matches(['x', '×'])), "3 or 3x"),
        ThresholdUnit::Seconds => (value_parsers::duration(text).ok().map(|duration| duration.as_secs_f64()), "5, 5s or 2m"),
        ThresholdUnit::Millis if plain(text).is_none() => (value_parsers::latency(text).ok().map(|ms| ms.0), "2, 2ms or 1s"),
        ThresholdUnit::BytesPerSecond if plain(text).is_none() => {
            (value_parsers::size(text).ok().map(|bytes| bytes as f64), "1048576 or 1M")
        }
        _ => (plain(text), "2 or 0.5"),
    };
    value.ok_or_else(|| format!("'{text}' is not a value of this threshold: write it like {such_as}"))
}

/// The names of all kinds, in the order of the rules.
pub fn kind_names() -> impl Iterator<Item = &'static str> + Clone {
    RULES.iter().map(|rule| rule.kind.as_str())
}

/// The names that can be set: kinds with a main threshold, and all thresholds.
pub fn setting_names() -> impl Iterator<Item = String> {
    let kinds =
        RULES.iter().filter(|rule| Threshold::primary_for(rule.kind).is_some()).map(|rule| rule.kind.as_str().to_owned());
    kinds.chain(THRESHOLDS.iter().map(Threshold::name))
}

/// The word that was meant, or all of them.
fn meant_or_all<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(word, known.clone()) {
        meant if meant.is_empty() => format!(": it is one of {}", known.collect::<Vec<_>>().join(", ")),
        meant => meant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_reported_with_a_suggestion() {
        assert_eq!(parse_kind("disk-latency"), Ok(Kind::DiskLatency));
        assert_eq!(parse_kind("disk-latancy"), Err("no such kind of finding: did you mean 'disk-latency'?".to_owned()));
        assert_eq!(FindingSelector::parse("warning"), Ok(FindingSelector::Severity(Severity::Warning)));
        assert_eq!(FindingSelector::parse("oom-kill"), Ok(FindingSelector::Kind(Kind::OomKill)));
        assert!(FindingSelector::parse("critcal").is_err_and(|why| why.ends_with("did you mean 'critical'?")));
        for kind in kind_names() {
            assert!(parse_kind("zzz").is_err_and(|why| why.contains(kind)), "{kind}");
        }
        assert!(FindingSelector::parse("zzz").is_err_and(|why| why.contains(": it is one of note, warning, critical, ")));
        assert!(parse_setting("zzz=1").is_err_and(|why| why.contains("docs/configuration.md")));
        assert!(parse_setting("idle-but-bloked=0.5").is_err_and(|why| why.ends_with("did you mean 'idle-but-blocked'?")));
        assert!(parse_setting("oom-kill=1").is_err_and(|why| why.contains("every occurrence")));
        assert!(parse_setting("disk-latency").is_err());
    }

    #[test]
    fn values_have_the_units_of_their_threshold() {
        let cases = [
            ("idle-but-blocked=30%", "blocked-ratio", 0.3),
            ("blocked-ratio=0.3", "blocked-ratio", 0.3),
            ("disk-latency=5x", "latency-multiple", 5.0),
            ("hung-task=2m", "hung-seconds", 120.0),
            ("round-trip-ms=1s", "round-trip-ms", 1000.0),
            ("round-trip-ms=1.5", "round-trip-ms", 1.5),
            ("swapping=1M", "swapping-bytes-per-second", 1_048_576.0),
            ("nic-intervals=2", "nic-intervals", 2.0),
        ];
        for (text, name, value) in cases {
            assert_eq!(
                parse_setting(text).map(|setting| (setting.threshold().name(), setting.value())),
                Ok((name.to_owned(), value)),
                "{text}"
            );
        }
        for wrong in [
            "blocked-ratio=130%",
            "blocked-ratio=2",
            "disk-latency=0.5",
            "hung-task=-5",
            "hung-task=",
            "hung-task=NaN",
            "nic-intervals=1.5",
            "swapping=1e9",
        ] {
            assert!(parse_setting(wrong).is_err(), "{wrong}");
        }
    }
}
