//! What is missing from a recording, and how the order of its frames shows it.

use std::ops::Range;

use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::format::frame::FrameHeader;

/// Bytes that gave nothing, and what was lost with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub bytes: Range<u64>,
    pub kind: DamageKind,
    /// How many samples, as far as the numbers of the sound frames around it tell.
    pub lost_samples: u64,
    /// The last sound moment before, the first after.
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    #[error("one of the two copies of the file header is damaged")]
    FileHeader,
    #[error("these bytes are no frame of this recording")]
    NotAFrame,
    #[error("frames are missing here")]
    MissingFrames,
    #[error("a frame stands here that belongs elsewhere")]
    OutOfOrder,
    #[error("a file of the directory cannot be read as a recording")]
    UnreadableSegment,
    #[error("{0}")]
    Frame(FrameError),
}

/// How a recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// In good order.
    Closed,
    /// It is being written.
    Growing,
    /// After a whole frame, but without an end: the recorder was killed. Nothing is missing but what it still held.
    Unfinished,
    /// Inside a frame (of `need` bytes, where its header is there).
    Torn { offset: u64, available_bytes: u64, frame_bytes: Option<u64> },
}

/// What the numbers of the frames say about their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceTracker {
    next_sequence: u64,
    last_timestamp: Option<Timestamp>,
}

/// What a frame with a sound header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStatus {
    /// It belongs here; that many samples before it are missing.
    InOrder { lost_samples: u64 },
    /// It was here before.
    OutOfOrder,
}

impl SequenceTracker {
    pub fn check(&self, header: &FrameHeader) -> SequenceStatus {
        match header.sequence.checked_sub(self.next_sequence) {
            Some(lost) => SequenceStatus::InOrder { lost_samples: lost },
            None => SequenceStatus::OutOfOrder,
        }
    }

    pub fn accept(&mut self, header: &FrameHeader) {
        self.next_sequence = header.sequence.saturating_add(u64::from(header.kind.is_sample()));
        self.last_timestamp = Some(header.at);
    }

    /// The moment of the last sound frame.
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.last_timestamp
    }
}
