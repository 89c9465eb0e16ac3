//! A directory of recordings, one behind the other: when the next one begins, and which old ones are deleted.
//!
//! Nothing is ever deleted but a recording of this machine, in this directory, that belongs to us, has its name from us,
//! is without fault and was closed in good order. The directory is held open: whoever swaps its path for another one moves
//! neither what is written nor what is deleted.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::exit::{Exit, Failure, quoted};
use super::{recording, stdout};
use crate::recording::{Folder, Replayer, Tail};
use crate::sample::{Host, Instant};

/// Where segments go, and how long each of them is and stays.
pub struct Segments {
    folder: Arc<Folder>,
    rotate: Duration,
    keep: Option<Duration>,
    /// CLOCK_BOOTTIME of the first sample of the segment that is being written
    begun_ns: Option<u64>,
}

impl Segments {
    /// The directory is made, ours alone, where there is none.
    pub fn into(directory: &Path, rotate: Duration, keep: Option<Duration>) -> Result<Segments, Failure> {
        let cannot = |why: String, remedy: &str| {
            Failure::new(Exit::CannotWrite, format!("cannot record into {}", quoted(directory)), why, remedy)
        };
        if !directory.is_dir() {
            let made = DirBuilder::new().mode(0o700).create(directory);
            made.map_err(|error| cannot(error.to_string(), "--rotate records into a directory: give its name"))?;
        }
        let folder = Folder::open(directory).map_err(recording::failure)?;
        private(&folder)?;
        Ok(Segments { folder: Arc::new(folder), rotate, keep, begun_ns: None })
    }

    pub fn folder(&self) -> &Arc<Folder> {
        &self.folder
    }

    /// A name that is not taken yet.
    pub fn next_name(&self, host: &Host) -> OsString {
        let name = recording::default_name(host);
        let stem = name.trim_end_matches(".stalltop");
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}.stalltop"));
        let names = std::iter::once(name.clone()).chain(numbered).map(OsString::from);
        // Another recorder may begin in the same second; a hundred do not.
        let mut free = names.take(100).filter(|name| self.folder.inside(name).symlink_metadata().is_err());
        free.next().unwrap_or_else(|| OsString::from(&name))
    }

    /// Whether the segment that is being written is long enough, given the sample that goes into it.
    pub fn is_full(&mut self, at: Instant) -> bool {
        let begun_ns = *self.begun_ns.get_or_insert(at.boottime_ns);
        u128::from(at.boottime_ns.saturating_sub(begun_ns)) >= self.rotate.as_nanos()
    }

    /// A new one has begun.
    pub fn turned(&mut self) {
        self.begun_ns = None;
    }

    /// The next one could not begin: the one that is being written is long enough again a while later.
    pub fn put_off(&mut self, at: Instant) {
        const WHILE: Duration = Duration::from_secs(60);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.begun_ns = Some(at.boottime_ns.saturating_add(ns(WHILE)).saturating_sub(ns(self.rotate)));
    }

    /// Deletes what is older than is to be kept.
    pub fn forget_old(&self, host: &Host, now: Instant) {
        let Some(oldest_ns) = self.keep.and_then(|keep| i64::try_from(keep.as_nanos()).ok()) else { return };
        let oldest_ns = now.realtime_ns.saturating_sub(oldest_ns);
        let Ok(entries) = fs::read_dir(self.folder.inside(OsStr::new("."))) else { return };
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        for name in names.iter().filter(|name| self.is_ours(name, host)) {
            if ended_ns(&self.folder.inside(name), host).is_some_and(|ended_ns| ended_ns < oldest_ns)
                && let Err(error) = self.folder.delete(name)
            {
                stdout::complain(&format!("cannot delete {}: {error}", quoted(&self.folder.path().join(name))));
            }
        }
    }

    /// Whether it has its name from us, and is a file of ours.
    fn is_ours(&self, name: &OsStr, host: &Host) -> bool {
        let named = recording::names(host, name.to_str().unwrap_or_default());
        let own = nix::unistd::geteuid().as_raw();
        named && self.folder.inside(name).symlink_metadata().is_ok_and(|there| there.is_file() && there.uid() == own)
    }
}

/// A directory in which others may put files is none to delete old ones in; root minds its group and its owner too.
fn private(folder: &Folder) -> Result<(), Failure> {
    let path = folder.path();
    let refused = |why: String| {
        let what = format!("cannot record into {}", quoted(path));
        Failure::new(Exit::Refused, what, why, "give a directory of your own")
    };
    let there = folder.inside(OsStr::new(".")).metadata().map_err(|error| refused(error.to_string()))?;
    let own = nix::unistd::geteuid();
    let others = if own.is_root() { 0o022 } else { 0o002 };
    if there.mode() & others != 0 {
        return Err(refused(format!("others may write in it (mode {:o})", there.mode() & 0o7777)));
    }
    if own.is_root() && there.uid() != 0 {
        return Err(refused(format!("it belongs to user {} (mode {:o})", there.uid(), there.mode() & 0o7777)));
    }
    Ok(())
}

/// When the last sample of a recording of this machine was taken; `None` where it is another's, is damaged, or was not
/// closed: what a recorder that was killed has left may be all there is of an accident.
fn ended_ns(path: &Path, host: &Host) -> Option<i64> {
    let replayer = Replayer::open(path).ok()?;
    let ended = replayer.tail() == Tail::Closed && replayer.damage().is_empty();
    let same = replayer.meta().host.hostname == host.hostname;
    let last = replayer.len().checked_sub(1)?;
    replayer.instant(last).filter(|_| ended && same).map(|at| at.realtime_ns)
}
