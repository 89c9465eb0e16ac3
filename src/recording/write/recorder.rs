//! Records samples on a thread of its own: the disk that is recorded on may be the one that is stuck.
//!
//! `offer` never blocks. What the queue cannot take becomes a gap in the recording. A full disk pauses the recording and
//! is tried again. A disk that fails is not trusted with that file again: the recording goes on in another one beside it,
//! which begins with what the first one may have lost. What was written stays valid in every case.

mod writing;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::framer::Sections;
use super::tape::History;
use crate::recording::Moment;
use crate::recording::error::{Place, RecordingError};
use crate::recording::frames::digest::Digest;
use crate::recording::frames::header::FileId;
use crate::recording::frames::meta::{Gap, GapReason, Mark, Meta};
use crate::recording::storage::{FileStorage, Folder, Storage, StreamStorage};
use crate::sample::Sample;
use writing::{Writing, begin};

/// How a recorder works, beside what the meta frame says.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    pub sections: Sections,
    /// Samples that may wait for the disk.
    pub queue: usize,
    /// Whether to stop before the file system is full: 5 % of it, at least 64 MiB, at most 1 GiB stay free.
    pub keep_free: bool,
    /// More bytes than this the recording never has; it ends before.
    pub most: Option<u64>,
    /// How long a full disk is left alone before it is tried again, by the samples' own clock.
    pub retry: Duration,
    /// What was kept in memory before, of the same machine and with the same redaction: the recording begins with it.
    pub history: History,
    /// Given only where the bytes must be the same again.
    pub identity: Option<(FileId, i64)>,
}

impl Default for RecorderOptions {
    fn default() -> RecorderOptions {
        RecorderOptions {
            sections: Sections::new(),
            queue: 32,
            keep_free: true,
            most: None,
            retry: Duration::from_secs(5),
            history: History::default(),
            identity: None,
        }
    }
}

/// What the recorder is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecorderStatus {
    Recording(Kept),
    /// Nothing is lost that was kept; it goes on when there is room again.
    Paused {
        why: String,
        kept: Kept,
    },
    /// It has ended; what was kept is valid.
    Failed {
        why: String,
        kept: Kept,
    },
    /// The next sample would not fit into as many bytes as it may have: nothing more is recorded.
    Full(Kept),
    /// Closed in good order.
    Finished(Kept),
}

impl RecorderStatus {
    pub fn kept(&self) -> Kept {
        match self {
            RecorderStatus::Recording(kept) | RecorderStatus::Full(kept) | RecorderStatus::Finished(kept) => *kept,
            RecorderStatus::Paused { kept, .. } | RecorderStatus::Failed { kept, .. } => *kept,
        }
    }
}

/// How much is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// In all files.
    pub bytes: u64,
    pub samples: u64,
    /// Samples that went into gaps.
    pub lost: u64,
}

/// The end of the queue that samples go in.
pub struct Recorder {
    queue: Option<SyncSender<Message>>,
    ended: Receiver<()>,
    shared: Arc<Shared>,
    /// What did not fit since the last sample that did.
    lost: Option<Lost>,
    /// When the last sample was offered.
    last: Option<Moment>,
}

struct Shared {
    status: Mutex<RecorderStatus>,
    /// Where the recording is: in more than one file after a disk has failed.
    places: Mutex<Vec<Place>>,
    /// Lost after the last sample that went into the queue.
    lost_at_end: Mutex<Option<Lost>>,
}

enum Message {
    Sample { sample: Arc<Sample>, digest: Digest, lost: Option<Lost> },
    Mark { at: Moment, text: String },
}

#[derive(Clone, Copy, Debug)]
struct Lost {
    count: u64,
    from: Moment,
    to: Moment,
    why: GapReason,
}

impl Lost {
    fn add(lost: &mut Option<Lost>, at: Moment, why: GapReason) {
        Lost { count: 1, from: at, to: at, why }.join(lost);
    }

    /// Into what is lost already, whose reason and beginning stand.
    fn join(self, lost: &mut Option<Lost>) {
        match lost {
            Some(lost) => {
                lost.count = lost.count.saturating_add(self.count);
                lost.to = self.to;
            }
            None => *lost = Some(self),
        }
    }
}

impl Recorder {
    /// Records into a new file of that name.
    pub fn create(path: &Path, meta: &Meta, options: RecorderOptions) -> Result<Recorder, RecordingError> {
        Recorder::into_storage(Box::new(FileStorage::create(path)?), meta, options)
    }

    /// Records into a new file of that name in a folder that is held.
    pub fn create_in(
        folder: &Arc<Folder>,
        name: &OsStr,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        Recorder::into_storage(Box::new(FileStorage::create_in(folder, name)?), meta, options)
    }

