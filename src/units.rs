//! The vocabulary of numbers. The only place where a number changes its type:
//! raw counters become differences here, differences become rates and ratios here, nowhere else.

pub mod format;
pub mod time;

use serde::{Deserialize, Serialize};

/// A cumulative count as the kernel keeps it, in the unit its field's name ends with.
/// Zero at some moment in the past (boot, driver load, task start); it only grows, unless it is reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counter(pub u64);

impl Counter {
    /// The growth since `older`: the only subtraction of counters.
    /// `None` when it fell (wrap, device plugged again, driver reloaded): no value, neither 0 nor a huge one.
    pub fn since(self, older: Counter) -> Option<u64> {
        self.0.checked_sub(older.0)
    }
}

/// The growth of a counter that either sample may lack.
pub fn delta(newer: Option<Counter>, older: Option<Counter>) -> Option<u64> {
    newer?.since(older?)
}

/// A share. 1.0 is the whole; a thread on one whole CPU has 1.0. Finite, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl Ratio {
    /// `part ÷ whole`; `None` when there is no whole to take a share of.
    pub fn new(part: f64, whole: f64) -> Option<Ratio> {
        (whole > 0.0 && part.is_finite()).then(|| Ratio((part / whole).max(0.0)))
    }

    /// The same share in per cent.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

/// Events (or bytes, or milliseconds) a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// A growth over the seconds in which it happened; `None` when no time passed.
    pub fn over(growth: u64, seconds: f64) -> Option<PerSecond> {
        (seconds > 0.0).then(|| PerSecond(growth as f64 / seconds))
    }

    /// The rate of a counter between two samples.
    pub fn between(newer: Option<Counter>, older: Option<Counter>, seconds: f64) -> Option<PerSecond> {
        PerSecond::over(delta(newer, older)?, seconds)
    }
}

/// An amount of memory or storage, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A latency, in milliseconds with a fraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub f64);

impl Millis {
    /// The mean time of `count` events that took `total_ms` together; `None` where none completed.
    pub fn mean(total_ms: u64, count: u64) -> Option<Millis> {
        (count > 0).then(|| Millis(total_ms as f64 / count as f64))
    }
}

/// Whether a mean over sub-samples reaches a threshold. Rounding may leave the mean slightly below a round threshold.
pub fn reaches_threshold(mean: f64, least: f64) -> bool {
    mean >= least - 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_fell_has_no_growth() {
        assert_eq!(Counter(7).since(Counter(5)), Some(2));
        assert_eq!(Counter(5).since(Counter(7)), None);
    }

    #[test]
    fn a_mean_that_is_exactly_the_limit_reaches_it() {
        let mean = [0.1; 10].iter().map(|part| part * 1.0).sum::<f64>();
        assert!(mean < 1.0 && reaches_threshold(mean, 1.0) && !reaches_threshold(0.999, 1.0));
    }

    #[test]
    fn nothing_is_divided_by_zero() {
        assert_eq!(PerSecond::over(5, 0.0), None);
        assert_eq!(Millis::mean(5, 0), None);
        assert_eq!(Ratio::new(1.0, 0.0), None);
    }
}
