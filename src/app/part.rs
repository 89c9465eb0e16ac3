//! Parts of recordings: from when to when, `cut` and `cat`.

use std::ops::Range;
use std::path::Path;

use jiff::tz::TimeZone;

use super::exit::{Exit, Failure, quoted};
use super::recording::{amount, failure};
use super::stdout::complain;
use crate::cli::part::{Cat, Cut, Part};
use crate::recording::{Copied, Copier, Moment, Replayer};
use crate::report::words::many;

/// Shows only that part of a recording.
pub fn narrow(replayer: &mut Replayer, part: &Part, file: &Path, zone: &TimeZone) -> Result<(), Failure> {
    if !part.is_all() {
        let range = range(replayer, part, file, zone)?;
        replayer.narrow(range);
    }
    Ok(())
}

/// The samples of a part: so that its first interval reaches back to where it begins, and its last one ends within it.
fn range(replayer: &Replayer, part: &Part, file: &Path, zone: &TimeZone) -> Result<Range<usize>, Failure> {
    let realtime = |index: usize| replayer.instant(index).map(|at| at.realtime_ns);
    let (first, last) = (realtime(0), replayer.len().checked_sub(1).and_then(realtime));
    let nothing = || {
        let what = format!("there is no such part of {}", quoted(file));
        let span = first.zip(last).map_or_else(String::new, |(first, last)| {
            format!("it reaches from {} to {}", clock(first, zone), clock(last, zone))
        });
        Failure::new(Exit::Usage, what, span, "give --from and --to within that")
    };
    let (first, last) = first.zip(last).ok_or_else(nothing)?;
    let at = |moment: crate::state::moment::Moment| moment.resolve(first, last, zone).ok_or_else(nothing);
    let (from, to) = (part.from.map(at).transpose()?, part.to.map(at).transpose()?);
    // The clock on the wall may have been set back meanwhile.
    let (earliest, latest) = (first.min(last), first.max(last));
    let begin = from.map_or(0, |from| replayer.at_time(from).unwrap_or(0));
    let end = to.filter(|&to| to < latest).map_or(replayer.len(), |to| replayer.at_time(to).unwrap_or(0) + 1);
    let outside = from.is_some_and(|from| from > latest) || to.is_some_and(|to| to < earliest);
    if outside || from.zip(to).is_some_and(|(from, to)| from > to) || begin >= end {
        return Err(nothing());
    }
    Ok(begin..end)
}

fn clock(realtime_ns: i64, zone: &TimeZone) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(realtime_ns)).map(|at| at.to_zoned(zone.clone()));
    at.map_or_else(|_| "?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// A part as a recording of its own.
pub fn cut(cut: &Cut) -> Result<Exit, Failure> {
    let mut replayer = sound(&cut.file)?;
    let range = range(&replayer, &cut.part, &cut.file, &TimeZone::system())?;
    let copied = Copier::part(&mut replayer, range, &cut.output).map_err(failure)?;
    Ok(told(&copied, &cut.output))
}

/// Several recordings as one.
pub fn cat(cat: &Cat) -> Result<Exit, Failure> {
    let mut all = Vec::new();
    for file in &cat.files {
        let replayer = sound(file)?;
        let (Some(begin), Some(end)) =
            (replayer.instant(0), replayer.len().checked_sub(1).and_then(|last| replayer.instant(last)))
        else {
            return Err(Failure::new(
                Exit::Damaged,
                format!("cannot take {}", quoted(file)),
                "there is no sample in it",
                "leave it out",
            ));
        };
        all.push(Piece { file, replayer, begin, end });
    }
    all.sort_by_key(|piece| (piece.begin, piece.replayer.header().created_ns));
    let mut end: Option<Moment> = None;
    all.retain_mut(|piece| {
        let more = end.is_none_or(|end| piece.leave_out(end));
        end = if more { Some(piece.end) } else { end };
        more
    });
    for (piece, next) in all.iter().zip(all.iter().skip(1)) {
        fits(piece, next)?;
    }
    let mut replayers: Vec<Replayer> = all.into_iter().map(|piece| piece.replayer).collect();
    let copied = Copier::join(&mut replayers, &cat.output).map_err(failure)?;
    Ok(told(&copied, &cat.output))
}

/// One of several recordings.
struct Piece<'a> {
    file: &'a Path,
    replayer: Replayer,
    begin: Moment,
    end: Moment,
}

impl Piece<'_> {
    /// What repeats the one before, up to the sample that was taken then: its disk had failed, and this one goes on. False
    /// where nothing else is in it.
    fn leave_out(&mut self, until: Moment) -> bool {
        let last = self.replayer.at_time(until.realtime_ns);
        let Some(last) = last.filter(|&last| self.replayer.instant(last) == Some(until)) else { return true };
        let Some(begin) = self.replayer.instant(last + 1) else { return false };
        self.replayer.narrow(last + 1..self.replayer.len());
        self.begin = begin;
        true
    }
}

/// Counters of another machine, or of before it was started anew, are never put beside each other.
fn fits(piece: &Piece, next: &Piece) -> Result<(), Failure> {
    let (one, other) = (&piece.replayer.meta().host, &next.replayer.meta().host);
    let (why, remedy) = match () {
        () if one.hostname != other.hostname || one.machine != other.machine => ("they are of different machines", ""),
        () if one.boot_id != other.boot_id => {
            ("the machine was started anew in between: its counters began again", "put together those of one run")
        }
        () if next.begin.boottime_ns <= piece.end.boottime_ns => ("they overlap in time", "cut one of them: stalltop cut --to"),
        () => return Ok(()),
    };
    let what = format!("cannot put {} behind {}", quoted(next.file), quoted(piece.file));
    Err(Failure::new(Exit::Refused, what, why, remedy))
}

/// With its frames looked for, whatever its index says.
fn sound(file: &Path) -> Result<Replayer, Failure> {
    let mut replayer = Replayer::open(file).map_err(failure)?;
    replayer.check_frames().map_err(failure)?;
    Ok(replayer)
}

fn told(copied: &Copied, output: &Path) -> Exit {
    let Copied { samples, lost, bytes } = copied;
    let damaged = if *lost > 0 { format!(", {} left out", many(*lost, "damaged one")) } else { String::new() };
    complain(&format!("{}{damaged}, {} into {}", many(*samples, "sample"), amount(*bytes), quoted(output)));
    if *lost > 0 { Exit::Damaged } else { Exit::Fine }
}
