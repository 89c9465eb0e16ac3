//! What is missing from a recording, and how the order of its frames shows it.

use std::ops::Range;

use super::frame::FrameHeader;
use crate::recording::Moment;
use crate::recording::error::FrameFault;

/// Bytes that gave nothing, and what was lost with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub bytes: Range<u64>,
    pub what: DamageKind,
    /// How many samples, as far as the numbers of the sound frames around it tell.
    pub lost: u64,
    /// The last sound moment before, the first after.
    pub from: Option<Moment>,
    pub to: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    #[error("one of the two copies of the file header is damaged")]
    FileHeader,
    #[error("these bytes are no frame of this recording")]
    Garbage,
    #[error("frames are missing here")]
    Missing,
    #[error("a frame stands here that belongs elsewhere")]
    OutOfOrder,
    #[error("a file of the directory cannot be read as a recording")]
    Segment,
    #[error("{0}")]
    Frame(FrameFault),
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
    Torn { offset: u64, have: u64, need: Option<u64> },
}

/// What the numbers of the frames say about their order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Order {
    next: u64,
    last: Option<Moment>,
}

/// What a frame with a sound header is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It belongs here; that many samples before it are missing.
    Sound { lost: u64 },
    /// It was here before.
    OutOfOrder,
}

impl Order {
    pub fn judge(&self, header: &FrameHeader) -> Verdict {
        match header.sequence.checked_sub(self.next) {
            Some(lost) => Verdict::Sound { lost },
            None => Verdict::OutOfOrder,
        }
    }

    pub fn accept(&mut self, header: &FrameHeader) {
        self.next = header.sequence.saturating_add(u64::from(header.kind.is_sample()));
        self.last = Some(header.at);
    }

    /// The moment of the last sound frame.
    pub fn last(&self) -> Option<Moment> {
        self.last
    }
}
