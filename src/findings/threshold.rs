//! The type of a threshold: name, unit, default, and access to its value.

use super::{Kind, THRESHOLDS, Thresholds};

/// One adjustable threshold of one or more rules.
#[derive(Debug)]
pub struct Threshold {
    pub(super) field: &'static str,
    pub(super) meaning: &'static [&'static str],
    /// The rules that use it; it belongs to the first
    pub kinds: &'static [Kind],
    pub unit: ThresholdUnit,
    pub default: f64,
    pub(super) get: fn(&Thresholds) -> f64,
    pub(super) set: fn(&mut Thresholds, f64),
}

impl PartialEq for Threshold {
    fn eq(&self, other: &Threshold) -> bool {
        self.field == other.field
    }
}

/// A threshold with a valid value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThresholdSetting {
    threshold: &'static Threshold,
    value: f64,
}

impl ThresholdSetting {
    /// Fails if the unit does not allow the value.
    pub fn new(threshold: &'static Threshold, value: f64) -> Result<ThresholdSetting, String> {
        let (allowed, what) = threshold.unit.allows(value);
        if allowed { Ok(ThresholdSetting { threshold, value }) } else { Err(format!("{} is {what}", threshold.name())) }
    }

    /// The threshold that is set.
    pub fn threshold(&self) -> &'static Threshold {
        self.threshold
    }

    /// In the threshold's unit.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Writes the value into `thresholds`.
    pub fn apply(&self, thresholds: &mut Thresholds) {
        (self.threshold.set)(thresholds, self.value);
    }
}

/// Unit of a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThresholdUnit {
    /// 0 … 1
    Share,
    Multiple,
    Seconds,
    Millis,
    SecondsPerSecond,
    PerSecond,
    BytesPerSecond,
    Cpus,
    Threads,
    /// Per CPU that the work may use
    PerCpu,
    Intervals,
}

impl Threshold {
    /// The threshold with that name, such as `latency-multiple`.
    pub fn from_name(name: &str) -> Option<&'static Threshold> {
        // Its name before the first release.
        let name = if name == "box-idle-below-ratio" { "host-busy-below-ratio" } else { name };
        THRESHOLDS.iter().find(|threshold| threshold.name() == name)
    }

    /// The threshold that the findings of a kind state; `None` if any occurrence counts (an OOM kill).
    pub fn primary_for(kind: Kind) -> Option<&'static Threshold> {
        THRESHOLDS.iter().find(|threshold| threshold.kinds.first() == Some(&kind))
    }

    /// Its name in the configuration file and on the command line.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// Its meaning, in a few words.
    pub fn meaning(&self) -> String {
        self.meaning.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// Its value in `thresholds`.
    pub fn get(&self, thresholds: &Thresholds) -> f64 {
        (self.get)(thresholds)
    }
}

impl ThresholdUnit {
    /// As written in the docs.
    pub fn label(self) -> &'static str {
        match self {
            ThresholdUnit::Share => "share, 0 … 1",
            ThresholdUnit::Multiple => "×",
            ThresholdUnit::Seconds => "s",
            ThresholdUnit::Millis => "ms",
            ThresholdUnit::SecondsPerSecond => "s/s",
            ThresholdUnit::PerSecond => "1/s",
            ThresholdUnit::BytesPerSecond => "bytes/s",
            ThresholdUnit::Cpus => "CPUs",
            ThresholdUnit::Threads => "threads",
            ThresholdUnit::PerCpu => "for each CPU",
            ThresholdUnit::Intervals => "intervals",
        }
    }

    /// Whether the value is allowed, and which values are.
    fn allows(self, value: f64) -> (bool, &'static str) {
        /// Larger values would disable a rule by mistake.
        const LARGEST: f64 = 1e15;
        match self {
            ThresholdUnit::Share => ((0.0..=1.0).contains(&value), "a share: 0 to 1, or 0% to 100%"),
            ThresholdUnit::Multiple => ((1.0..=LARGEST).contains(&value), "a multiple: 1 or more"),
            ThresholdUnit::Intervals => {
                let whole = (1.0..=1000.0).contains(&value) && value.fract() == 0.0;
                (whole, "a whole number of intervals, 1 to 1000")
            }
            _ => ((0.0..=LARGEST).contains(&value), "a number, 0 or more"),
        }
    }
}
