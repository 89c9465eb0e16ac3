//! Translates --from, --to, --at and --for into a range of samples of a recording.
//!
//! The range begins with the last sample taken at or before the start, so that its first interval contains the start; it ends with
//! the last sample taken at or before the end. A mark stands for its time.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::cli::time_range::{RecordingTime, TIME_FORMS, TimeRange};
use crate::recording::{Replayer, Timestamp};
use crate::report::formatting::printable;
use crate::units::time::in_zone;
use crate::units::time_spec::TimeSpec;

/// The samples from --from to --to; without an end where the recording may grow. Fails where the times are outside.
pub fn between(replayer: &Replayer, range: &TimeRange, file: &Path, zone: &TimeZone) -> Result<Range<usize>, Failure> {
    if range.is_unbounded() {
        return Ok(0..usize::MAX);
    }
    let outside = || {
        let what = format!("{} has no samples in this range", quoted(file));
        Failure::new(Exit::Usage, what, coverage(replayer, zone), "give --from and --to within these times")
    };
    let (first, last) = first_and_last(replayer).ok_or_else(outside)?;
    let at = |time: &RecordingTime| time_spec(time, replayer, file)?.resolve(first, last, zone).ok_or_else(outside);
    let (from, to) = (range.from.as_ref().map(at).transpose()?, range.to.as_ref().map(at).transpose()?);
    // The clock may have been set back during the recording.
    let (earliest, latest) = (first.min(last), first.max(last));
    let start = from.map_or(0, |from| replayer.index_at_time(from).unwrap_or(0));
    let end = to.filter(|&to| to < latest).map_or(usize::MAX, |to| replayer.index_at_time(to).unwrap_or(0) + 1);
    let is_outside = from.is_some_and(|from| from > latest) || to.is_some_and(|to| to < earliest);
    if is_outside || from.zip(to).is_some_and(|(from, to)| from > to) || start >= end.min(replayer.len()) {
        return Err(outside());
    }
    Ok(start..end)
}

/// The samples of --at and --for: `span` from that time on, or the last `span` of the recording without a time. `None` where the
/// time cannot be found on the recording's days. `Some` may hold a single sample, which makes no interval.
pub fn at(replayer: &Replayer, at: Option<TimeSpec>, span: Option<Duration>, zone: &TimeZone) -> Option<Range<usize>> {
    let last = replayer.len().checked_sub(1)?;
    let realtime = |index: usize| replayer.timestamp(index).map(|at| at.realtime_ns);
    let Some(at) = at else {
        let Some(span) = span else { return Some(0..last + 1) };
        let reaches_start = |index: &usize| elapsed(replayer, *index, last).is_some_and(|elapsed| elapsed >= span);
        return Some((0..last).rev().find(reaches_start).unwrap_or(0)..last + 1);
    };
    let start_ns = at.resolve(realtime(0)?, realtime(last)?, zone)?;
    let start = replayer.index_at_time(start_ns)?;
    let Some(span) = span else { return Some(start..last + 1) };
    // From the first sample to the end of the span; negative where all of it is before the recording.
    let until_ns = i128::from(start_ns.saturating_sub(realtime(start)?)) + i128::try_from(span.as_nanos()).ok()?;
    let is_within = |index: &usize| {
        elapsed(replayer, start, *index)
            .is_some_and(|elapsed| i128::try_from(elapsed.as_nanos()).is_ok_and(|ns| ns <= until_ns))
    };
    Some(start..(start..=last).take_while(is_within).last().map_or(start, |end| end + 1))
}

/// The same for a command that prints the intervals: a time with no interval at or after it is a failure.
pub fn at_interval(
    replayer: &Replayer,
    time: Option<&RecordingTime>,
    span: Option<Duration>,
    file: &Path,
    zone: &TimeZone,
) -> Result<Range<usize>, Failure> {
    let time = time.map(|time| time_spec(time, replayer, file)).transpose()?;
    let samples = at(replayer, time, span, zone).filter(|samples| time.is_none() || samples.len() > 1);
    samples.ok_or_else(|| {
        let what = format!("{} has no intervals at this time", quoted(file));
        Failure::new(Exit::Usage, what, coverage(replayer, zone), "give --at within these times")
    })
}

/// The time that was typed, or that of the first mark with this text, or else of the first one that begins with it.
pub fn time_spec(time: &RecordingTime, replayer: &Replayer, file: &Path) -> Result<TimeSpec, Failure> {
    const MAX_NAMED: usize = 5;
    let text = match time {
        RecordingTime::Time(time) => return Ok(*time),
        RecordingTime::Mark(text) => text,
    };
    let marks = replayer.marks();
    let begins = || marks.iter().find(|mark| mark.text.starts_with(text.as_str()));
    if let Some(mark) = marks.iter().find(|mark| mark.text == *text).or_else(begins) {
        return Ok(TimeSpec::Absolute(mark.at.realtime_ns));
    }
    let texts: Vec<String> = marks.iter().take(MAX_NAMED).map(|mark| format!("'{}'", printable(&mark.text))).collect();
    let why = match marks.len() {
        0 => "it has no marks".to_owned(),
        many => format!("its marks are {}{}", texts.join(", "), if many > MAX_NAMED { ", …" } else { "" }),
    };
    let what = format!("{} has no mark '{}'", quoted(file), printable(text));
    Err(Failure::new(Exit::Usage, what, why, format!("a time is {TIME_FORMS}")))
}

/// CLOCK_REALTIME of the first and the last sample.
fn first_and_last(replayer: &Replayer) -> Option<(i64, i64)> {
    let realtime = |index: usize| replayer.timestamp(index).map(|at| at.realtime_ns);
    realtime(0).zip(replayer.len().checked_sub(1).and_then(realtime))
}

/// `it covers 2026-11-23 10:00:00 to 2026-11-23 11:00:00`; empty without samples.
fn coverage(replayer: &Replayer, zone: &TimeZone) -> String {
    first_and_last(replayer).map_or_else(String::new, |(first, last)| {
        format!("it covers {} to {}", format_time(first, zone), format_time(last, zone))
    })
}

/// The time between two samples: of one boot by CLOCK_BOOTTIME, which cannot be set, else by CLOCK_REALTIME.
fn elapsed(replayer: &Replayer, from: usize, to: usize) -> Option<Duration> {
    let (older, newer): (Timestamp, Timestamp) = replayer.timestamp(from).zip(replayer.timestamp(to))?;
    let ns = match replayer.host(from).is_same_boot(&replayer.host(to)) {
        true => newer.boottime_ns.saturating_sub(older.boottime_ns),
        false => u64::try_from(newer.realtime_ns.saturating_sub(older.realtime_ns)).unwrap_or(0),
    };
    Some(Duration::from_nanos(ns))
}

fn format_time(realtime_ns: i64, zone: &TimeZone) -> String {
    in_zone(realtime_ns, zone, "%Y-%m-%d %H:%M:%S").unwrap_or_else(|| "?".to_owned())
}