    /// Records into a pipe.
    pub fn stream(
        sink: impl Write + Send + 'static,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        Recorder::into_storage(Box::new(StreamStorage(sink)), meta, options)
    }

    /// Records into anything.
    pub fn into_storage(
        mut storage: Box<dyn Storage>,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        let place = storage.place();
        match begin(storage.as_mut(), meta, &options.sections, &options.history, options.identity) {
            Ok(framer) => {
                let queue = options.queue;
                start(|shared| Writing::into(storage, framer, meta.clone(), options, shared), place, queue)
            }
            Err(source) => {
                storage.discard();
                Err(RecordingError::Write { path: place, source })
            }
        }
    }

    /// Takes a sample to be recorded. Never blocks: one that does not fit is counted, and told in the recording.
    pub fn offer(&mut self, sample: Arc<Sample>) {
        self.offer_judged(sample, Digest::default());
    }

    /// The same with what was seen in it.
    pub fn offer_judged(&mut self, sample: Arc<Sample>, digest: Digest) {
        let at = sample.at.into();
        self.last = Some(at);
        let message = Message::Sample { sample, digest, lost: self.lost };
        match self.queue.as_ref().map(|queue| queue.try_send(message)) {
            Some(Ok(())) => self.lost = None,
            Some(Err(TrySendError::Full(_))) => Lost::add(&mut self.lost, at, GapReason::TooSlow),
            Some(Err(TrySendError::Disconnected(_))) => self.orphan(),
            None => {}
        }
    }

    /// Samples that should have been between the last one offered and the one that is offered next, and were not taken.
    pub fn miss(&mut self, count: u64, next: Moment) {
        if count > 0 {
            let from = self.last.unwrap_or(next);
            Lost { count, from, to: next, why: GapReason::NotTaken }.join(&mut self.lost);
        }
    }

    /// The same of samples that somebody else lost, and why.
    pub fn gap(&mut self, gap: &Gap) {
        Lost { count: gap.lost, from: gap.from, to: gap.to, why: gap.why }.join(&mut self.lost);
    }

    /// Puts a word into the recording; `false` when the queue has no room for it, or nothing more is recorded.
    pub fn mark(&mut self, at: Moment, text: &str) -> bool {
        let Some(text) = Mark::text(text) else { return false };
        let goes_on = matches!(self.status(), RecorderStatus::Recording(_) | RecorderStatus::Paused { .. });
        let message = Message::Mark { at, text };
        goes_on && self.queue.as_ref().is_some_and(|queue| queue.try_send(message).is_ok())
    }

    /// Its thread is lost although nobody told it to end.
    fn orphan(&self) {
        let kept = self.status().kept();
        *lock(&self.shared.status) = RecorderStatus::Failed { why: "a fault of stalltop itself".to_owned(), kept };
    }

    pub fn status(&self) -> RecorderStatus {
        lock(&self.shared.status).clone()
    }

    /// Where the recording is: in the last of them now.
    pub fn places(&self) -> Vec<Place> {
        lock(&self.shared.places).clone()
    }

    /// Writes what waits, the index and the end; gives up on a disk that does not answer for that long.
    pub fn finish(mut self, patience: Duration) -> RecorderStatus {
        self.close(patience)
    }

    /// The same for who wants to know afterwards where it is.
    pub fn close(&mut self, patience: Duration) -> RecorderStatus {
        if self.queue.is_some() {
            *lock(&self.shared.lost_at_end) = self.lost.take();
            self.queue = None;
            match self.ended.recv_timeout(patience) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let kept = self.status().kept();
                    return RecorderStatus::Failed { why: "the disk does not answer".to_owned(), kept };
                }
                Err(RecvTimeoutError::Disconnected) => self.orphan(),
            }
        }
        self.status()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.close(Duration::from_secs(1));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(writing: impl FnOnce(Arc<Shared>) -> Writing, place: Place, queue: usize) -> Result<Recorder, RecordingError> {
    let (queue, messages) = sync_channel(queue.max(1));
    let (end, ended) = sync_channel(1);
    let shared = Arc::new(Shared {
        status: Mutex::new(RecorderStatus::Recording(Kept::default())),
        places: Mutex::new(vec![place.clone()]),
        lost_at_end: Mutex::new(None),
    });
    let mut writing = writing(Arc::clone(&shared));
    writing.tell();
    let thread = std::thread::Builder::new().name("recorder".to_owned()).spawn(move || {
        writing.run(&messages);
        // Whoever waits for the end may open the file at once: the lock is gone by then.
        drop(writing);
        // Nobody may be waiting any more.
        let _ = end.try_send(());
    });
    match thread {
        Ok(_) => Ok(Recorder { queue: Some(queue), ended, shared, lost: None, last: None }),
        Err(source) => Err(RecordingError::Write { path: place, source }),
    }
}
