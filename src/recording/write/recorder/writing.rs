//! The other end of the recorder's queue, on its own thread: the only one that touches the disk.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::{Kept, Lost, Message, RecorderOptions, RecorderStatus, Shared, lock};
use crate::recording::Moment;
use crate::recording::frames::digest::Digest;
use crate::recording::frames::header::FileId;
use crate::recording::frames::meta::{Gap, GapReason, Meta};
use crate::recording::payload::encode::TooLarge;
use crate::recording::storage::{Storage, write_all};
use crate::recording::write::framer::{Checkpoint, Framer, SampleEncoder, Sections, fresh_identity};
use crate::recording::write::tape::History;
use crate::sample::Sample;

/// Marks that wait for room on the disk at most: later ones are lost.
const MOST_WAITING: usize = 500;

/// A power cut costs at most so many samples.
const SAMPLES_A_SYNC: u32 = 60;

pub(super) struct Writing {
    storage: Box<dyn Storage>,
    framer: Framer,
    encoder: SampleEncoder,
    meta: Meta,
    options: RecorderOptions,
    shared: Arc<Shared>,
    mode: Mode,
    /// Samples that are safe, and those that went into gaps.
    samples: u64,
    lost: u64,
    /// Bytes of files that came before this one.
    earlier_bytes: u64,
    /// A gap that is not written yet, and marks that found no room: the next sample takes them along.
    pending: Option<Lost>,
    waiting: Vec<(Moment, String)>,
    since_sync: u32,
    /// What the disk may not have yet, with the samples that this refers to: should it fail, another file begins with it.
    unsynced: History,
    out: Vec<u8>,
}

enum Mode {
    Recording,
    /// No room. The time is CLOCK_BOOTTIME of the sample at which it was tried last.
    Paused {
        why: String,
        tried_ns: u64,
    },
    /// The storage failed, and there was no other yet.
    Adrift {
        why: String,
        tried_ns: u64,
    },
    Failed {
        why: String,
    },
    /// It has as many bytes as it may have.
    Full,
}

/// What became of a write.
enum Written {
    Whole,
    /// Taken back: there is no room.
    NoRoom,
    /// The storage is not to be trusted any more.
    Broken,
}

/// Writes what every recording begins with.
pub(super) fn begin(
    storage: &mut dyn Storage,
    meta: &Meta,
    sections: &Sections,
    history: &History,
    identity: Option<(FileId, i64)>,
) -> io::Result<Framer> {
    let (id, created_ns) = identity.unwrap_or_else(fresh_identity);
    let mut framer = Framer::new(id, created_ns);
    let too_large = |TooLarge| io::Error::other("what it begins with is larger than a frame may be");
    let mut bytes = framer.start(meta, sections).map_err(too_large)?;
    history.write(&mut framer, &mut bytes);
    write_all(storage, &bytes).map_err(|(_, error)| error)?;
    storage.sync()?;
    Ok(framer)
}

