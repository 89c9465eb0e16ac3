//! Parses the values of options: durations and sizes with units, counts, speeds. Each error says what is allowed.

use std::time::Duration;

use crate::units::Millis;

/// The shortest and the longest time between samples.
pub const INTERVAL_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// The default time between samples.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The default time that a live session keeps samples in memory.
pub const DEFAULT_HISTORY: Duration = Duration::from_secs(600);

/// A hundred years: a clock plus this stays in range.
const MAX_DURATION: Duration = Duration::from_secs(100 * 365 * 86_400);

/// `500ms`, `5s`, `10m`, `2h`, `1d`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err("a duration is a number and ms, s, m, h or d, such as 500ms or 10m".to_owned()),
    };
    let number = parse_decimal(number).ok_or("a duration is a number and ms, s, m, h or d, such as 500ms or 10m")?;
    let duration = Duration::try_from_secs_f64(number * seconds).ok().filter(|duration| *duration <= MAX_DURATION);
    duration.ok_or_else(|| "a duration is at most a hundred years".to_owned())
}

/// A time between samples.
pub fn interval(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if INTERVAL_RANGE.contains(&duration) { Ok(duration) } else { Err("an interval is 100ms to 1h".to_owned()) }
}

/// A duration that is not zero.
pub fn positive_duration(text: &str) -> Result<Duration, String> {
    let duration = duration(text)?;
    if duration.is_zero() { Err("the duration must be longer than 0".to_owned()) } else { Ok(duration) }
}

/// `64M`, `1G`, `1.5GiB`: powers of 1024; a bare number is bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let shift = match unit.trim_end_matches(['B', 'b']).trim_end_matches('i').to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err("a size is a number and K, M, G or T, such as 64M or 1G".to_owned()),
    };
    let number = parse_decimal(number).ok_or("a size is a number and K, M, G or T, such as 64M or 1G")?;
    let bytes = number * (1_u64 << shift) as f64;
    if (1.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err("a size is 1 byte to 909494 T".to_owned()) }
}

/// `0.5ms`, `200us`, `1s`: the unit is required, because a bare 5 would be ambiguous.
pub fn latency(text: &str) -> Result<Millis, String> {
    let (number, unit) = split_unit(text);
    let wrong = || "a latency is a number and us, ms or s, such as 0.5ms or 200us".to_owned();
    let ms = match unit {
        "us" | "µs" => 0.001,
        "ms" => 1.0,
        "s" => 1000.0,
        _ => return Err(wrong()),
    };
    let latency = parse_decimal(number).ok_or_else(wrong)? * ms;
    if (0.001..=60_000.0).contains(&latency) { Ok(Millis(latency)) } else { Err("a latency is 1us to 60s".to_owned()) }
}

/// A number of 1 or more.
pub fn count(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|&count: &u32| count > 0);
    number.ok_or_else(|| "a count is a whole number of 1 or more".to_owned())
}

/// A pid.
pub fn pid(text: &str) -> Result<u32, String> {
    count(text).map_err(|_| "a pid is a whole number of 1 or more".to_owned())
}

/// A playback speed, as a multiple of real time.
pub fn speed(text: &str) -> Result<f64, String> {
    let number = parse_decimal(text.trim().trim_end_matches(['x', '×']));
    number.filter(|speed| (0.01..=1000.0).contains(speed)).ok_or_else(|| "a speed is 0.01 to 1000".to_owned())
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.trim())
}

/// Digits with at most one decimal point: no sign, no `inf`, no exponent.
pub fn parse_decimal(text: &str) -> Option<f64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|number: &f64| plain && number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["", "s", "-1s", "1y", "NaN", "inf", "1e9", "1..2", "1 000s", "99999999999999999999999d", "40000d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_interval_has_bounds() {
        assert!(interval("100ms").is_ok() && interval("1h").is_ok());
        for wrong in ["0", "99ms", "61m", "1ns", "1000000000"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("1G"), Ok(1 << 30));
        assert_eq!(size("64MiB"), Ok(64 << 20));
        assert_eq!(size("512"), Ok(512));
        for wrong in ["", "0", "G", "-1G", "1X", "1e3"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_latency_has_a_unit_and_bounds() {
        let ms = |text| latency(text).map(|ms| (ms.0 * 1000.0).round());
        assert_eq!([ms("0.5ms"), ms("200us"), ms("1.5s"), ms("3 ms")], [Ok(500.0), Ok(200.0), Ok(1_500_000.0), Ok(3000.0)]);
        for wrong in ["5", "0ms", "-1ms", "5min", "0.5us", "61s", "ms", "1e3ms", "NaNms"] {
            assert!(latency(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_count_is_whole() {
        assert_eq!((count("1"), pid("4194304")), (Ok(1), Ok(4_194_304)));
        for wrong in ["0", "-1", "1.5", "x", "", "99999999999"] {
            assert!(count(wrong).is_err() && pid(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_speed_has_bounds() {
        assert_eq!(speed("10"), Ok(10.0));
        assert_eq!(speed("0.5x"), Ok(0.5));
        assert!(speed("0").is_err() && speed("1e9").is_err() && speed("-1").is_err());
    }
}
