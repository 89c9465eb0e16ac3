//! The writer thread of the recorder: receives samples from the queue and writes them. No other thread accesses the disk.

mod storage_access;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use super::{LostSamples, Message, RecorderOptions, RecorderStatus, RecordingProgress, SharedState, lock_ignoring_poison};
use crate::recording::Timestamp;
use crate::recording::format::file_header::FileId;
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, GapReason, Meta};
use crate::recording::storage::{Storage, write_all};
use crate::recording::write::encoder::FrameTooLarge;
use crate::recording::write::frame_writer::{FrameWriter, SampleEncoder, Sections, new_file_identity};
use crate::recording::write::history_ring::FrameBacklog;
use crate::sample::Sample;

/// Marks that wait for space on the disk at most: later ones are lost.
const MAX_PENDING_MARKS: usize = 500;

/// Samples that a power loss costs at most.
const SAMPLES_PER_SYNC: u32 = 60;

pub(super) struct RecordingWriter {
    storage: Box<dyn Storage>,
    frame_writer: FrameWriter,
    encoder: SampleEncoder,
    meta: Meta,
    options: RecorderOptions,
    shared: Arc<SharedState>,
    state: WriterState,
    /// Samples that were written, and those that became gaps.
    sample_count: u64,
    lost_samples: u64,
    /// Bytes of the files before this one.
    earlier_files_bytes: u64,
    /// A gap and marks that are not written yet: they are written before the next sample.
    pending_loss: Option<LostSamples>,
    pending_marks: Vec<(Timestamp, String)>,
    samples_since_sync: u32,
    /// What is not synced yet, with the samples that it refers to: if the sync fails, the next file begins with it.
    unsynced: FrameBacklog,
    buffer: Vec<u8>,
}

enum WriterState {
    Recording,
    /// No space. The time is CLOCK_BOOTTIME of the sample at which it was tried last.
    Paused {
        reason: String,
        last_attempt_ns: u64,
    },
    /// The storage failed, and no other could be created yet.
    StorageFailed {
        reason: String,
        last_attempt_ns: u64,
    },
    Failed {
        reason: String,
    },
    /// The recording has reached `max_bytes`.
    LimitReached,
}

/// The outcome of a write.
enum WriteOutcome {
    Complete,
    /// Rolled back: there is no space.
    NoSpace,
    /// The storage failed and is not written again.
    StorageFailed,
}

/// Writes the start of a recording: headers, meta frame, sections and earlier samples.
pub(super) fn write_start(
    storage: &mut dyn Storage,
    meta: &Meta,
    sections: &Sections,
    history: &FrameBacklog,
    identity: Option<(FileId, i64)>,
) -> io::Result<FrameWriter> {
    let (id, created_ns) = identity.unwrap_or_else(new_file_identity);
    let mut framer = FrameWriter::new(id, created_ns);
    let too_large = |FrameTooLarge| io::Error::other("what it begins with is larger than a frame may be");
    let mut bytes = framer.start(meta, sections).map_err(too_large)?;
    history.append_to(&mut framer, &mut bytes);
    write_all(storage, &bytes).map_err(|(_, error)| error)?;
    storage.sync()?;
    Ok(framer)
}

