//! Storage of latencies: a bounded, evenly spaced subset of the current day, and the medians of past days.

use serde::{Deserialize, Serialize};

/// A bounded, evenly spaced subset of a sequence of values. When it is full, every second value is removed, and from then on only
/// every second value of the sequence is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reservoir {
    /// Number of values in the sequence
    count: u32,
    /// One value in 2^`thinned` is kept
    thinned: u8,
    ms: Vec<f32>,
}

/// Most values that are kept.
const CAPACITY: usize = 64;

impl Reservoir {
    /// Adds the next value of the sequence; returns whether the kept values have changed.
    pub fn push(&mut self, ms: f32) -> bool {
        let every = 1_u32 << self.thinned.min(31);
        let is_kept = self.count.is_multiple_of(every);
        self.count = self.count.saturating_add(1);
        if !is_kept {
            return false;
        }
        self.ms.push(ms);
        if self.ms.len() >= CAPACITY {
            let mut at = 0_usize;
            self.ms.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.thinned = self.thinned.saturating_add(1).min(31);
        }
        true
    }

    /// Number of values in the sequence, also those not kept.
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values that are kept.
    pub fn values_ms(&self) -> &[f32] {
        &self.ms
    }

    /// The median; `None` without values.
    pub fn median(&self) -> Option<f64> {
        median(self.ms.iter().map(|&ms| (ms, 1)).collect())
    }

    /// Removes values that only a damaged file can have.
    pub fn sanitized(mut self) -> Reservoir {
        self.ms.retain(|ms| is_valid_latency(*ms));
        self.ms.truncate(CAPACITY - 1);
        self.count = self.count.max(u32::try_from(self.ms.len()).unwrap_or(u32::MAX));
        self
    }
}

/// A finished day: number and median of the observations, and number and median of the uncontended intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "DayRow", into = "DayRow")]
pub struct Day {
    /// Days after 1970-01-01, in UTC
    pub day: i32,
    pub learned: u32,
    pub learned_ms: f32,
    pub uncontended: u32,
    pub uncontended_ms: f32,
}

/// A day as the file has it: an array in one line.
type DayRow = (i32, u32, f32, u32, f32);

impl From<DayRow> for Day {
    fn from((day, learned, learned_ms, seen, seen_ms): DayRow) -> Day {
        Day { day, learned, learned_ms, uncontended: seen, uncontended_ms: seen_ms }
    }
}

impl From<Day> for DayRow {
    fn from(day: Day) -> DayRow {
        (day.day, day.learned, day.learned_ms, day.uncontended, day.uncontended_ms)
    }
}

impl Day {
    /// Whether all numbers are in their range; a damaged file may have others.
    pub fn is_valid(&self) -> bool {
        is_valid_latency(self.learned_ms) && is_valid_latency(self.uncontended_ms)
    }

    /// A day weighs at most as much as the current one.
    pub const MAX_WEIGHT: u32 = CAPACITY as u32 / 2;

    /// Weight of the day in the median.
    pub fn weight(self) -> u32 {
        self.learned.min(Self::MAX_WEIGHT)
    }
}

/// Days after 1970-01-01 of a time in seconds after 1970.
pub fn unix_day(at_s: i64) -> i32 {
    i32::try_from(at_s.div_euclid(86_400)).unwrap_or_default()
}

pub fn is_valid_latency(ms: f32) -> bool {
    ms.is_finite() && ms >= 0.0
}

/// The median of weighted values; the mean of two if it lies between them.
pub fn median(mut values: Vec<(f32, u32)>) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = values.iter().map(|value| u64::from(value.1)).sum();
    let mut passed = 0_u64;
    let mut lower = None;
    for (ms, times) in values.into_iter().filter(|value| value.1 > 0) {
        passed += u64::from(times);
        match lower {
            Some(lower) => return Some((f64::from(lower) + f64::from(ms)) / 2.0),
            None if passed * 2 == all => lower = Some(ms),
            None if passed * 2 > all => return Some(f64::from(ms)),
            None => {}
        }
    }
    lower.map(f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_value_or_the_mean_of_two() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![(3.0, 1), (1.0, 1), (2.0, 1)]), Some(2.0));
        assert_eq!(median(vec![(4.0, 1), (1.0, 1), (2.0, 1), (3.0, 1)]), Some(2.5));
        assert_eq!(median(vec![(1.0, 3), (9.0, 1)]), Some(1.0));
        assert_eq!(median(vec![(1.0, 2), (9.0, 2), (5.0, 0)]), Some(5.0));
    }

    #[test]
    fn a_reservoir_stays_bounded_and_evenly_spaced() {
        let mut spread = Reservoir::default();
        for second in 0..86_400 {
            spread.push(second as f32);
        }
        assert!(
            spread.values_ms().len() >= CAPACITY / 2 - 1 && spread.values_ms().len() < CAPACITY,
            "{}",
            spread.values_ms().len()
        );
        assert_eq!(spread.count(), 86_400);
        let median = spread.median().expect("there are many");
        assert!((median / 43_200.0 - 1.0).abs() < 0.05, "{median}");
        // A bad hour of a day does not move it.
        let mut spread = Reservoir::default();
        for second in 0..86_400 {
            spread.push(if (40_000..43_600).contains(&second) { 90.0 } else { 8.0 });
        }
        assert_eq!(spread.median(), Some(8.0));
    }
}
