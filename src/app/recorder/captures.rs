//! The directory of `record --armed`: the bounds of number and size of its captures, and which old ones are deleted.
//!
//! Only captures of this machine are deleted: regular files of this user with a name from `capture_name` that are recordings, also
//! those of a recorder that was killed, since a service that is killed again and again must not fill the disk.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::{Session, own_directory};
use crate::app::program::exit::{Failure, quoted};
use crate::app::program::stdio;
use crate::app::recorder;
use crate::baseline::Baselines;
use crate::recording::{DirHandle, FrameBacklog, Meta, RecordingError, Replayer, Tail};
use crate::sample::Host;
use crate::units::SmallSort;

/// The directory and its bounds.
#[derive(Clone)]
pub struct Captures {
    folder: Arc<DirHandle>,
    max_count: usize,
    max_bytes: u64,
}

/// A capture that was recorded earlier.
struct EarlierCapture {
    name: OsString,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Captures {
    /// Creates the directory with mode 0700 if it is missing. There are at most `max_count` captures of at most `max_bytes` together.
    pub fn open(directory: &Path, max_count: u32, max_bytes: u64) -> Result<Captures, Failure> {
        let folder = own_directory::open_or_create(directory, "--armed")?;
        Ok(Captures { folder, max_count: usize::try_from(max_count).unwrap_or(usize::MAX).max(1), max_bytes })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Deletes the oldest captures, as many as necessary, and creates a new one with these words in its name.
    pub fn create(
        &self,
        words: &str,
        history: FrameBacklog,
        meta: &Meta,
        baselines: &Baselines,
    ) -> Result<Session, RecordingError> {
        let max_bytes = self.make_room(&meta.host);
        let name = recorder::free_name(&self.folder, &recorder::capture_name(&meta.host, words));
        Session::create_in_with_history(history, Some(max_bytes), &self.folder, &name, meta, baselines)
    }

    /// Deletes the oldest captures until there is room for another one, and a quarter of the space; returns the bytes that it may have.
    fn make_room(&self, host: &Host) -> u64 {
        let mut captures = self.earlier_captures(host);
        captures.small_sort_by(|a, b| (a.modified, &a.name).cmp(&(b.modified, &b.name)));
        let (mut count, mut bytes) = (captures.len(), captures.iter().map(|capture| capture.bytes).sum::<u64>());
        for capture in &captures {
            if count < self.max_count && bytes <= self.max_bytes / 4 * 3 {
                break;
            }
            if !self.is_deletable(&capture.name, host) {
                continue;
            }
            match self.folder.remove_file(&capture.name) {
                Ok(()) => (count, bytes) = (count - 1, bytes - capture.bytes),
                Err(error) => {
                    let path = self.folder.path().join(&capture.name);
                    stdio::print_stderr(&format!("cannot delete {}: {error}", quoted(&path)));
                }
            }
        }
        self.max_bytes.saturating_sub(bytes).max(self.max_bytes / 4)
    }

    fn earlier_captures(&self, host: &Host) -> Vec<EarlierCapture> {
        let files = own_directory::own_files(&self.folder, |name| recorder::is_capture_name(host, name));
        let capture = |(name, metadata): (OsString, std::fs::Metadata)| EarlierCapture {
            name,
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        };
        files.into_iter().map(capture).collect()
    }

    /// Whether it is a recording of this machine that no recorder is writing.
    fn is_deletable(&self, name: &OsString, host: &Host) -> bool {
        Replayer::open(&self.folder.entry_path(name))
            .is_ok_and(|replayer| replayer.tail() != Tail::Growing && replayer.meta().host.hostname == host.hostname)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::app::sampling::TimedSample;
    use crate::recording::Redaction;
    use crate::sample::{Instant, Sample};

    fn meta() -> Meta {
        recorder::meta(&crate::synthetic::host(), Duration::from_secs(1), Redaction::Nothing)
    }

    fn opened(directory: &Path, max_count: u32, max_bytes: u64) -> Captures {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        Captures::open(directory, max_count, max_bytes).unwrap()
    }

    fn session(captures: &Captures, words: &str) -> Session {
        let mut session = captures.create(words, FrameBacklog::default(), &meta(), &Baselines::default()).unwrap();
        let sample = Arc::new(Sample::empty(Instant::default()));
        session.offer(TimedSample::new(sample, 0), Default::default());
        session
    }

    /// Records a capture that was modified at that second.
    fn capture(captures: &Captures, words: &str, second: u64) {
        let session = session(captures, words);
        let path = session.location();
        assert!(session.finish_patiently().failure().is_none());
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(second)).unwrap();
    }

    fn words_of_all(directory: &Path) -> Vec<String> {
        let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut words: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".stalltop")?.rsplit('-').next()?.to_owned())).collect();
        words.sort();
        words
    }

    #[test]
    fn the_oldest_captures_are_deleted_beyond_the_number() {
        let directory = tempfile::tempdir().unwrap();
        let captures = opened(directory.path(), 3, 1 << 30);
        for (words, second) in [("new", 30), ("old", 10), ("middle", 20)] {
            capture(&captures, words, second);
        }
        // Of others: a link, a file that is no recording, another name.
        let link = directory.path().join(recorder::capture_name(&meta().host, "link"));
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        fs::write(directory.path().join("notes"), "x").unwrap();
        capture(&captures, "newest", 40);
        assert_eq!(words_of_all(directory.path()), ["link", "middle", "new", "newest"]);
        let growing = session(&captures, "growing");
        capture(&opened(directory.path(), 1, 1 << 30), "last", 50);
        assert_eq!(words_of_all(directory.path()), ["growing", "last", "link"], "one that is being written stays");
        drop(growing);
    }

    #[test]
    fn the_oldest_captures_are_deleted_beyond_the_size() {
        let directory = tempfile::tempdir().unwrap();
        let large = opened(directory.path(), 100, 1 << 30);
        ["a", "b", "c"].into_iter().zip(1..).for_each(|(words, second)| capture(&large, words, second));
        let bytes: u64 = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        // Three take all of it: one must go, so that a quarter is free.
        let small = opened(directory.path(), 100, bytes);
        assert_eq!(small.make_room(&meta().host), bytes / 3);
        assert_eq!(words_of_all(directory.path()), ["b", "c"]);
        assert_eq!(small.make_room(&meta().host), bytes / 3, "nothing more is deleted");
    }
}
