//! `cat`: several recordings as one.

use std::path::Path;

use super::cut::{sound, told};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recording::failure;
use crate::cli::part::Cat;
use crate::recording::{Copier, Moment, Replayer};

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
