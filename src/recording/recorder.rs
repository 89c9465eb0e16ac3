//! Records samples on a thread of its own: the disk that is recorded on may be the one that is stuck.
//!
//! `offer` never blocks. What the queue cannot take becomes a gap in the recording. A full disk pauses the recording and
//! is tried again; any other failure ends it. What was written stays valid in every case.

use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::Moment;
use super::encode::TooLarge;
use super::error::{Place, RecordingError};
use super::framer::{Framer, SampleEncoder, Sections, fresh_identity};
use super::header::FileId;
use super::meta::{Gap, GapReason, Mark, Meta};
use super::storage::{FileStorage, Storage, StreamStorage, write_all};
use super::tape::History;
use crate::sample::Sample;

/// A power cut costs at most so many samples.
const SAMPLES_A_SYNC: u32 = 60;

/// How a recorder works, beside what the meta frame says.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    pub sections: Sections,
    /// Samples that may wait for the disk.
    pub queue: usize,
    /// Whether to stop before the file system is full: 5 % of it, at least 64 MiB, at most 1 GiB stay free.
    pub keep_free: bool,
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
    /// Closed in good order.
    Finished(Kept),
}

impl RecorderStatus {
    pub fn kept(&self) -> Kept {
        match self {
            RecorderStatus::Recording(kept) | RecorderStatus::Finished(kept) => *kept,
            RecorderStatus::Paused { kept, .. } | RecorderStatus::Failed { kept, .. } => *kept,
        }
    }
}

/// How much is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
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
    /// Lost after the last sample that went into the queue.
    lost_at_end: Mutex<Option<Lost>>,
}

