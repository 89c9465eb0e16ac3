//! `record --rotate`: a directory of recordings, when the next one begins, and which old ones are deleted.
//!
//! A recording is deleted only if it is of this machine, lies in this directory, belongs to this user, has a name of this
//! program, was closed, and has no damage in its headers and index (`own_directory`).

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::app::program::exit::{Failure, quoted};
use crate::app::program::stdio;
use crate::app::recorder::{self, own_directory};
use crate::recording::{DirHandle, Replayer, Tail};
use crate::sample::{Host, Instant};
use crate::units::time::nanos;

/// The directory, and the options `--rotate` and `--keep`.
pub struct Segments {
    folder: Arc<DirHandle>,
    rotate_every: Duration,
    keep_for: Option<Duration>,
    /// CLOCK_BOOTTIME of the first sample of the current segment
    segment_start_ns: Option<u64>,
    /// CLOCK_BOOTTIME of the next try, if a segment could not be created
    retry_at_ns: Option<u64>,
    /// CLOCK_BOOTTIME since which CLOCK_REALTIME has not jumped, or of the last cleanup; and the offset of CLOCK_REALTIME
    steady_clock: Option<(u64, i64)>,
}

/// The time between two tries to create a segment.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// The time between two cleanups, at most.
const CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

/// A larger change of the offset of CLOCK_REALTIME is a jump.
const CLOCK_JUMP: Duration = Duration::from_secs(60);

