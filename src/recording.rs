//! Recordings: samples in a file, in a pipe or in memory, all in the same format (docs/recording-format.md).
//!
//! A recording has raw counters and no conclusions. Nothing in this module evaluates, draws or reads the kernel, and it does not
//! trust what it reads. `Recorder` writes, `Replayer` reads files, `StreamReader` reads pipes, `HistoryRing` keeps the last
//! minutes in memory, `Copier` makes a new recording of others.

mod error;
mod format;
mod read;
mod storage;
mod write;

pub use error::{DetectedFormat, FrameError, Location, RecordingError};
pub use format::file_header::{FileHeader, FileId};
pub use format::frame_summary::{FrameSummary, SummarySeverity};
pub use format::meta::{Gap, GapReason, Mark, Meta, Redaction};
pub use format::wire::Malformed;
pub use read::damage::{Damage, DamageKind, Tail};
pub use read::decode_ahead::{DecodedSample, DecodedSamples};
pub use read::decoder::SampleParts;
pub use read::growth::Growth;
pub use read::inspection::Inspection;
pub use read::replayer::{Replayer, UnreadableFile};
pub use read::stream::{StreamEvent, StreamReader};
pub use storage::{AtomicFile, DirHandle, DiskSpace, Storage, parent_directory, save_recording};
pub use write::copier::{Copier, CopyTotals};
pub use write::frame_writer::{SampleFrame, Sections};
pub use write::history_ring::{FrameBacklog, HistoryRing};
pub use write::recorder::{Recorder, RecorderOptions, RecorderStatus, RecordingProgress, THREAD_NAME as RECORDER_THREAD};

/// The timestamp of a frame. Order is by sequence number: REALTIME may jump.
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
    /// A recording does not keep CLOCK_MONOTONIC: CLOCK_BOOTTIME replaces it.
    fn from(at: Timestamp) -> crate::sample::Instant {
        crate::sample::Instant { boottime_ns: at.boottime_ns, monotonic_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
    }
}
