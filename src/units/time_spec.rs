//! A time in a recording as users type it, in options such as `--from` and at the `b` prompt: `12:03`, `12:03:15`, RFC 3339,
//! `-5m` (before the end), `+90s` (after the start).

use jiff::tz::TimeZone;

/// A parsed time, absolute or relative to a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeSpec {
    /// Seconds after midnight in the local time zone
    TimeOfDay(u32),
    /// Nanoseconds since the Unix epoch
    Absolute(i64),
    BeforeEnd(f64),
    AfterStart(f64),
}

impl TimeSpec {
    /// `None` if the text is not a time.
    pub fn parse(text: &str) -> Option<TimeSpec> {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix('-') {
            return parse_duration(rest).map(TimeSpec::BeforeEnd);
        }
        if let Some(rest) = text.strip_prefix('+') {
            return parse_duration(rest).map(TimeSpec::AfterStart);
        }
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return i64::try_from(at.as_nanosecond()).ok().map(TimeSpec::Absolute);
        }
        let mut parts = text.split(':');
        let number = |part: &str, below: u32| -> Option<u32> {
            let digits = !part.is_empty() && part.len() <= 2 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|&number| digits && number < below)
        };
        let hour = number(parts.next()?, 24)?;
        let minute = number(parts.next()?, 60)?;
        let second = parts.next().map_or(Some(0), |part| number(part, 60))?;
        parts.next().is_none().then_some(TimeSpec::TimeOfDay(hour * 3600 + minute * 60 + second))
    }

    /// Nanoseconds since the Unix epoch, for a recording from `first_ns` to `last_ns`. A time of day is on the day of the end,
    /// or on the day before if it would lie after the end and the recording reaches back that far.
    pub fn resolve(self, first_ns: i64, last_ns: i64, zone: &TimeZone) -> Option<i64> {
        match self {
            TimeSpec::Absolute(at) => Some(at),
            TimeSpec::BeforeEnd(seconds) => Some(last_ns.saturating_sub((seconds * 1e9) as i64)),
            TimeSpec::AfterStart(seconds) => Some(first_ns.saturating_add((seconds * 1e9) as i64)),
            TimeSpec::TimeOfDay(second) => {
                let last = jiff::Timestamp::from_nanosecond(i128::from(last_ns)).ok()?.to_zoned(zone.clone());
                let time = jiff::civil::Time::midnight() + jiff::Span::new().seconds(i64::from(second));
                let on = |date: jiff::civil::Date| {
                    let at = date.to_datetime(time).to_zoned(zone.clone()).ok()?;
                    i64::try_from(at.timestamp().as_nanosecond()).ok()
                };
                let today = on(last.date())?;
                let yesterday = on(last.date().yesterday().ok()?)?;
                Some(if today > last_ns && yesterday >= first_ns { yesterday } else { today })
            }
        }
    }
}

/// `90`, `90s`, `5m`, `2h`, `1d`.
fn parse_duration(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 's') => (text.get(..at)?, 1.0),
        (at, 'm') => (text.get(..at)?, 60.0),
        (at, 'h') => (text.get(..at)?, 3600.0),
        (at, 'd') => (text.get(..at)?, 86_400.0),
        _ => (text, 1.0),
    };
    let number: f64 = digits.parse().ok()?;
    (number.is_finite() && (0.0..1e9).contains(&number)).then_some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_formats_are_parsed() {
        assert_eq!(TimeSpec::parse("12:03"), Some(TimeSpec::TimeOfDay(12 * 3600 + 180)));
        assert_eq!(TimeSpec::parse("12:03:15"), Some(TimeSpec::TimeOfDay(12 * 3600 + 195)));
        assert_eq!(TimeSpec::parse("-5m"), Some(TimeSpec::BeforeEnd(300.0)));
        assert_eq!(TimeSpec::parse("+90s"), Some(TimeSpec::AfterStart(90.0)));
        assert_eq!(TimeSpec::parse("1970-01-01T00:00:01Z"), Some(TimeSpec::Absolute(1_000_000_000)));
        for wrong in ["", "12", "25:00", "12:60", "12:03:15:1", "-", "+x", "noon", "12:+3"] {
            assert_eq!(TimeSpec::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_time_of_day_lies_within_the_recording() {
        let day = 86_400_000_000_000;
        let (first, last) = (day - 3_600_000_000_000, day + 3_600_000_000_000);
        let at = |text: &str| TimeSpec::parse(text)?.resolve(first, last, &TimeZone::UTC);
        assert_eq!(at("23:30"), Some(day - 1_800_000_000_000));
        assert_eq!(at("00:30"), Some(day + 1_800_000_000_000));
        assert_eq!(at("-10s"), Some(last - 10_000_000_000));
    }
}
