//! A directory of recordings, one behind the other: when the next one begins, and which old ones are deleted.
//!
//! Nothing is ever deleted but a recording of this machine, in this directory, that belongs to us, has its name from us,
//! is without fault, as far as headers and index tell, and was closed in good order. The directory is held open: whoever
//! swaps its path for another one moves neither what is written nor what is deleted.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::stdio;
use crate::app::recorder;
use crate::recording::{DirHandle, Replayer, Tail};
use crate::sample::{Host, Instant};

/// Where segments go, and how long each of them is and stays.
pub struct Segments {
    folder: Arc<DirHandle>,
    rotate_every: Duration,
    keep_for: Option<Duration>,
    /// CLOCK_BOOTTIME of the first sample of the segment that is being written
    segment_start_ns: Option<u64>,
    /// The next one could not begin: not before then
    retry_at_ns: Option<u64>,
    /// Since when the clock on the wall has gone on without a jump (CLOCK_BOOTTIME), or when old ones were looked for last;
    /// and by how much it is ahead of that
    steady_clock: Option<(u64, i64)>,
}

/// How long after the next segment could not begin it is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// How often old ones are looked for, at least.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

/// A clock on the wall that was set by more than this has jumped.
const CLOCK_JUMP: Duration = Duration::from_secs(60);

impl Segments {
    /// The directory is made, ours alone, where there is none.
    pub fn create(directory: &Path, rotate: Duration, keep: Option<Duration>) -> Result<Segments, Failure> {
        let cannot = |why: String, remedy: &str| {
            Failure::new(Exit::CannotWrite, format!("cannot record into {}", quoted(directory)), why, remedy)
        };
        if !directory.is_dir() {
            let made = DirBuilder::new().mode(0o700).create(directory);
            made.map_err(|error| cannot(error.to_string(), "--rotate records into a directory: give its name"))?;
        }
        let folder = DirHandle::open(directory).map_err(recorder::failure)?;
        check_private(&folder)?;
        let folder = Arc::new(folder);
        Ok(Segments {
            folder,
            rotate_every: rotate,
            keep_for: keep,
            segment_start_ns: None,
            retry_at_ns: None,
            steady_clock: None,
        })
    }

    pub fn folder(&self) -> &Arc<DirHandle> {
        &self.folder
    }

    /// A name that is not taken yet.
    pub fn next_name(&self, host: &Host) -> OsString {
        let name = recorder::default_name(host);
        let stem = name.trim_end_matches(".stalltop");
        let numbered = (2..).map(|number: u32| format!("{stem}-{number}.stalltop"));
        let names = std::iter::once(name.clone()).chain(numbered).map(OsString::from);
        // Another recorder may begin in the same second; a hundred do not.
        let mut free = names.take(100).filter(|name| self.folder.entry_path(name).symlink_metadata().is_err());
        free.next().unwrap_or_else(|| OsString::from(&name))
    }

    /// Whether the next one is to begin, given the sample that goes into the one that is being written: that is long enough,
    /// or `large`.
    pub fn should_rotate(&mut self, at: Instant, large: bool) -> bool {
        let begun_ns = *self.segment_start_ns.get_or_insert(at.boottime_ns);
        let long = at.boottime_ns.saturating_sub(begun_ns) >= as_nanos(self.rotate_every);
        (long || large) && self.retry_at_ns.is_none_or(|until_ns| at.boottime_ns >= until_ns)
    }

    /// A new one has begun.
    pub fn rotated(&mut self) {
        (self.segment_start_ns, self.retry_at_ns) = (None, None);
    }

    /// The next one could not begin: it is tried again a while later, and told once.
    pub fn postpone_rotation(&mut self, at: Instant, failure: &Failure) {
        if self.retry_at_ns.replace(at.boottime_ns.saturating_add(as_nanos(RETRY_DELAY))).is_none() {
            stdio::print_stderr(&format!("{failure}: it is tried again"));
        }
    }

