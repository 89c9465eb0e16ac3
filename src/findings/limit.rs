//! A threshold as something that can be named, read and set.

use super::{Kind, LIMITS, Thresholds};

/// One adjustable limit of one or more rules.
#[derive(Debug)]
pub struct Limit {
    pub(super) field: &'static str,
    pub(super) meaning: &'static [&'static str],
    /// The rules that use it; the first is the one that it belongs to
    pub kinds: &'static [Kind],
    pub unit: Unit,
    pub default: f64,
    pub(super) get: fn(&Thresholds) -> f64,
    pub(super) put: fn(&mut Thresholds, f64),
}

impl PartialEq for Limit {
    fn eq(&self, other: &Limit) -> bool {
        self.field == other.field
    }
}

/// A limit with a value that it may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    limit: &'static Limit,
    value: f64,
}

impl Setting {
    /// Why not, where its unit has no such value.
    pub fn new(limit: &'static Limit, value: f64) -> Result<Setting, String> {
        let (allowed, what) = limit.unit.allows(value);
        if allowed { Ok(Setting { limit, value }) } else { Err(format!("{} is {what}", limit.name())) }
    }

    pub fn limit(&self) -> &'static Limit {
        self.limit
    }

    /// In the limit's unit.
    pub fn value(&self) -> f64 {
        self.value
    }

    pub fn apply(&self, thresholds: &mut Thresholds) {
        (self.limit.put)(thresholds, self.value);
    }
}

/// What a limit is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
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
    /// For each CPU that the work may use
    PerCpu,
    Intervals,
}

impl Limit {
    /// The limit of that name, such as `latency-multiple`.
    pub fn named(name: &str) -> Option<&'static Limit> {
        LIMITS.iter().find(|limit| limit.name() == name)
    }

    /// The one that a kind's findings state: from which it is told at all. `None` where any is one (an OOM kill).
    pub fn of(kind: Kind) -> Option<&'static Limit> {
        LIMITS.iter().find(|limit| limit.kinds.first() == Some(&kind))
    }

    /// Its name in the configuration file and on the command line.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }

    /// What it limits, in a few words.
    pub fn meaning(&self) -> String {
        self.meaning.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    pub fn get(&self, thresholds: &Thresholds) -> f64 {
        (self.get)(thresholds)
    }
}

impl Unit {
    /// As it stands in docs.
    pub fn word(self) -> &'static str {
        match self {
            Unit::Share => "share, 0 … 1",
            Unit::Multiple => "×",
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::SecondsPerSecond => "s/s",
            Unit::PerSecond => "1/s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Cpus => "CPUs",
            Unit::Threads => "threads",
            Unit::PerCpu => "for each CPU",
            Unit::Intervals => "intervals",
        }
    }

    /// Whether there is such a value, and which there are.
    fn allows(self, value: f64) -> (bool, &'static str) {
        /// What would make a rule that never speaks by mistake, and not by intent.
        const LARGEST: f64 = 1e15;
        match self {
            Unit::Share => ((0.0..=1.0).contains(&value), "a share: 0 to 1, or 0% to 100%"),
            Unit::Multiple => ((1.0..=LARGEST).contains(&value), "a multiple: 1 or more"),
            Unit::Intervals => {
                let whole = (1.0..=1000.0).contains(&value) && value.fract() == 0.0;
                (whole, "a whole number of intervals, 1 to 1000")
            }
            _ => ((0.0..=LARGEST).contains(&value), "a number, 0 or more"),
        }
    }
}