enum Message {
    Sample { sample: Arc<Sample>, lost: Option<Lost> },
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
        let mut storage = FileStorage::create(path)?;
        match begin(&mut storage, meta, &options) {
            Ok(framer) => start(Box::new(storage), framer, meta, options, path.into()),
            Err(source) => {
                storage.discard(path);
                Err(RecordingError::Write { path: path.into(), source })
            }
        }
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
        match begin(storage.as_mut(), meta, &options) {
            Ok(framer) => start(storage, framer, meta, options, Place::Stream),
            Err(source) => Err(RecordingError::Write { path: Place::Stream, source }),
        }
    }

    /// Takes a sample to be recorded. Never blocks: one that does not fit is counted, and told in the recording.
    pub fn offer(&mut self, sample: Arc<Sample>) {
        let at = sample.at.into();
        self.last = Some(at);
        let message = Message::Sample { sample, lost: self.lost };
        match self.queue.as_ref().map(|queue| queue.try_send(message)) {
            Some(Ok(())) => self.lost = None,
            Some(Err(TrySendError::Full(_))) => Lost::add(&mut self.lost, at, GapReason::TooSlow),
            // The writer has ended; its status says why.
            Some(Err(TrySendError::Disconnected(_))) | None => {}
        }
    }

    /// Samples that should have been between the last one offered and the one that is offered next, and were not taken.
    pub fn miss(&mut self, count: u64, next: Moment) {
        if count > 0 {
            let from = self.last.unwrap_or(next);
            Lost { count, from, to: next, why: GapReason::NotTaken }.join(&mut self.lost);
        }
    }

    /// Puts a word into the recording; `false` when the queue has no room for it.
    pub fn mark(&mut self, at: Moment, text: &str) -> bool {
        let Some(text) = Mark::text(text) else { return false };
        let message = Message::Mark { at, text };
        self.queue.as_ref().is_some_and(|queue| queue.try_send(message).is_ok())
    }

    pub fn status(&self) -> RecorderStatus {
        lock(&self.shared.status).clone()
    }

    /// Writes what waits, the index and the end; gives up on a disk that does not answer for that long.
    pub fn finish(mut self, patience: Duration) -> RecorderStatus {
        self.close(patience)
    }

    fn close(&mut self, patience: Duration) -> RecorderStatus {
        if self.queue.is_some() {
            *lock(&self.shared.lost_at_end) = self.lost.take();
            self.queue = None;
            if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = self.ended.recv_timeout(patience) {
                let kept = self.status().kept();
                return RecorderStatus::Failed { why: "the disk does not answer".to_owned(), kept };
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

/// Writes what every recording begins with.
fn begin(storage: &mut dyn Storage, meta: &Meta, options: &RecorderOptions) -> Result<Framer, std::io::Error> {
    let (id, created_ns) = options.identity.unwrap_or_else(fresh_identity);
    let mut framer = Framer::new(id, created_ns);
    let too_large = |TooLarge| std::io::Error::other("what it begins with is larger than a frame may be");
    let mut bytes = framer.start(meta, &options.sections).map_err(too_large)?;
    options.history.write(&mut framer, &mut bytes);
    write_all(storage, &bytes).map_err(|(_, error)| error)?;
    storage.sync()?;
    Ok(framer)
}

fn start(
    storage: Box<dyn Storage>,
    framer: Framer,
    meta: &Meta,
    options: RecorderOptions,
    place: Place,
) -> Result<Recorder, RecordingError> {
    let (queue, messages) = sync_channel(options.queue.max(1));
    let (end, ended) = sync_channel(1);
    let kept = Kept { bytes: framer.offset(), samples: framer.samples(), lost: 0 };
    let shared = Arc::new(Shared { status: Mutex::new(RecorderStatus::Recording(kept)), lost_at_end: Mutex::new(None) });
    let mut writing = Writing {
        storage,
        framer,
        encoder: SampleEncoder::new(meta.redaction),
        shared: shared.clone(),
        options,
        mode: Mode::Recording,
        lost: 0,
        pending: None,
        since_sync: 0,
        out: Vec::new(),
    };
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

/// The other end of the queue, on its own thread.
struct Writing {
    storage: Box<dyn Storage>,
    framer: Framer,
    encoder: SampleEncoder,
    shared: Arc<Shared>,
    options: RecorderOptions,
    mode: Mode,
    /// Samples that went into gaps.
    lost: u64,
    /// A gap that is not written yet.
    pending: Option<Lost>,
    since_sync: u32,
    out: Vec<u8>,
}

enum Mode {
    Recording,
    /// CLOCK_BOOTTIME of the sample at which it was tried last.
    Paused {
        why: String,
        tried_ns: u64,
    },
    Failed {
        why: String,
    },
}

impl Writing {
    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            let message = match messages.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Empty) => match messages.recv() {
                    Ok(message) => message,
                    Err(_) => break,
                },
                Err(TryRecvError::Disconnected) => break,
            };
            match message {
                Message::Sample { sample, lost } => {
                    self.gap(lost);
                    self.sample(&sample);
                }
                Message::Mark { at, text } => {
                    self.out.clear();
                    let checkpoint = self.framer.checkpoint();
                    if matches!(self.mode, Mode::Recording) {
                        self.framer.mark(&mut self.out, at, &text);
                        self.write(checkpoint, at);
                    }
                }
            }
            self.tell();
        }
        let lost = lock(&self.shared.lost_at_end).take();
        self.gap(lost);
        self.end();
    }

    /// Notes what the queue could not take; it is written with the next sample.
    fn gap(&mut self, lost: Option<Lost>) {
        let Some(lost) = lost else { return };
        self.lost = self.lost.saturating_add(lost.count);
        lost.join(&mut self.pending);
    }

    fn lose(&mut self, at: Moment, why: GapReason) {
        self.lost += 1;
        Lost::add(&mut self.pending, at, why);
    }

    fn sample(&mut self, sample: &Arc<Sample>) {
        let at = sample.at.into();
        match &mut self.mode {
            Mode::Failed { .. } => {
                self.lost += 1;
                return;
            }
            Mode::Paused { tried_ns, .. } => {
                let since = sample.at.boottime_ns.saturating_sub(*tried_ns);
                if u128::from(since) < self.options.retry.as_nanos() {
                    return self.lose(at, GapReason::NoSpace);
                }
                *tried_ns = sample.at.boottime_ns;
            }
            Mode::Recording => {}
        }
        let frame = match self.encoder.encode(sample) {
            Ok(frame) => frame,
            Err(TooLarge) => return self.lose(at, GapReason::TooLarge),
        };
        if frame.is_key()
            && let Some(why) = self.too_full()
        {
            self.encoder.forget_key();
            self.mode = Mode::Paused { why, tried_ns: sample.at.boottime_ns };
            return self.lose(at, GapReason::NoSpace);
        }
        self.out.clear();
        let checkpoint = self.framer.checkpoint();
        self.write_gap();
        self.framer.sample(&mut self.out, &frame);
        if !self.write(checkpoint, at) {
            return self.lose(at, GapReason::NoSpace);
        }
        self.pending = None;
        self.mode = Mode::Recording;
        self.since_sync += 1;
        if frame.is_key() || self.since_sync >= SAMPLES_A_SYNC {
            self.since_sync = 0;
            self.sync();
        }
    }

    fn write_gap(&mut self) {
        let Some(lost) = self.pending else { return };
        let gap = Gap { before: self.framer.samples(), lost: lost.count, from: lost.from, to: lost.to, why: lost.why };
        self.framer.gap(&mut self.out, &gap);
    }

    /// One write. What it could not finish is taken back.
    fn write(&mut self, checkpoint: super::framer::Checkpoint, at: Moment) -> bool {
        let Err((taken, error)) = write_all(self.storage.as_mut(), &self.out) else { return true };
        self.framer.take_back(checkpoint);
        self.encoder.forget_key();
        let good = self.framer.offset();
        // Always: a write that failed may have left something all the same.
        let rolled_back = self.storage.truncate(good).is_ok() || taken == 0;
        let full = matches!(error.raw_os_error(), Some(nix::libc::ENOSPC | nix::libc::EDQUOT));
        self.mode = if full && rolled_back {
            Mode::Paused { why: error.to_string(), tried_ns: at.boottime_ns }
        } else {
            Mode::Failed { why: error.to_string() }
        };
        false
    }

    fn sync(&mut self) {
        // After a failed sync nobody knows what of it is on the disk: this descriptor is not trusted again.
        if let Err(error) = self.storage.sync() {
            self.mode = Mode::Failed { why: format!("the disk did not take it: {error}") };
        }
    }

    /// Why the file system is left alone, when it has too little room.
    fn too_full(&self) -> Option<String> {
        const MIB: u64 = 1 << 20;
        let room = self.storage.room().filter(|_| self.options.keep_free)?;
        let floor = (room.total / 20).clamp(64 * MIB, 1024 * MIB);
        let fits = room.available > floor;
        (!fits).then(|| format!("only {} MiB free, and {} MiB are left free", room.available / MIB, floor / MIB))
    }

    fn end(&mut self) {
        if matches!(self.mode, Mode::Failed { .. }) {
            return self.tell();
        }
        let paused = matches!(self.mode, Mode::Paused { .. });
        self.out.clear();
        let checkpoint = self.framer.checkpoint();
        self.write_gap();
        self.framer.end(&mut self.out);
        let at = Moment::default();
        let written = self.write(checkpoint, at);
        if written {
            self.sync();
        }
        if written && !paused && matches!(self.mode, Mode::Recording) {
            *lock(&self.shared.status) = RecorderStatus::Finished(self.kept());
        } else {
            self.tell();
        }
    }

    fn kept(&self) -> Kept {
        Kept { bytes: self.framer.offset(), samples: self.framer.samples(), lost: self.lost }
    }

    fn tell(&self) {
        let kept = self.kept();
        *lock(&self.shared.status) = match &self.mode {
            Mode::Recording => RecorderStatus::Recording(kept),
            Mode::Paused { why, .. } => RecorderStatus::Paused { why: why.clone(), kept },
            Mode::Failed { why } => RecorderStatus::Failed { why: why.clone(), kept },
        };
    }
}