    /// Deletes what is older than is to be kept, now and then. Of this run of the machine by the clock that nobody sets; of
    /// earlier ones by that on the wall, once that has gone on for a while without a jump.
    pub fn delete_expired(&mut self, host: &Host, now: Instant) {
        let Some(keep) = self.keep_for else { return };
        let offset_ns = realtime_offset_ns(now);
        let (since_ns, steady_ns) = *self.steady_clock.get_or_insert((now.boottime_ns, offset_ns));
        if offset_ns.abs_diff(steady_ns) > as_nanos(CLOCK_JUMP) {
            self.steady_clock = None;
            return;
        }
        if now.boottime_ns.saturating_sub(since_ns) < as_nanos(self.rotate_every.min(CLEANUP_INTERVAL)) {
            return;
        }
        self.steady_clock = Some((now.boottime_ns, offset_ns));
        let Ok(entries) = fs::read_dir(self.folder.entry_path(OsStr::new("."))) else { return };
        let names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
        for name in names.iter().filter(|name| self.is_own_recording(name, host) && self.is_unmodified_for(name, keep)) {
            if recording_age(&self.folder.entry_path(name), host, now).is_some_and(|age| age > keep)
                && let Err(error) = self.folder.remove_file(name)
            {
                stdio::print_stderr(&format!("cannot delete {}: {error}", quoted(&self.folder.path().join(name))));
            }
        }
    }

    /// Whether nobody has written it for that long: only then is it worth a look inside.
    fn is_unmodified_for(&self, name: &OsStr, keep: Duration) -> bool {
        let written = self.folder.entry_path(name).symlink_metadata().and_then(|there| there.modified());
        written.is_ok_and(|written| written.elapsed().is_ok_and(|elapsed| elapsed >= keep))
    }

    /// Whether it has its name from us, and is a file of ours.
    fn is_own_recording(&self, name: &OsStr, host: &Host) -> bool {
        let named = recorder::is_default_name(host, name.to_str().unwrap_or_default());
        let own = nix::unistd::geteuid().as_raw();
        named && self.folder.entry_path(name).symlink_metadata().is_ok_and(|there| there.is_file() && there.uid() == own)
    }
}

