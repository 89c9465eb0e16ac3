//! `cat`: several recordings as one.

use std::path::Path;

use super::cut::{open_checked, report_copied};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder::failure;
use crate::cli::time_range::Cat;
use crate::recording::{Copier, Replayer, Timestamp};

/// Several recordings as one.
pub fn cat(cat: &Cat) -> Result<Exit, Failure> {
    let mut all = Vec::new();
    for file in &cat.files {
        let replayer = open_checked(file)?;
        let (Some(begin), Some(end)) =
            (replayer.timestamp(0), replayer.len().checked_sub(1).and_then(|last| replayer.timestamp(last)))
        else {
            return Err(Failure::new(
                Exit::Damaged,
                format!("cannot take {}", quoted(file)),
                "there is no sample in it",
                "leave it out",
            ));
        };
        all.push(InputRecording { file, replayer, begin, end });
    }
    all.sort_by_key(|piece| (piece.begin, piece.replayer.header().created_ns));
    let mut end: Option<Timestamp> = None;
    all.retain_mut(|piece| {
        let more = end.is_none_or(|end| piece.skip_until(end));
        end = if more { Some(piece.end) } else { end };
        more
    });
    for (piece, next) in all.iter().zip(all.iter().skip(1)) {
        check_joinable(piece, next)?;
    }
    let mut replayers: Vec<Replayer> = all.into_iter().map(|piece| piece.replayer).collect();
    let copied = Copier::join(&mut replayers, &cat.output).map_err(failure)?;
    Ok(report_copied(&copied, &cat.output))
}

/// One of several recordings.
struct InputRecording<'a> {
    file: &'a Path,
    replayer: Replayer,
    begin: Timestamp,
    end: Timestamp,
}

impl InputRecording<'_> {
    /// What repeats the one before, up to the sample that was taken then: its disk had failed, and this one goes on. False
    /// where nothing else is in it.
    fn skip_until(&mut self, until: Timestamp) -> bool {
        let last = self.replayer.index_at_time(until.realtime_ns);
        let Some(last) = last.filter(|&last| self.replayer.timestamp(last) == Some(until)) else { return true };
        let Some(begin) = self.replayer.timestamp(last + 1) else { return false };
        self.replayer.restrict_to(last + 1..self.replayer.len());
        self.begin = begin;
        true
    }
}

/// Counters of another machine, or of before it was started anew, are never put beside each other.
fn check_joinable(piece: &InputRecording, next: &InputRecording) -> Result<(), Failure> {
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
