//! `cut`: a part of a recording as a recording of its own.

use std::path::Path;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdout::complain;
use crate::app::program::zone;
use crate::app::recording::part::range;
use crate::app::recording::{amount, failure};
use crate::cli::part::Cut;
use crate::recording::{Copied, Copier, Replayer};
use crate::report::words::many;

/// A part as a recording of its own.
pub fn cut(cut: &Cut) -> Result<Exit, Failure> {
    let mut replayer = sound(&cut.file)?;
    let range = range(&replayer, &cut.part, &cut.file, &zone::here())?;
    let copied = Copier::part(&mut replayer, range, &cut.output).map_err(failure)?;
    Ok(told(&copied, &cut.output))
}

/// With its frames looked for, whatever its index says.
pub(super) fn sound(file: &Path) -> Result<Replayer, Failure> {
    let mut replayer = Replayer::open(file).map_err(failure)?;
    replayer.check_frames().map_err(failure)?;
    Ok(replayer)
}

pub(super) fn told(copied: &Copied, output: &Path) -> Exit {
    let Copied { samples, lost, bytes } = copied;
    let damaged = if *lost > 0 { format!(", {} left out", many(*lost, "damaged one")) } else { String::new() };
    complain(&format!("{}{damaged}, {} into {}", many(*samples, "sample"), amount(*bytes), quoted(output)));
    if *lost > 0 { Exit::Damaged } else { Exit::Fine }
}