impl Writing {
    /// Into a storage that was begun already.
    pub(super) fn into(
        storage: Box<dyn Storage>,
        framer: Framer,
        meta: Meta,
        options: RecorderOptions,
        shared: Arc<Shared>,
    ) -> Writing {
        let encoder = SampleEncoder::new(meta.redaction);
        let samples = framer.samples();
        Writing {
            storage,
            framer,
            encoder,
            meta,
            options,
            shared,
            mode: Mode::Recording,
            samples,
            lost: 0,
            earlier_bytes: 0,
            pending: None,
            waiting: Vec::new(),
            since_sync: 0,
            unsynced: History::default(),
            out: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, messages: &Receiver<Message>) {
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
                Message::Sample { sample, digest, lost } => {
                    self.gap(lost);
                    self.sample(&sample, digest);
                }
                Message::Mark { at, text } => self.mark(at, text),
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

    fn sample(&mut self, sample: &Arc<Sample>, digest: Digest) {
        let at: Moment = sample.at.into();
        if !self.is_ready(at) {
            return;
        }
        let frame = match self.encoder.encode(sample, digest) {
            Ok(frame) => frame,
            Err(TooLarge) => return self.lose(at, GapReason::TooLarge),
        };
        if frame.is_key()
            && let Some(why) = self.too_full()
        {
            self.encoder.forget_key();
            self.mode = Mode::Paused { why, tried_ns: at.boottime_ns };
            return self.lose(at, GapReason::NoSpace);
        }
        if !self.fits(self.framer.length_with(&frame)) {
            self.mode = Mode::Full;
            return;
        }
        let written = self.put(at, |writing| {
            writing.put_pending();
            writing.framer.sample(&mut writing.out, &frame);
        });
        match written {
            Written::Whole => {}
            Written::NoRoom => return self.lose(at, GapReason::NoSpace),
            Written::Broken => return self.lose(at, GapReason::DiskFailed),
        }
        if let Some(gap) = self.pending_gap() {
            self.unsynced.gap(gap);
            self.pending = None;
        }
        self.waiting.drain(..).for_each(|(at, text)| self.unsynced.mark(at, &text));
        self.mode = Mode::Recording;
        self.samples += 1;
        self.since_sync += 1;
        let is_key = frame.is_key();
        self.unsynced.push(frame);
        if (is_key || self.since_sync >= SAMPLES_A_SYNC) && !self.sync(at) {
            self.begin_anew();
        }
    }

    /// Whether anything can be written; else the sample is lost.
    fn is_ready(&mut self, at: Moment) -> bool {
        let waits = |tried_ns: u64| u128::from(at.boottime_ns.saturating_sub(tried_ns)) < self.options.retry.as_nanos();
        match &mut self.mode {
            Mode::Recording => return true,
            Mode::Failed { .. } => self.lost += 1,
            // Whoever limits it knows that nothing comes after that.
            Mode::Full => {}
            Mode::Paused { tried_ns, .. } if waits(*tried_ns) => self.lose(at, GapReason::NoSpace),
            Mode::Paused { tried_ns, .. } => {
                *tried_ns = at.boottime_ns;
                return true;
            }
            Mode::Adrift { tried_ns, .. } if waits(*tried_ns) => self.lose(at, GapReason::DiskFailed),
            Mode::Adrift { tried_ns, .. } => {
                *tried_ns = at.boottime_ns;
                if self.begin_anew() {
                    return true;
                }
                self.lose(at, GapReason::DiskFailed);
            }
        }
        false
    }

    fn mark(&mut self, at: Moment, text: String) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push((at, text));
        }
        if !self.fits(self.framer.end_length()) {
            self.waiting.pop();
            self.mode = Mode::Full;
        }
        let recording = matches!(self.mode, Mode::Recording);
        if recording && matches!(self.put(at, Writing::put_marks), Written::Whole) {
            self.waiting.drain(..).for_each(|(at, text)| self.unsynced.mark(at, &text));
        }
    }

    /// Whether so much more, with the marks that wait, makes the recording no larger than it may be.
    fn fits(&self, more: u64) -> bool {
        let marks: u64 = self.waiting.iter().map(|(_, text)| Framer::mark_length(text)).sum();
        let needed = self.earlier_bytes + self.framer.offset() + marks + more;
        self.options.most.is_none_or(|most| needed <= most)
    }

    fn put_pending(&mut self) {
        if let Some(gap) = self.pending_gap() {
            self.framer.gap(&mut self.out, &gap);
        }
        self.put_marks();
    }

    fn pending_gap(&self) -> Option<Gap> {
        let before = self.framer.samples();
        self.pending.map(|Lost { count: lost, from, to, why }| Gap { before, lost, from, to, why })
    }

    fn put_marks(&mut self) {
        for (at, text) in &self.waiting {
            self.framer.mark(&mut self.out, *at, text);
        }
    }

    /// Puts frames into the recording with one write, where this one is broken into the next: what they refer to stands there
    /// too.
    fn put(&mut self, at: Moment, frames: impl Fn(&mut Writing)) -> Written {
        let write = |writing: &mut Writing| {
            writing.out.clear();
            let checkpoint = writing.framer.checkpoint();
            frames(writing);
            writing.write(checkpoint, at)
        };
        match write(self) {
            Written::Broken if self.begin_anew() => write(self),
            written => written,
        }
    }

