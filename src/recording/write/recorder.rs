//! Records samples on a thread of its own: the disk that it writes to may be one that does not answer.
//!
//! `offer` never blocks. What the queue cannot take becomes a gap in the recording. A full disk pauses the recording, and
//! writing is retried. After a failed write or sync the file is not written again: the recording continues in another one
//! beside it, which begins with what the first one may have lost. What was written stays valid in all cases.

mod writer;

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::frame_writer::Sections;
use super::history_ring::FrameBacklog;
use crate::recording::Timestamp;
use crate::recording::error::{Location, RecordingError};
use crate::recording::format::file_header::FileId;
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, GapReason, Mark, Meta};
use crate::recording::storage::{DirHandle, FileStorage, Storage, StreamStorage};
use crate::sample::Sample;
use writer::{RecordingWriter, write_start};

/// The name of the thread that writes.
pub const THREAD_NAME: &str = "recorder";

/// Options of a recorder that are not in the meta frame.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    pub sections: Sections,
    /// Samples that may wait for the disk.
    pub queue_capacity: usize,
    /// Whether to stop before the file system is full: 5 % of it, at least 64 MiB and at most 1 GiB, stay free.
    pub reserve_free_space: bool,
    /// Bytes at which the recording ends; it is never longer.
    pub max_bytes: Option<u64>,
    /// Time until a full disk is tried again, by the BOOTTIME of the samples.
    pub retry_interval: Duration,
    /// Earlier samples of the same boot and with the same redaction: the recording begins with them.
    pub backlog: FrameBacklog,
    /// Given only by tests that compare bytes.
    pub identity: Option<(FileId, i64)>,
}

impl Default for RecorderOptions {
    fn default() -> RecorderOptions {
        RecorderOptions {
            sections: Sections::new(),
            queue_capacity: 32,
            reserve_free_space: true,
            max_bytes: None,
            retry_interval: Duration::from_secs(5),
            backlog: FrameBacklog::default(),
            identity: None,
        }
    }
}

/// The state of a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecorderStatus {
    Recording(RecordingProgress),
    /// What was written is kept; the recording continues when there is space again.
    Paused {
        reason: String,
        progress: RecordingProgress,
    },
    /// It has ended; what was written is valid.
    Failed {
        reason: String,
        progress: RecordingProgress,
    },
    /// The next sample would exceed `max_bytes`: nothing more is recorded.
    LimitReached(RecordingProgress),
    /// Closed, with an index and an end frame.
    Finished(RecordingProgress),
}

impl RecorderStatus {
    pub fn progress(&self) -> RecordingProgress {
        match self {
            RecorderStatus::Recording(kept) | RecorderStatus::LimitReached(kept) | RecorderStatus::Finished(kept) => *kept,
            RecorderStatus::Paused { progress: kept, .. } | RecorderStatus::Failed { progress: kept, .. } => *kept,
        }
    }
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingProgress {
    /// Of all files.
    pub bytes: u64,
    pub samples: u64,
    /// Samples that became gaps.
    pub lost_samples: u64,
}

/// The sending end of the recorder's queue.
pub struct Recorder {
    queue: Option<SyncSender<Message>>,
    /// The queue is closed, and the thread has not signalled its end
    awaits_end: bool,
    writer_ended: Receiver<()>,
    shared: Arc<SharedState>,
    /// Samples that did not fit into the queue since the last one that did.
    pending_loss: Option<LostSamples>,
    /// Timestamp of the last sample that was offered.
    last_offered: Option<Timestamp>,
}

struct SharedState {
    status: Mutex<RecorderStatus>,
    /// The files of the recording: more than one after a disk has failed.
    locations: Mutex<Vec<Location>>,
    /// Samples that were lost after the last one that fitted into the queue.
    loss_at_end: Mutex<Option<LostSamples>>,
}

enum Message {
    Sample { sample: Arc<Sample>, summary: FrameSummary, loss: Option<LostSamples> },
    Mark { at: Timestamp, text: String },
}

#[derive(Clone, Copy, Debug)]
struct LostSamples {
    count: u64,
    from: Timestamp,
    to: Timestamp,
    reason: GapReason,
}

impl LostSamples {
    fn add_one(lost: &mut Option<LostSamples>, at: Timestamp, why: GapReason) {
        LostSamples { count: 1, from: at, to: at, reason: why }.merge_into(lost);
    }

