//! Types of quantities: counter, ratio, rate, bytes, milliseconds. Counters are subtracted, and differences become rates and
//! ratios, in this file only. Submodules format, parse and sort values for every layer.

pub mod format;
pub mod similar;
mod small_sort;
pub mod time;
pub mod time_spec;

pub use small_sort::SmallSort;

use serde::{Deserialize, Serialize};

/// A cumulative counter of the kernel, in the unit that its field's name ends with. It starts at 0 (at boot, driver load or
/// task start) and decreases only if it is reset or wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counter(pub u64);

impl Counter {
    /// The increase since `older`: the only subtraction of counters. `None` if the counter decreased (wrap, device replaced,
    /// driver reloaded).
    pub fn since(self, older: Counter) -> Option<u64> {
        self.0.checked_sub(older.0)
    }
}

/// The increase of a counter; `None` if either sample lacks it, or if it decreased.
pub fn delta(newer: Option<Counter>, older: Option<Counter>) -> Option<u64> {
    newer?.since(older?)
}

/// A share of a whole, which is 1.0. Of CPU time 1.0 is one CPU, so that a process may have more. Finite, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ratio(pub f64);

impl Ratio {
    /// `part ÷ whole`; `None` if `whole` is 0.
    pub fn new(part: f64, whole: f64) -> Option<Ratio> {
        (whole > 0.0 && part.is_finite()).then(|| Ratio((part / whole).max(0.0)))
    }

    /// The share in per cent.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

/// A rate: events, bytes or milliseconds per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PerSecond(pub f64);

impl PerSecond {
    /// An increase divided by the seconds in which it happened; `None` if no time passed.
    pub fn over(growth: u64, seconds: f64) -> Option<PerSecond> {
        (seconds > 0.0).then(|| PerSecond(growth as f64 / seconds))
    }

    /// The rate of a counter between two samples; `None` as for `delta`.
    pub fn between(newer: Option<Counter>, older: Option<Counter>, seconds: f64) -> Option<PerSecond> {
        PerSecond::over(delta(newer, older)?, seconds)
    }

    /// Bytes per second in Mbit/s.
    pub fn megabits(self) -> f64 {
        self.0 * 8.0 / 1e6
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
    /// The mean time of `count` events that took `total_ms` together; `None` if `count` is 0.
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
    fn a_counter_that_decreased_has_no_increase() {
        assert_eq!(Counter(7).since(Counter(5)), Some(2));
        assert_eq!(Counter(5).since(Counter(7)), None);
    }

    #[test]
    fn a_mean_equal_to_the_threshold_reaches_it() {
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
