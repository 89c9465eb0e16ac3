//! A directory of recordings, one behind the other: when the next one begins, and which old ones are deleted.
//!
//! Nothing is ever deleted but a recording of this machine, in this directory, that belongs to us, has its name from us,
//! is read without fault as far as its end, and is no longer being written.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exit::{Exit, Failure, quoted};
use super::{recording, stdout};
use crate::recording::{Replayer, Tail};
use crate::sample::{Host, Instant};

/// Where segments go, and how long each of them is and stays.
pub struct Segments {
    directory: PathBuf,
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
        Ok(Segments { directory: directory.to_owned(), rotate, keep, begun_ns: None })
    }

    /// A name that is not taken yet.
    pub fn next_path(&self, host: &Host) -> PathBuf {
        let name = recording::default_name(host);
        let stem = name.trim_end_matches(".stalltop");
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}.stalltop"));
        let names = std::iter::once(name.clone()).chain(numbered).map(|name| self.directory.join(name));
        // Another recorder may begin in the same second; a hundred do not.
        let mut free = names.take(100).filter(|path| path.symlink_metadata().is_err());
        free.next().unwrap_or_else(|| self.directory.join(&name))
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

    /// Deletes what is older than is to be kept.
    pub fn forget_old(&self, host: &Host, now: Instant) {
        let Some(oldest_ns) = self.keep.and_then(|keep| i64::try_from(keep.as_nanos()).ok()) else { return };
        let oldest_ns = now.realtime_ns.saturating_sub(oldest_ns);
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        for path in paths.iter().filter(|path| self.is_ours(path, host)) {
            if ended_ns(path, host).is_some_and(|ended_ns| ended_ns < oldest_ns)
                && let Err(error) = fs::remove_file(path)
            {
                stdout::complain(&format!("cannot delete {}: {error}", quoted(path)));
            }
        }
    }

    /// Whether it has its name from us, and is a file of ours.
    fn is_ours(&self, path: &Path, host: &Host) -> bool {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let named = recording::names(host, name);
        let own = nix::unistd::geteuid().as_raw();
        named && path.symlink_metadata().is_ok_and(|there| there.is_file() && there.uid() == own)
    }
}

/// When the last sample of a recording of this machine was taken; `None` where it is another's, is damaged, or is not ended.
fn ended_ns(path: &Path, host: &Host) -> Option<i64> {
    let replayer = Replayer::open(path).ok()?;
    let ended = matches!(replayer.tail(), Tail::Closed | Tail::Unfinished) && replayer.damage().is_empty();
    let same = replayer.meta().host.hostname == host.hostname;
    let last = replayer.len().checked_sub(1)?;
    replayer.instant(last).filter(|_| ended && same).map(|at| at.realtime_ns)
}
