//! Damage of a recording, and the check of the frames' order that finds missing ones.

use std::ops::Range;

use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::format::frame::FrameHeader;

/// Bytes that could not be read, and what was lost with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub bytes: Range<u64>,
    pub kind: DamageKind,
    /// Samples that are missing, by the sequence numbers of the intact frames around.
    pub lost_samples: u64,
    /// Timestamps of the last intact frame before and of the first one after.
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
    #[error("this frame is out of order")]
    OutOfOrder,
    #[error("a file of the directory cannot be read as a recording")]
    UnreadableSegment,
    #[error("{0}")]
    Frame(FrameError),
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With an end frame.
    Closed,
    /// It is still being written.
    Growing,
    /// After a complete frame, but without an end frame: the recorder was killed. Only what it had not written is missing.
    Unfinished,
    /// Inside a frame, of `frame_bytes` if its header is complete.
    Torn { offset: u64, available_bytes: u64, frame_bytes: Option<u64> },
}

/// Checks the sequence numbers of frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct SequenceTracker {
    next_sequence: u64,
    last_timestamp: Option<Timestamp>,
}

/// Whether a frame with an intact header is in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceStatus {
    /// In order; `lost` samples before it are missing.
    InOrder { lost_samples: u64 },
    /// An earlier frame has this number or a later one.
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

    /// Timestamp of the last intact frame.
    pub fn last_timestamp(&self) -> Option<Timestamp> {
        self.last_timestamp
    }
}