    /// What could not be written is taken back.
    fn write(&mut self, checkpoint: Checkpoint, at: Moment) -> Written {
        let Err((taken, error)) = write_all(self.storage.as_mut(), &self.out) else { return Written::Whole };
        self.framer.take_back(checkpoint);
        self.encoder.forget_key();
        let good = self.framer.offset();
        // Always: a write that failed may have left something all the same.
        let rolled_back = self.storage.truncate(good).is_ok() || taken == 0;
        if rolled_back && matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) {
            self.mode = Mode::Paused { why: error.to_string(), tried_ns: at.boottime_ns };
            return Written::NoRoom;
        }
        self.distrust(&error, error.to_string(), at)
    }

    /// Whether the disk has it all.
    fn sync(&mut self, at: Moment) -> bool {
        self.since_sync = 0;
        match self.storage.sync() {
            Ok(()) => self.unsynced.forget_before_key(),
            // After a failed sync nobody knows what of it is on the disk: this descriptor is not trusted again.
            Err(error) => {
                self.distrust(&error, format!("the disk did not take it: {error}"), at);
                return false;
            }
        }
        true
    }

    fn distrust(&mut self, error: &io::Error, why: String, at: Moment) -> Written {
        // Who limits the size of files does not want another one.
        self.mode = match error.raw_os_error() {
            Some(libc::EFBIG) => Mode::Failed { why },
            _ => Mode::Adrift { why, tried_ns: at.boottime_ns },
        };
        Written::Broken
    }

    /// Goes on in another storage, if there is one: it begins with what the last one may not have. False where there is none
    /// now; whether there will be one later, the mode says.
    fn begin_anew(&mut self) -> bool {
        let Mode::Adrift { why, .. } = &self.mode else { return false };
        let Some(successor) = self.storage.successor() else {
            self.mode = Mode::Failed { why: why.clone() };
            return false;
        };
        // It is tried again later.
        let Ok(mut storage) = successor else { return false };
        match begin(storage.as_mut(), &self.meta, &self.options.sections, &self.unsynced, None) {
            Ok(framer) => {
                self.earlier_bytes += self.framer.offset();
                lock(&self.shared.places).push(storage.place());
                (self.storage, self.framer) = (storage, framer);
                self.mode = Mode::Recording;
                self.since_sync = 0;
                true
            }
            Err(_) => {
                storage.discard();
                false
            }
        }
    }

    /// Why the file system is left alone, when it has too little room.
    fn too_full(&self) -> Option<String> {
        const MIB: u64 = 1 << 20;
        let room = self.storage.room().filter(|_| self.options.keep_free)?;
        let floor = (room.total / 20).clamp(64 * MIB, 1024 * MIB);
        let fits = room.available > floor;
        (!fits).then(|| {
            format!("only {} MiB free there, and the last {} MiB are left to others", room.available / MIB, floor / MIB)
        })
    }

    fn end(&mut self) {
        let paused = matches!(self.mode, Mode::Paused { .. });
        if matches!(self.mode, Mode::Full) && self.samples == 0 {
            // Not one sample fits: a file without any is of no use.
            self.storage.discard();
            return self.tell();
        }
        let at = Moment::default();
        let put = |writing: &mut Writing| {
            writing.put_pending();
            writing.framer.end(&mut writing.out);
        };
        let mut ended = false;
        for _ in 0..2 {
            let open = matches!(self.mode, Mode::Recording | Mode::Paused { .. } | Mode::Full);
            if !open || !matches!(self.put(at, put), Written::Whole) {
                break;
            }
            ended = self.sync(at);
            if ended || !self.begin_anew() {
                break;
            }
        }
        self.tell();
        if ended && !paused {
            *lock(&self.shared.status) = RecorderStatus::Finished(self.kept());
        }
    }

    fn kept(&self) -> Kept {
        Kept { bytes: self.earlier_bytes + self.framer.offset(), samples: self.samples, lost: self.lost }
    }

    pub(super) fn tell(&self) {
        let kept = self.kept();
        *lock(&self.shared.status) = match &self.mode {
            Mode::Recording => RecorderStatus::Recording(kept),
            Mode::Paused { why, .. } | Mode::Adrift { why, .. } => RecorderStatus::Paused { why: why.clone(), kept },
            Mode::Failed { why } => RecorderStatus::Failed { why: why.clone(), kept },
            Mode::Full => RecorderStatus::Full(kept),
        };
    }
}