impl Segments {
    /// Creates the directory with mode 0700 if it is missing.
    pub fn create(directory: &Path, rotate: Duration, keep: Option<Duration>) -> Result<Segments, Failure> {
        let folder = own_directory::open_or_create(directory, "--rotate")?;
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

    /// A name that does not exist in the directory.
    pub fn next_name(&self, host: &Host) -> OsString {
        recorder::free_name(&self.folder, &recorder::default_name(host))
    }

    /// Whether the sample after this one begins a new segment: the current one is long enough, or has reached its size limit
    /// (`full`).
    pub fn should_rotate(&mut self, at: Instant, full: bool) -> bool {
        let start_ns = *self.segment_start_ns.get_or_insert(at.boottime_ns);
        let long = at.boottime_ns.saturating_sub(start_ns) >= nanos(self.rotate_every);
        (long || full) && self.retry_at_ns.is_none_or(|until_ns| at.boottime_ns >= until_ns)
    }

    /// A new segment has been created.
    pub fn rotated(&mut self) {
        (self.segment_start_ns, self.retry_at_ns) = (None, None);
    }

    /// A segment could not be created: tries again after `RETRY_DELAY`, and reports the first failure.
    pub fn postpone_rotation(&mut self, at: Instant, failure: &Failure) {
        if self.retry_at_ns.replace(at.boottime_ns.saturating_add(nanos(RETRY_DELAY))).is_none() {
            stdio::print_stderr(&format!("{failure}: the current file goes on, and the next one is tried again"));
        }
    }

    /// Deletes recordings that are older than `--keep`, from time to time. Ages within this boot are measured by CLOCK_BOOTTIME,
    /// which cannot be set; those of earlier boots by CLOCK_REALTIME, if it has not jumped recently.
    pub fn delete_expired(&mut self, host: &Host, now: Instant) {
        let Some(keep) = self.keep_for else { return };
        let offset_ns = realtime_offset_ns(now);
        let (since_ns, steady_ns) = *self.steady_clock.get_or_insert((now.boottime_ns, offset_ns));
        if offset_ns.abs_diff(steady_ns) > nanos(CLOCK_JUMP) {
            self.steady_clock = None;
            return;
        }
        if now.boottime_ns.saturating_sub(since_ns) < nanos(self.rotate_every.min(CLEANUP_INTERVAL)) {
            return;
        }
        self.steady_clock = Some((now.boottime_ns, offset_ns));
        let names = own_directory::own_files(&self.folder, |name| recorder::is_default_name(host, name));
        for (name, _) in names.iter().filter(|(_, metadata)| is_unmodified_for(metadata, keep)) {
            if recording_age(&self.folder.entry_path(name), host, now).is_some_and(|age| age > keep)
                && let Err(error) = self.folder.remove_file(name)
            {
                stdio::print_stderr(&format!("cannot delete {}: {error}", quoted(&self.folder.path().join(name))));
            }
        }
    }
}

/// Whether the file has not been modified for that long; others are not opened.
fn is_unmodified_for(metadata: &Metadata, keep: Duration) -> bool {
    metadata.modified().is_ok_and(|written| written.elapsed().is_ok_and(|elapsed| elapsed >= keep))
}

/// The age of the last sample of a recording of this machine; `None` for another machine's, a damaged one, or one that was not
/// closed: the recorder was killed, and the recording may show why.
fn recording_age(path: &Path, host: &Host, now: Instant) -> Option<Duration> {
    let replayer = Replayer::open(path).ok()?;
    let closed = replayer.tail() == Tail::Closed && replayer.damage().is_empty();
    let recorded_host = &replayer.meta().host;
    let last = replayer.timestamp(replayer.len().checked_sub(1)?)?;
    let by_realtime = || u64::try_from(now.realtime_ns.saturating_sub(last.realtime_ns)).ok();
    let age_ns = if recorded_host.is_same_boot(host) { now.boottime_ns.checked_sub(last.boottime_ns) } else { by_realtime() };
    age_ns.filter(|_| closed && recorded_host.hostname == host.hostname).map(Duration::from_nanos)
}

/// CLOCK_REALTIME minus CLOCK_BOOTTIME, which changes only if the clock is set.
fn realtime_offset_ns(at: Instant) -> i64 {
    at.realtime_ns.saturating_sub_unsigned(at.boottime_ns)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::app::program::exit::Exit;
    use crate::baseline::Baselines;
    use crate::recording::Redaction;
    use crate::sample::{Name, Sample};

    const HOUR: u64 = 3600;

    fn host(boot_id: &str) -> Host {
        Host { boot_id: Name::from(boot_id), ..crate::synthetic::host() }
    }

    /// A time `hours` after the boot, with CLOCK_REALTIME `ahead` hours further.
    fn at(hours: u64, ahead: u64) -> Instant {
        let ns = |hours: u64| hours * HOUR * 1_000_000_000;
        let realtime_ns = i64::try_from(ns(500_000 + hours + ahead)).unwrap();
        Instant { boottime_ns: ns(hours), monotonic_ns: ns(hours), realtime_ns }
    }

    /// A recording that ended then, last modified in 1970.
    fn ended(segments: &Segments, host: &Host, end: Instant) -> OsString {
        let name = segments.next_name(host);
        let meta = recorder::meta(host, Duration::from_secs(1), Redaction::Nothing);
        let mut session = recorder::Session::create_in(None, segments.folder(), &name, &meta, &Baselines::default()).unwrap();
        let sample = Arc::new(Sample::empty(end));
        session.offer(crate::app::sampling::TimedSample::new(sample, 0), Default::default());
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
        let exist = |segments: &Segments| [&own, &earlier].map(|name| segments.folder().entry_path(name).exists());
        segments.delete_expired(&now, at(100, 0));
        // Set ten years ahead when the cleanup is due, and back again.
        segments.delete_expired(&now, at(101, 87_600));
        segments.delete_expired(&now, at(102, 0));
        assert_eq!(exist(&segments), [true, true]);
        // It remains set: then it counts for the earlier boot, and the recording of this boot is still young.
        segments.delete_expired(&now, at(103, 100));
        segments.delete_expired(&now, at(104, 100));
        segments.delete_expired(&now, at(105, 100));
        assert_eq!(exist(&segments), [true, false]);
        segments.delete_expired(&now, at(137, 100));
        assert_eq!(exist(&segments), [true, false]);
        segments.delete_expired(&now, at(139, 100));
        assert_eq!(exist(&segments), [false, false]);
    }

    /// A service that restarts every day, before its first segment is complete.
    #[test]
    fn old_recordings_are_deleted_before_a_segment_is_complete() {
        let directory = tempfile::tempdir().unwrap();
        let mut segments = segments(directory.path());
        let now = host("now");
        let old = ended(&segments, &host("before"), at(0, 0));
        segments.delete_expired(&now, at(100, 0));
        segments.delete_expired(&now, at(101, 0));
        assert!(!segments.folder().entry_path(&old).exists());
    }

    #[test]
    fn a_segment_that_cannot_be_created_is_tried_again() {
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