/// A directory in which others may put files is none to delete old ones in; root minds its group and its owner too.
fn check_private(folder: &DirHandle) -> Result<(), Failure> {
    let path = folder.path();
    let refused = |why: String| {
        let what = format!("cannot record into {}", quoted(path));
        Failure::new(Exit::Refused, what, why, "give a directory of your own")
    };
    let there = folder.entry_path(OsStr::new(".")).metadata().map_err(|error| refused(error.to_string()))?;
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

/// How long ago the last sample of a recording of this machine was taken; `None` where it is another's, is damaged, or was not
/// closed: what a recorder that was killed has left may be all there is of an accident.
fn recording_age(path: &Path, host: &Host, now: Instant) -> Option<Duration> {
    let replayer = Replayer::open(path).ok()?;
    let ended = replayer.tail() == Tail::Closed && replayer.damage().is_empty();
    let whose = &replayer.meta().host;
    let last = replayer.timestamp(replayer.len().checked_sub(1)?)?;
    let by_the_wall = || u64::try_from(now.realtime_ns.saturating_sub(last.realtime_ns)).ok();
    let age_ns = if whose.is_same_boot(host) { now.boottime_ns.checked_sub(last.boottime_ns) } else { by_the_wall() };
    age_ns.filter(|_| ended && whose.hostname == host.hostname).map(Duration::from_nanos)
}

/// What the clock on the wall shows beyond the one that counts from boot: the same unless somebody sets it.
fn realtime_offset_ns(at: Instant) -> i64 {
    at.realtime_ns.saturating_sub_unsigned(at.boottime_ns)
}

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::Baselines;
    use crate::recording::Redaction;
    use crate::sample::{Name, Sample};

    const HOUR: u64 = 3600;

    fn host(boot_id: &str) -> Host {
        let root = tempfile::tempdir().unwrap();
        let host = crate::kernel::host::read(&crate::kernel::Root::at_directory(root.path().to_owned()));
        Host { boot_id: Name::from(boot_id), ..host }
    }

    /// So many hours after the boot, with the clock on the wall ahead by so many more.
    fn at(hours: u64, ahead: u64) -> Instant {
        let ns = |hours: u64| hours * HOUR * 1_000_000_000;
        let realtime_ns = i64::try_from(ns(500_000 + hours + ahead)).unwrap();
        Instant { boottime_ns: ns(hours), monotonic_ns: ns(hours), realtime_ns }
    }

    /// A recording that ended then, and was not touched since 1970.
    fn ended(segments: &Segments, host: &Host, end: Instant) -> OsString {
        let name = segments.next_name(host);
        let meta = recorder::meta(host, Duration::from_secs(1), Redaction::Nothing);
        let mut session = recorder::Session::create_in(None, segments.folder(), &name, &meta, &Baselines::default()).unwrap();
        let sample = Arc::new(Sample::empty(end));
        session.offer(crate::app::sampling::TimedSample { sample, missed: 0 }, Default::default());
        assert!(session.finish_patiently().failure().is_none());
        let file = fs::File::options().write(true).open(segments.folder().entry_path(&name)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        name
    }

    fn segments(directory: &Path) -> Segments {
        fs::set_permissions(directory, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Segments::create(directory, Duration::from_secs(24 * HOUR), Some(Duration::from_secs(48 * HOUR))).unwrap()
    }

    #[test]
    fn a_clock_that_jumps_deletes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut segments = segments(directory.path());
        let (now, before) = (host("now"), host("before"));
        let (own, earlier) = (ended(&segments, &now, at(90, 0)), ended(&segments, &before, at(95, 0)));
        let there = |segments: &Segments| [&own, &earlier].map(|name| segments.folder().entry_path(name).exists());
        segments.delete_expired(&now, at(100, 0));
        // Set ten years ahead, seen just when it was time to look; and put right again.
        segments.delete_expired(&now, at(101, 87_600));
        segments.delete_expired(&now, at(102, 0));
        assert_eq!(there(&segments), [true, true]);
        // It stays where it was set to: then it is right, and the run that is told of by the clock from boot is young still.
        segments.delete_expired(&now, at(103, 100));
        segments.delete_expired(&now, at(104, 100));
        segments.delete_expired(&now, at(105, 100));
        assert_eq!(there(&segments), [true, false]);
        segments.delete_expired(&now, at(137, 100));
        assert_eq!(there(&segments), [true, false]);
        segments.delete_expired(&now, at(139, 100));
        assert_eq!(there(&segments), [false, false]);
    }

    /// A service that is started anew each day, before its first segment is long enough, keeps no more than one that is not.
    #[test]
    fn old_ones_are_deleted_though_no_segment_came_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let mut segments = segments(directory.path());
        let now = host("now");
        let old = ended(&segments, &host("before"), at(0, 0));
        segments.delete_expired(&now, at(100, 0));
        segments.delete_expired(&now, at(101, 0));
        assert!(!segments.folder().entry_path(&old).exists());
    }

    #[test]
    fn the_next_one_that_cannot_begin_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut segments = segments(directory.path());
        assert!(
            !segments.should_rotate(at(1, 0), false)
                && segments.should_rotate(at(1, 0), true)
                && segments.should_rotate(at(25, 0), false)
        );
        segments.postpone_rotation(at(25, 0), &Failure::new(Exit::CannotWrite, "cannot write", "", ""));
        assert!(!segments.should_rotate(at(25, 0), true));
        assert!(segments.should_rotate(at(26, 0), false));
        segments.rotated();
        assert!(!segments.should_rotate(at(26, 0), false));
    }
}
