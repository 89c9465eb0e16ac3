//! `cat`: joins recordings of one boot.

use std::path::Path;

use super::cut::{open_checked, report_copied};
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::recorder::failure;
use crate::cli::time_range::Cat;
use crate::recording::{Copier, Replayer, Timestamp};
use crate::units::SmallSort;

pub fn cat(cat: &Cat) -> Result<Exit, Failure> {
    let mut all = Vec::new();
    for file in &cat.files {
        let replayer = open_checked(file)?;
        let (begin, end) = replayer.require_sample().map_err(failure)?;
        all.push(InputRecording { file, replayer, begin, end });
    }
    all.small_sort_by_key(|part| (part.begin, part.replayer.header().created_ns));
    let mut end: Option<Timestamp> = None;
    all.retain_mut(|part| {
        let has_more = end.is_none_or(|end| part.skip_until(end));
        end = if has_more { Some(part.end) } else { end };
        has_more
    });
    for (part, next) in all.iter().zip(all.iter().skip(1)) {
        check_joinable(part, next)?;
    }
    let mut replayers: Vec<Replayer> = all.into_iter().map(|part| part.replayer).collect();
    let copied = Copier::join(&mut replayers, &cat.output).map_err(failure)?;
    Ok(report_copied(&copied, &cat.output))
}

/// One of the recordings.
struct InputRecording<'a> {
    file: &'a Path,
    replayer: Replayer,
    begin: Timestamp,
    end: Timestamp,
}

impl InputRecording<'_> {
    /// Skips the samples that the recording before also has, up to the one taken at `until`: the recorder repeats them in a new
    /// file after a disk error. Returns false if no others remain.
    fn skip_until(&mut self, until: Timestamp) -> bool {
        let last = self.replayer.index_at_time(until.realtime_ns);
        let Some(last) = last.filter(|&last| self.replayer.timestamp(last) == Some(until)) else { return true };
        let Some(begin) = self.replayer.timestamp(last + 1) else { return false };
        self.replayer.restrict_to(last + 1..self.replayer.len());
        self.begin = begin;
        true
    }
}

/// Counters of another machine or another boot must not be compared.
fn check_joinable(part: &InputRecording, next: &InputRecording) -> Result<(), Failure> {
    let (one, other) = (&part.replayer.meta().host, &next.replayer.meta().host);
    let (why, remedy) = match () {
        () if one.hostname != other.hostname || one.machine != other.machine => {
            ("they are recordings of different machines", "")
        }
        () if one.boot_id != other.boot_id => {
            ("the machine was rebooted in between, and its counters started again at 0", "join the recordings of one boot")
        }
        () if next.begin.boottime_ns <= part.end.boottime_ns => ("they overlap in time", "cut one of them: stalltop cut --to"),
        () => return Ok(()),
    };
    let what = format!("cannot append {} to {}", quoted(next.file), quoted(part.file));
    Err(Failure::new(Exit::Refused, what, why, remedy))
}
