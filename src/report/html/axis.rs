//! The axes of a plot: time from left to right, values from bottom to top. Positions are fractions of the plot, 0 … 1.

use jiff::tz::TimeZone;

use crate::sample::Instant;
use crate::units::time::in_zone;

/// Time from left to right: by CLOCK_BOOTTIME, or by CLOCK_REALTIME if the recording spans several boots. Labels are times of
/// day.
#[derive(Clone, Debug)]
pub struct TimeAxis {
    from: Instant,
    to: Instant,
    spans_boots: bool,
    pub zone: TimeZone,
}

/// Labels at most.
const MAX_TICKS: f64 = 8.0;

/// Possible distances of labels, in seconds.
const TICK_STEPS: [f64; 21] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1800.0,
    3600.0,
    7200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
];

impl TimeAxis {
    pub fn new(from: Instant, to: Instant, several_runs: bool, zone: TimeZone) -> TimeAxis {
        TimeAxis { from, to, spans_boots: several_runs, zone }
    }

    pub fn position(&self, at: Instant) -> f64 {
        (self.seconds_from_start(at) / self.seconds().max(1e-9)).clamp(0.0, 1.0)
    }

    pub fn end(&self) -> Instant {
        self.to
    }

    pub fn seconds(&self) -> f64 {
        self.seconds_from_start(self.to)
    }

    fn seconds_from_start(&self, at: Instant) -> f64 {
        match self.spans_boots {
            false => at.seconds_since(self.from),
            true => at.realtime_ns.saturating_sub(self.from.realtime_ns).max(0) as f64 / 1e9,
        }
    }

    /// Round times of day with their positions.
    pub fn ticks(&self) -> Vec<(f64, String)> {
        let whole = self.seconds();
        let Some(apart) = TICK_STEPS.into_iter().find(|apart| whole / apart <= MAX_TICKS) else { return Vec::new() };
        let Some(first) = self.zoned(self.from.realtime_ns) else { return Vec::new() };
        // Round in local time; the offset is that of the beginning.
        let offset = f64::from(first.offset().seconds());
        let begin = self.from.realtime_ns as f64 / 1e9 + offset;
        let mut at = (begin / apart).ceil() * apart;
        let mut ticks = Vec::new();
        while at <= begin + whole {
            let realtime_ns = ((at - offset) * 1e9).round() as i64;
            let format = if apart < 60.0 {
                "%H:%M:%S"
            } else if apart < 43_200.0 {
                "%H:%M"
            } else {
                "%b %d %H:%M"
            };
            let label = in_zone(realtime_ns, &self.zone, format).unwrap_or_default();
            ticks.push(((at - begin) / whole.max(1e-9), label));
            at += apart;
        }
        ticks
    }

    /// A time of day, with the day if there are several.
    pub fn format_time(&self, at: Instant) -> String {
        let format = if self.seconds() >= 43_200.0 { "%b %d %H:%M:%S" } else { "%H:%M:%S" };
        in_zone(at.realtime_ns, &self.zone, format).unwrap_or_else(|| "?".to_owned())
    }

    /// Date and time.
    pub fn format_date_time(&self, at: Instant) -> String {
        in_zone(at.realtime_ns, &self.zone, "%Y-%m-%d %H:%M:%S %Z").unwrap_or_else(|| "?".to_owned())
    }

    fn zoned(&self, realtime_ns: i64) -> Option<jiff::Zoned> {
        Some(jiff::Timestamp::from_nanosecond(i128::from(realtime_ns)).ok()?.to_zoned(self.zone.clone()))
    }
}

/// Values from bottom to top.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueAxis {
    /// From 0 to this
    Linear(f64),
    /// Between these powers of ten
    Logarithmic(i32, i32),
}

impl ValueAxis {
    /// For values up to `most` units; the top is a round number of units.
    pub fn linear(most: f64, unit: f64) -> ValueAxis {
        if most <= 0.0 || !most.is_finite() {
            return ValueAxis::Linear(unit);
        }
        let power = 10_f64.powi(libm::log10(most).floor() as i32);
        let rounds = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0];
        let top = rounds.into_iter().map(|round| round * power).find(|top| *top >= most * 0.999);
        ValueAxis::Linear(top.unwrap_or(most) * unit)
    }

    /// For values above 0.
    pub fn logarithmic(least: f64, most: f64) -> ValueAxis {
        let (low, high) = (libm::log10(least).floor() as i32, libm::log10(most).ceil() as i32);
        ValueAxis::Logarithmic(low, high.max(low + 1))
    }

    /// The position of a value.
    pub fn position(self, value: f64) -> f64 {
        let place = match self {
            ValueAxis::Linear(top) => value / top,
            ValueAxis::Logarithmic(low, high) => {
                let low = f64::from(low);
                (libm::log10(value.max(1e-300)) - low) / (f64::from(high) - low)
            }
        };
        place.clamp(0.0, 1.0)
    }

    /// Values with a grid line.
    pub fn ticks(self) -> Vec<f64> {
        match self {
            ValueAxis::Linear(top) => vec![0.0, top / 2.0, top],
            ValueAxis::Logarithmic(low, high) => (low..=high).map(|power| 10_f64.powi(power)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(seconds: u64) -> Instant {
        let ns = seconds * 1_000_000_000;
        let realtime_ns = 1_800_000_000_000_000_000 + i64::try_from(ns).unwrap();
        Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns }
    }

    #[test]
    fn times_are_round_and_few() {
        let axis = TimeAxis::new(instant(7), instant(307), false, TimeZone::UTC);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["08:01", "08:02", "08:03", "08:04", "08:05"]);
        for hours in [1_u64, 5, 24, 24 * 30] {
            let axis = TimeAxis::new(instant(3), instant(hours * 3600), false, TimeZone::UTC);
            assert!((2..=9).contains(&axis.ticks().len()), "{hours}: {:?}", axis.ticks());
            assert!(axis.ticks().iter().all(|(place, _)| (0.0..=1.0).contains(place)));
        }
    }

    #[test]
    fn values_fit_below_a_round_top() {
        assert_eq!(ValueAxis::linear(61.0, 1.0), ValueAxis::Linear(80.0));
        assert_eq!(ValueAxis::linear(22.7, 1024.0), ValueAxis::Linear(30.0 * 1024.0));
        let axis = ValueAxis::logarithmic(0.000_11, 0.1087);
        assert_eq!(axis, ValueAxis::Logarithmic(-4, 0));
        assert!((axis.position(0.01) - 0.5).abs() < 1e-9 && axis.position(0.0) == 0.0);
    }
}