impl RecordingWriter {
    /// A writer to a storage that has its start already.
    pub(super) fn new(
        storage: Box<dyn Storage>,
        framer: FrameWriter,
        meta: Meta,
        options: RecorderOptions,
        shared: Arc<SharedState>,
    ) -> RecordingWriter {
        let encoder = SampleEncoder::new(meta.redaction);
        let samples = framer.sample_count();
        RecordingWriter {
            storage,
            frame_writer: framer,
            encoder,
            meta,
            options,
            shared,
            state: WriterState::Recording,
            sample_count: samples,
            lost_samples: 0,
            earlier_files_bytes: 0,
            pending_loss: None,
            pending_marks: Vec::new(),
            samples_since_sync: 0,
            unsynced: FrameBacklog::default(),
            buffer: Vec::new(),
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
                Message::Sample { sample, summary, loss: lost } => {
                    self.add_loss(lost);
                    self.write_sample(&sample, summary);
                }
                Message::Mark { at, text } => self.write_mark(at, text),
            }
            self.publish_status();
        }
        let lost = lock_ignoring_poison(&self.shared.loss_at_end).take();
        self.add_loss(lost);
        self.finish();
    }

    /// Adds to the gap that is written with the next sample.
    fn add_loss(&mut self, lost: Option<LostSamples>) {
        let Some(lost) = lost else { return };
        self.lost_samples = self.lost_samples.saturating_add(lost.count);
        lost.merge_into(&mut self.pending_loss);
    }

    fn count_lost_sample(&mut self, at: Timestamp, why: GapReason) {
        self.lost_samples += 1;
        LostSamples::add_one(&mut self.pending_loss, at, why);
    }

    fn write_sample(&mut self, sample: &Arc<Sample>, summary: FrameSummary) {
        let at: Timestamp = sample.at.into();
        if !self.can_write(at) {
            return;
        }
        let frame = match self.encoder.encode(sample, summary) {
            Ok(frame) => frame,
            Err(FrameTooLarge) => return self.count_lost_sample(at, GapReason::SampleTooLarge),
        };
        if frame.is_key()
            && let Some(why) = self.low_space_reason()
        {
            self.encoder.force_key_frame();
            self.state = WriterState::Paused { reason: why, last_attempt_ns: at.boottime_ns };
            return self.count_lost_sample(at, GapReason::NoSpace);
        }
        if !self.fits_limit(self.frame_writer.max_len_with(&frame)) {
            self.state = WriterState::LimitReached;
            return;
        }
        let written = self.write_frames(at, |writing| {
            writing.append_pending();
            writing.frame_writer.append_sample(&mut writing.buffer, &frame);
        });
        match written {
            WriteOutcome::Complete => {}
            WriteOutcome::NoSpace => return self.count_lost_sample(at, GapReason::NoSpace),
            WriteOutcome::StorageFailed => return self.count_lost_sample(at, GapReason::DiskFailed),
        }
        if let Some(gap) = self.pending_gap() {
            self.unsynced.add_gap(gap);
            self.pending_loss = None;
        }
        self.pending_marks.drain(..).for_each(|(at, text)| self.unsynced.add_mark(at, &text));
        self.state = WriterState::Recording;
        self.sample_count += 1;
        self.samples_since_sync += 1;
        let is_key = frame.is_key();
        self.unsynced.push(frame);
        if (is_key || self.samples_since_sync >= SAMPLES_PER_SYNC) && !self.sync(at) {
            self.switch_to_successor();
        }
    }

    /// Whether the sample can be written; else it is counted as lost.
    fn can_write(&mut self, at: Timestamp) -> bool {
        let waits =
            |tried_ns: u64| u128::from(at.boottime_ns.saturating_sub(tried_ns)) < self.options.retry_interval.as_nanos();
        match &mut self.state {
            WriterState::Recording => return true,
            WriterState::Failed { .. } => self.lost_samples += 1,
            // What comes after the limit is not lost: it was not to be recorded.
            WriterState::LimitReached => {}
            WriterState::Paused { last_attempt_ns: tried_ns, .. } if waits(*tried_ns) => {
                self.count_lost_sample(at, GapReason::NoSpace)
            }
            WriterState::Paused { last_attempt_ns: tried_ns, .. } => {
                *tried_ns = at.boottime_ns;
                return true;
            }
            WriterState::StorageFailed { last_attempt_ns: tried_ns, .. } if waits(*tried_ns) => {
                self.count_lost_sample(at, GapReason::DiskFailed)
            }
            WriterState::StorageFailed { last_attempt_ns: tried_ns, .. } => {
                *tried_ns = at.boottime_ns;
                if self.switch_to_successor() {
                    return true;
                }
                self.count_lost_sample(at, GapReason::DiskFailed);
            }
        }
        false
    }

    fn write_mark(&mut self, at: Timestamp, text: String) {
        if self.pending_marks.len() >= MAX_PENDING_MARKS {
            return;
        }
        self.pending_marks.push((at, text));
        let recording = matches!(self.state, WriterState::Recording);
        if !self.fits_limit(self.frame_writer.max_end_len()) {
            self.pending_marks.pop();
            if recording {
                self.state = WriterState::LimitReached;
            }
            return;
        }
        if recording && matches!(self.write_frames(at, RecordingWriter::append_pending_marks), WriteOutcome::Complete) {
            self.pending_marks.drain(..).for_each(|(at, text)| self.unsynced.add_mark(at, &text));
        }
    }

    /// Whether `more` bytes and the waiting marks keep the recording within `max_bytes`.
    fn fits_limit(&self, more: u64) -> bool {
        let marks: u64 = self.pending_marks.iter().map(|(_, text)| FrameWriter::max_mark_len(text)).sum();
        let needed = self.earlier_files_bytes + self.frame_writer.offset() + marks + more;
        self.options.max_bytes.is_none_or(|most| needed <= most)
    }

    fn append_pending(&mut self) {
        if let Some(gap) = self.pending_gap() {
            self.frame_writer.append_gap(&mut self.buffer, &gap);
        }
        self.append_pending_marks();
    }

    fn pending_gap(&self) -> Option<Gap> {
        let before = self.frame_writer.sample_count();
        self.pending_loss.map(|LostSamples { count: lost, from, to, reason: why }| Gap {
            samples_before: before,
            lost_samples: lost,
            from,
            to,
            reason: why,
        })
    }

    fn append_pending_marks(&mut self) {
        for (at, text) in &self.pending_marks {
            self.frame_writer.append_mark(&mut self.buffer, *at, text);
        }
    }

    fn finish(&mut self) {
        let paused = matches!(self.state, WriterState::Paused { .. });
        if matches!(self.state, WriterState::LimitReached) && self.sample_count == 0 {
            // Not one sample fits: a file without samples is of no use.
            self.storage.discard();
            return self.publish_status();
        }
        let at = Timestamp::default();
        let put = |writing: &mut RecordingWriter| {
            writing.append_pending();
            writing.frame_writer.append_end(&mut writing.buffer);
        };
        let mut ended = false;
        for _ in 0..2 {
            let open = matches!(self.state, WriterState::Recording | WriterState::Paused { .. } | WriterState::LimitReached);
            if !open || !matches!(self.write_frames(at, put), WriteOutcome::Complete) {
                break;
            }
            ended = self.sync(at);
            if ended || !self.switch_to_successor() {
                break;
            }
        }
        self.publish_status();
        if ended && !paused {
            *lock_ignoring_poison(&self.shared.status) = RecorderStatus::Finished(self.progress());
        }
    }

    fn progress(&self) -> RecordingProgress {
        RecordingProgress {
            bytes: self.earlier_files_bytes + self.frame_writer.offset(),
            samples: self.sample_count,
            lost_samples: self.lost_samples,
        }
    }

    pub(super) fn publish_status(&self) {
        let kept = self.progress();
        *lock_ignoring_poison(&self.shared.status) = match &self.state {
            WriterState::Recording => RecorderStatus::Recording(kept),
            WriterState::Paused { reason: why, .. } | WriterState::StorageFailed { reason: why, .. } => {
                RecorderStatus::Paused { reason: why.clone(), progress: kept }
            }
            WriterState::Failed { reason: why } => RecorderStatus::Failed { reason: why.clone(), progress: kept },
            WriterState::LimitReached => RecorderStatus::LimitReached(kept),
        };
    }
}
