//! Times and durations as text, for every layer.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// RFC 3339 in UTC with milliseconds, from nanoseconds since the Unix epoch; empty if out of range.
pub fn rfc3339(realtime_ns: i64) -> String {
    timestamp(realtime_ns).map_or_else(String::new, |at| format!("{at:.3}"))
}

/// RFC 3339 in UTC without a fraction, from seconds since the Unix epoch; empty if out of range.
pub fn rfc3339_seconds(realtime_s: i64) -> String {
    Timestamp::from_second(realtime_s).map_or_else(|_| String::new(), |at| format!("{at:.0}"))
}

/// The time of day: `14:03:07`; `--:--:--` if out of range.
pub fn time_of_day(realtime_ns: i64, zone: &TimeZone) -> String {
    in_zone(realtime_ns, zone, "%H:%M:%S").unwrap_or_else(|| "--:--:--".to_owned())
}

/// A time in a format of strftime(3); `None` if out of range.
pub fn in_zone(realtime_ns: i64, zone: &TimeZone, format: &str) -> Option<String> {
    Some(timestamp(realtime_ns)?.to_zoned(zone.clone()).strftime(format).to_string())
}

fn timestamp(realtime_ns: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(realtime_ns)).ok()
}

/// Whole nanoseconds; the largest number for longer than 584 years.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The first time after `now` at which an interval ends, both since the begin of the first one: one that is missed makes no later one late.
pub fn next_end(now: Duration, interval: Duration) -> Duration {
    let ended = now.as_nanos().checked_div(interval.as_nanos()).unwrap_or(0);
    interval.saturating_mul(u32::try_from(ended).unwrap_or(u32::MAX).saturating_add(1))
}

/// A duration in its two largest units: `250 ms`, `1.5 s`, `31 s`, `1m31s`, `2h01m`, `12d04h`.
pub fn duration(seconds: f64) -> String {
    let compact = compact_duration(seconds);
    let unit = compact.find(|char: char| char.is_ascii_alphabetic()).filter(|_| seconds < 60.0);
    match unit.and_then(|unit| compact.split_at_checked(unit)) {
        Some((number, unit)) => format!("{number} {unit}"),
        None => compact,
    }
}

/// The same without a blank, as an option takes it and for narrow cells: `250ms`, `1.5s`.
pub fn compact_duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0 if seconds > 0.0 && seconds < 0.9995 => format!("{:.0}ms", seconds * 1000.0),
        0..10 => format!("{}s", (seconds.max(0.0) * 10.0).round() / 10.0),
        10..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        3600..86_400 => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d{:02}h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_are_missed_are_left_out() {
        let next = |now: u64| next_end(Duration::from_millis(now), Duration::from_millis(200)).as_millis();
        assert_eq!([200, 201, 399, 400, 1990, 3_600_001].map(next), [400, 400, 400, 600, 2000, 3_600_200]);
        assert_eq!(next_end(Duration::MAX, Duration::from_millis(100)), Duration::from_millis(100) * u32::MAX);
    }

    #[test]
    fn durations_have_two_units() {
        let seconds = [91.0, 0.25, 0.999_8, 1.52, 7.04, 366.0, 7260.0, 12.0 * 86_400.0 + 4.0 * 3600.0];
        assert_eq!(seconds.map(duration), ["1m31s", "250 ms", "1 s", "1.5 s", "7 s", "6m06s", "2h01m", "12d04h"]);
        assert_eq!(seconds.map(compact_duration), ["1m31s", "250ms", "1s", "1.5s", "7s", "6m06s", "2h01m", "12d04h"]);
    }

    #[test]
    fn times_are_of_their_zone() {
        let ns = 1_700_000_000_123_456_789;
        assert_eq!(rfc3339(ns), "2023-11-14T22:13:20.123Z");
        assert_eq!(rfc3339_seconds(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(time_of_day(ns, &TimeZone::UTC), "22:13:20");
    }
}