    /// Adds to the samples that are lost already, whose reason and beginning are kept.
    fn merge_into(self, lost: &mut Option<LostSamples>) {
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
    /// Records to a new file at that path.
    pub fn create(path: &Path, meta: &Meta, options: RecorderOptions) -> Result<Recorder, RecordingError> {
        Recorder::from_storage(Box::new(FileStorage::create(path)?), meta, options)
    }

    /// Records to a new file of that name in a directory that is held open.
    pub fn create_in(
        folder: &Arc<DirHandle>,
        name: &OsStr,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        Recorder::from_storage(Box::new(FileStorage::create_in(folder, name)?), meta, options)
    }

    /// Records to a pipe.
    pub fn from_writer(
        sink: impl Write + Send + 'static,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        Recorder::from_storage(Box::new(StreamStorage(sink)), meta, options)
    }

    /// Records to any storage.
    pub fn from_storage(
        mut storage: Box<dyn Storage>,
        meta: &Meta,
        options: RecorderOptions,
    ) -> Result<Recorder, RecordingError> {
        let place = storage.location();
        match write_start(storage.as_mut(), meta, &options.sections, &options.backlog, options.identity) {
            Ok(framer) => {
                let queue = options.queue_capacity;
                spawn_writer(|shared| RecordingWriter::new(storage, framer, meta.clone(), options, shared), place, queue)
            }
            Err(source) => {
                storage.discard();
                Err(RecordingError::Write { path: place, source })
            }
        }
    }

    /// Queues a sample. Never blocks: one that does not fit becomes part of a gap.
    pub fn offer(&mut self, sample: Arc<Sample>) {
        self.offer_with_summary(sample, FrameSummary::default());
    }

    /// The same with its summary.
    pub fn offer_with_summary(&mut self, sample: Arc<Sample>, summary: FrameSummary) {
        let at = sample.at.into();
        self.last_offered = Some(at);
        let message = Message::Sample { sample, summary, loss: self.pending_loss };
        match self.queue.as_ref().map(|queue| queue.try_send(message)) {
            Some(Ok(())) => self.pending_loss = None,
            Some(Err(TrySendError::Full(_))) => LostSamples::add_one(&mut self.pending_loss, at, GapReason::DiskTooSlow),
            Some(Err(TrySendError::Disconnected(_))) => self.set_writer_lost(),
            None => {}
        }
    }

    /// Adds a gap of `count` samples that were not taken before the next one, which has that timestamp.
    pub fn add_missed(&mut self, count: u64, next: Timestamp) {
        if count > 0 {
            let from = self.last_offered.unwrap_or(next);
            LostSamples { count, from, to: next, reason: GapReason::NotSampled }.merge_into(&mut self.pending_loss);
        }
    }

    /// Adds a gap of samples that were lost elsewhere.
    pub fn add_gap(&mut self, gap: &Gap) {
        LostSamples { count: gap.lost_samples, from: gap.from, to: gap.to, reason: gap.reason }
            .merge_into(&mut self.pending_loss);
    }

    /// Queues a mark; `false` if the queue is full, or nothing more is recorded.
    pub fn add_mark(&mut self, at: Timestamp, text: &str) -> bool {
        let Some(text) = Mark::sanitize(text) else { return false };
        let goes_on = matches!(self.status(), RecorderStatus::Recording(_) | RecorderStatus::Paused { .. });
        let message = Message::Mark { at, text };
        goes_on && self.queue.as_ref().is_some_and(|queue| queue.try_send(message).is_ok())
    }

    /// Sets the status after the thread has ended unexpectedly.
    fn set_writer_lost(&self) {
        let kept = self.status().progress();
        *lock_ignoring_poison(&self.shared.status) =
            RecorderStatus::Failed { reason: "an internal error of stalltop".to_owned(), progress: kept };
    }

    pub fn status(&self) -> RecorderStatus {
        lock_ignoring_poison(&self.shared.status).clone()
    }

    /// The files of the recording; it is written to the last one.
    pub fn locations(&self) -> Vec<Location> {
        lock_ignoring_poison(&self.shared.locations).clone()
    }

    /// Writes what is queued, the index and the end; gives up on a disk that does not answer within `timeout`.
    pub fn finish(mut self, timeout: Duration) -> RecorderStatus {
        self.close(timeout)
    }

    /// The same, for callers that need the recorder afterwards.
    pub fn close(&mut self, timeout: Duration) -> RecorderStatus {
        if self.queue.is_some() {
            *lock_ignoring_poison(&self.shared.loss_at_end) = self.pending_loss.take();
            self.queue = None;
            self.awaits_end = true;
        }
        if self.awaits_end {
            match self.writer_ended.recv_timeout(timeout) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => {
                    let kept = self.status().progress();
                    return RecorderStatus::Failed { reason: "the disk does not answer".to_owned(), progress: kept };
                }
                Err(RecvTimeoutError::Disconnected) => self.set_writer_lost(),
            }
            self.awaits_end = false;
        }
        self.status()
    }

    /// False if `close` gave up on the disk: it can be called again.
    pub fn has_ended(&self) -> bool {
        self.queue.is_none() && !self.awaits_end
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Not again where `close` gave up.
        if self.queue.is_some() {
            self.close(Duration::from_secs(1));
        }
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn_writer(
    writing: impl FnOnce(Arc<SharedState>) -> RecordingWriter,
    place: Location,
    queue: usize,
) -> Result<Recorder, RecordingError> {
    let (queue, messages) = sync_channel(queue.max(1));
    let (end, ended) = sync_channel(1);
    let shared = Arc::new(SharedState {
        status: Mutex::new(RecorderStatus::Recording(RecordingProgress::default())),
        locations: Mutex::new(vec![place.clone()]),
        loss_at_end: Mutex::new(None),
    });
    let mut writing = writing(Arc::clone(&shared));
    writing.publish_status();
    let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
        writing.run(&messages);
        // Released before the end is signalled: the caller may open the file at once.
        drop(writing);
        // The recorder may have stopped waiting.
        let _ = end.try_send(());
    });
    match thread {
        Ok(_) => Ok(Recorder {
            queue: Some(queue),
            awaits_end: false,
            writer_ended: ended,
            shared,
            pending_loss: None,
            last_offered: None,
        }),
        Err(source) => Err(RecordingError::Write { path: place, source }),
    }
}
