//! Recordings: samples in a file, in a pipe or in memory, all in the same bytes (docs/recording-format.md).
//!
//! A recording holds facts, never conclusions. Nothing here judges, draws or reads the kernel; nothing here trusts what
//! it reads. `Recorder` writes, `Replayer` reads files, `StreamReader` reads pipes, `Tape` keeps the last minutes,
//! `Copier` makes a new recording of others.

mod error;
mod frames;
mod payload;
mod read;
mod storage;
mod wire;
mod write;

pub use error::{DetectedFormat, FrameError, Location, RecordingError};
pub use frames::damage::{Damage, DamageKind, Tail};
pub use frames::frame_summary::{FrameSummary, SummarySeverity};
pub use frames::header::{FileHeader, FileId};
pub use frames::meta::{Gap, GapReason, Mark, Meta, Redaction};
pub use read::inspection::Inspection;
pub use read::replayer::{Growth, Replayer, UnreadableFile};
pub use read::stream::{StreamEvent, StreamReader};
pub use storage::{AtomicFile, DirHandle, DiskSpace, Storage, parent_directory, save_recording};
pub use wire::Malformed;
pub use write::copier::{Copier, CopyTotals};
pub use write::frame_writer::Sections;
pub use write::history_ring::{FrameBacklog, HistoryRing};
pub use write::recorder::{Recorder, RecorderOptions, RecorderStatus, RecordingProgress};

/// An instant as every frame carries it. Order is by sequence: REALTIME may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// CLOCK_BOOTTIME
    pub boottime_ns: u64,
    /// CLOCK_REALTIME
    pub realtime_ns: i64,
}

impl From<crate::sample::Instant> for Timestamp {
    fn from(at: crate::sample::Instant) -> Timestamp {
        Timestamp { boottime_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
    }
}

impl From<Timestamp> for crate::sample::Instant {
    /// A recording does not keep CLOCK_MONOTONIC: CLOCK_BOOTTIME stands in for it.
    fn from(at: Timestamp) -> crate::sample::Instant {
        crate::sample::Instant { boottime_ns: at.boottime_ns, monotonic_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
    }
}
