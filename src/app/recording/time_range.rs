//! A part of a recording: from when to when.

use std::ops::Range;
use std::path::Path;

use jiff::tz::TimeZone;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::cli::time_range::TimeRange;
use crate::recording::Replayer;

/// Shows only that part of a recording.
pub fn narrow(replayer: &mut Replayer, part: &TimeRange, file: &Path, zone: &TimeZone) -> Result<(), Failure> {
    if !part.is_unbounded() {
        let range = range(replayer, part, file, zone)?;
        replayer.restrict_to(range);
    }
    Ok(())
}

/// The samples of a part: so that its first interval reaches back to where it begins, and its last one ends within it.
pub fn range(replayer: &Replayer, part: &TimeRange, file: &Path, zone: &TimeZone) -> Result<Range<usize>, Failure> {
    let realtime = |index: usize| replayer.timestamp(index).map(|at| at.realtime_ns);
    let (first, last) = (realtime(0), replayer.len().checked_sub(1).and_then(realtime));
    let nothing = || {
        let what = format!("there is no such part of {}", quoted(file));
        let span = first.zip(last).map_or_else(String::new, |(first, last)| {
            format!("it reaches from {} to {}", format_time(first, zone), format_time(last, zone))
        });
        Failure::new(Exit::Usage, what, span, "give --from and --to within that")
    };
    let (first, last) = first.zip(last).ok_or_else(nothing)?;
    let at = |moment: crate::state::time_spec::TimeSpec| moment.resolve(first, last, zone).ok_or_else(nothing);
    let (from, to) = (part.from.map(at).transpose()?, part.to.map(at).transpose()?);
    // The clock on the wall may have been set back meanwhile.
    let (earliest, latest) = (first.min(last), first.max(last));
    let begin = from.map_or(0, |from| replayer.index_at_time(from).unwrap_or(0));
    let end = to.filter(|&to| to < latest).map_or(replayer.len(), |to| replayer.index_at_time(to).unwrap_or(0) + 1);
    let outside = from.is_some_and(|from| from > latest) || to.is_some_and(|to| to < earliest);
    if outside || from.zip(to).is_some_and(|(from, to)| from > to) || begin >= end {
        return Err(nothing());
    }
    Ok(begin..end)
}

fn format_time(realtime_ns: i64, zone: &TimeZone) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(realtime_ns)).map(|at| at.to_zoned(zone.clone()));
    at.map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
