//! Parses a configuration file: TOML in which every key and value is checked. An error has its line.

use std::ops::Range;

use clap::ValueEnum;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::baseline::SizeClass;
use crate::cli::{ProbeMode, finding_options, value_parsers};
use crate::findings::{BaselineOverride, Kind, THRESHOLDS, Threshold, ThresholdSetting};
use crate::interval::disk::Operation;
use crate::interval::network::Link;
use crate::units::similar::did_you_mean;
use crate::units::{Millis, SmallSort};

/// The settings of one file.
#[derive(Debug, Default, PartialEq)]
pub struct ParsedConfig {
    pub thresholds: Vec<ThresholdSetting>,
    pub links: Vec<(String, Link)>,
    pub baselines: Vec<BaselineOverride>,
    pub ignored_disks: Option<Vec<String>>,
    pub ignored_nics: Option<Vec<String>>,
    pub ignored_file_systems: Option<Vec<String>>,
    /// The theme of the screen
    pub theme: Option<String>,
    pub probes: Option<ProbeMode>,
}

/// An error in a file.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// From 1; `None` if the error concerns the whole file
    pub line: Option<usize>,
    pub what: String,
    pub remedy: String,
}

/// The names of the sections.
const SECTIONS: [&str; 5] = ["thresholds", "speeds", "baselines", "ignore", "screen"];

/// The key before the sections.
const PROBES: &str = "probes";

/// The operations of baselines.
const OPERATIONS: [(&str, Operation); 4] =
    [("read", Operation::Read), ("write", Operation::Write), ("flush", Operation::Flush), ("discard", Operation::Discard)];

/// The size classes of baselines, as in `baseline set --size`.
const SIZES: [(&str, SizeClass); 3] = [("16K", SizeClass::Small), ("128K", SizeClass::Medium), ("more", SizeClass::Large)];

impl ConfigError {
    pub fn whole_file(what: String) -> ConfigError {
        ConfigError { line: None, what, remedy: String::new() }
    }
}

/// An error at a position in the text.
struct SpannedError {
    span: Range<usize>,
    what: String,
    remedy: String,
}

fn spanned_error(span: Range<usize>, what: impl Into<String>, remedy: impl Into<String>) -> SpannedError {
    SpannedError { span, what: what.into(), remedy: remedy.into() }
}

/// The error for an unknown key, with a similar known one.
fn unknown_key<'a>(key: &Spanned<impl AsRef<str>>, known: impl Iterator<Item = &'a str>) -> SpannedError {
    let word = key.as_ref().as_ref();
    let suggestion = did_you_mean(word, known);
    spanned_error(key.span(), format!("unknown key '{word}'"), suggestion.trim_start_matches([':', ' ']))
}

impl ParsedConfig {
    /// Parses the text; returns the first error.
    pub fn parse(text: &str) -> Result<ParsedConfig, ConfigError> {
        let at_line = |error: SpannedError| {
            let before = text.as_bytes().iter().take(error.span.start);
            let line = 1 + before.filter(|&&byte| byte == b'\n').count();
            ConfigError { line: Some(line), what: error.what, remedy: error.remedy }
        };
        let document = DeTable::parse(text).map_err(|error| {
            let what = error.message().lines().collect::<Vec<_>>().join(" ");
            at_line(spanned_error(error.span().unwrap_or_default(), what, ""))
        })?;
        let mut parsed = ParsedConfig::default();
        for (key, value) in in_source_order(document.get_ref()) {
            parsed.parse_section(key, value).map_err(at_line)?;
        }
        Ok(parsed)
    }

