//! `cut`: copies a part of a recording to a new recording.

use std::path::Path;

use jiff::tz::TimeZone;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio::print_stderr;
use crate::app::recorder::failure;
use crate::app::time_range;
use crate::cli::time_range::Cut;
use crate::recording::{Copier, CopyTotals, Replayer};
use crate::report::formatting::pluralize;
use crate::units::format;

pub fn cut(cut: &Cut) -> Result<Exit, Failure> {
    let mut replayer = open_checked(&cut.file)?;
    replayer.require_sample().map_err(failure)?;
    let range = time_range::between(&replayer, &cut.range, &cut.file, &TimeZone::system())?;
    let range = range.start..range.end.min(replayer.len());
    let copied = Copier::copy_range(&mut replayer, range, &cut.output).map_err(failure)?;
    Ok(report_copied(&copied, &cut.output))
}

/// Opens a recording and checks all its frames, not only the index.
pub(super) fn open_checked(file: &Path) -> Result<Replayer, Failure> {
    let mut replayer = Replayer::open(file).map_err(failure)?;
    replayer.check_frames().map_err(failure)?;
    Ok(replayer)
}

pub(super) fn report_copied(copied: &CopyTotals, output: &Path) -> Exit {
    let CopyTotals { samples, lost_samples: lost, bytes } = copied;
    let damaged = if *lost > 0 { format!(", {} left out", pluralize(*lost, "damaged sample")) } else { String::new() };
    print_stderr(&format!(
        "{}{damaged}, {} written to {}",
        pluralize(*samples, "sample"),
        format::bytes(*bytes as f64),
        quoted(output)
    ));
    if *lost > 0 { Exit::Damaged } else { Exit::Success }
}