    fn parse_section(&mut self, key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<(), SpannedError> {
        let name = key.as_ref().as_ref();
        if name == PROBES {
            self.probes = Some(parse_probes(value)?);
            return Ok(());
        }
        if !SECTIONS.contains(&name) {
            return Err(unknown_key(key, SECTIONS.into_iter().chain([PROBES])));
        }
        for (key, value) in in_source_order(expect_table(value, name)?) {
            match name {
                "thresholds" => self.add_threshold(key, parse_threshold(key, value)?)?,
                "speeds" => self.links.push((key.as_ref().to_string(), parse_link(value)?)),
                "baselines" => self.parse_baselines(key, value)?,
                "screen" => self.parse_screen(key, value)?,
                _ => self.parse_ignore(key, value)?,
            }
        }
        Ok(())
    }

    /// A threshold may have an older name; TOML itself refuses the same name twice.
    fn add_threshold(&mut self, key: &Spanned<impl AsRef<str>>, setting: ThresholdSetting) -> Result<(), SpannedError> {
        if self.thresholds.iter().any(|known| known.threshold() == setting.threshold()) {
            let remedy = format!("write only '{}', its present name", setting.threshold().name());
            return Err(spanned_error(key.span(), "this threshold is set twice", remedy));
        }
        self.thresholds.push(setting);
        Ok(())
    }

    /// `sda = { read = "0.5ms", write = { 16K = "1ms" } }`
    fn parse_baselines(&mut self, device: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<(), SpannedError> {
        let name = device.as_ref().as_ref();
        for (key, value) in in_source_order(expect_table(value, name)?) {
            let Some(&(_, operation)) = OPERATIONS.iter().find(|(word, _)| *word == key.as_ref()) else {
                return Err(unknown_key(key, OPERATIONS.iter().map(|(word, _)| *word)));
            };
            let mut set = |size, latency| {
                self.baselines.push(BaselineOverride { device: name.to_owned(), operation, size, latency });
            };
            let Some(sizes) = value.get_ref().as_table() else {
                set(None, parse_latency(value)?);
                continue;
            };
            for (key, value) in in_source_order(sizes) {
                match SIZES.iter().find(|(word, _)| *word == key.as_ref()) {
                    Some(&(_, size)) => set(Some(size), parse_latency(value)?),
                    None => return Err(unknown_key(key, SIZES.iter().map(|(word, _)| *word))),
                }
            }
        }
        Ok(())
    }

    /// `theme = "dark"`
    fn parse_screen(&mut self, key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<(), SpannedError> {
        if key.as_ref().as_ref() != "theme" {
            return Err(unknown_key(key, ["theme"].into_iter()));
        }
        let name = value.get_ref().as_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| spanned_error(value.span(), "this is not the name of a theme", "write \"dark\""))?;
        self.theme = Some(name.to_owned());
        Ok(())
    }

    fn parse_ignore(&mut self, key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<(), SpannedError> {
        let list = match key.as_ref().as_ref() {
            "disks" => &mut self.ignored_disks,
            "nics" => &mut self.ignored_nics,
            "file-systems" => &mut self.ignored_file_systems,
            _ => return Err(unknown_key(key, ["disks", "nics", "file-systems"].into_iter())),
        };
        let remedy = "write a list of names, such as [\"loop*\", \"sr0\"]";
        let names = value.get_ref().as_array().ok_or_else(|| spanned_error(value.span(), "this is not a list", remedy))?;
        let name = |name: &Spanned<DeValue>| {
            let text = name.get_ref().as_str().filter(|text| !text.is_empty());
            let text = text.filter(|text| !text.trim_end_matches('*').contains('*') && !text.ends_with("**"));
            text.map(str::to_owned)
                .ok_or_else(|| spanned_error(name.span(), "this is not a name (a * is allowed only at the end)", remedy))
        };
        *list = Some(names.iter().map(name).collect::<Result<_, _>>()?);
        Ok(())
    }
}

/// `"auto"`, `"off"` or `"on"`
fn parse_probes(value: &Spanned<DeValue>) -> Result<ProbeMode, SpannedError> {
    let mode = value.get_ref().as_str().and_then(|text| ProbeMode::from_str(text, false).ok());
    mode.ok_or_else(|| spanned_error(value.span(), "this is not when probes are attached", "write \"auto\", \"off\" or \"on\""))
}

fn parse_threshold(key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue>) -> Result<ThresholdSetting, SpannedError> {
    let name = key.as_ref().as_ref();
    let threshold = Threshold::from_name(name).ok_or_else(|| match Kind::from_name(name) {
        Some(kind) => {
            let of_kind = THRESHOLDS.iter().filter(|threshold| threshold.kinds.contains(&kind)).map(Threshold::name);
            let names = of_kind.collect::<Vec<_>>().join(", ");
            let remedy = if names.is_empty() {
                "it has no threshold: every occurrence is a finding".to_owned()
            } else {
                format!("its thresholds are {names}")
            };
            spanned_error(key.span(), format!("'{name}' is a kind of finding, not a threshold"), remedy)
        }
        None => {
            let known: Vec<String> = THRESHOLDS.iter().map(Threshold::name).collect();
            unknown_key(key, known.iter().map(String::as_str))
        }
    })?;
    let number = match value.get_ref() {
        DeValue::String(text) => finding_options::parse_threshold_value(threshold.unit, text),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map(|n| n as f64).map_err(|_| String::new())
        }
        DeValue::Float(number) => number.as_str().parse().map_err(|_| String::new()),
        _ => Err(String::new()),
    };
    let remedy = || format!("{name} has the unit {}, and {} by default", threshold.unit.label(), threshold.default);
    let number = number.map_err(|why| {
        let what = if why.is_empty() { "this is not a number".to_owned() } else { why };
        spanned_error(value.span(), what, remedy())
    })?;
    ThresholdSetting::new(threshold, number).map_err(|why| spanned_error(value.span(), why, remedy()))
}

/// `"1000fd"`, or a number of megabits per second.
fn parse_link(value: &Spanned<DeValue>) -> Result<Link, SpannedError> {
    let link = match value.get_ref() {
        DeValue::String(text) => Link::parse(text),
        DeValue::Integer(number) => Link::parse(number.as_str()),
        _ => None,
    };
    link.filter(|link| link.duplex.is_some())
        .ok_or_else(|| spanned_error(value.span(), "this is not a speed", "write Mbit/s and fd or hd, such as \"1000fd\""))
}

fn parse_latency(value: &Spanned<DeValue>) -> Result<Millis, SpannedError> {
    let text =
        value.get_ref().as_str().ok_or_else(|| "a latency is text with a unit, such as \"0.5ms\" or \"200us\"".to_owned());
    text.and_then(value_parsers::latency).map_err(|why| spanned_error(value.span(), why, ""))
}

fn expect_table<'a, 'i>(value: &'a Spanned<DeValue<'i>>, name: &str) -> Result<&'a DeTable<'i>, SpannedError> {
    value
        .get_ref()
        .as_table()
        .ok_or_else(|| spanned_error(value.span(), format!("'{name}' is a section"), format!("write [{name}]")))
}

/// The entries in the order of the text, so that the first error is reported.
fn in_source_order<'a, 'i>(
    table: &'a DeTable<'i>,
) -> impl Iterator<Item = (&'a Spanned<toml::de::DeString<'i>>, &'a Spanned<DeValue<'i>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.small_sort_by_key(|(key, _)| key.span().start);
    entries.into_iter()
}
