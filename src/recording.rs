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

pub use error::{FrameFault, LooksLike, Place, RecordingError};
pub use frames::damage::{Damage, DamageKind, Tail};
pub use frames::digest::{Digest, Seen};
pub use frames::header::{FileHeader, FileId};
pub use frames::meta::{Gap, GapReason, Mark, Meta, Redaction};
pub use read::inspect::Inspection;
pub use read::segments::{Growth, Replayer, Unreadable};
pub use read::stream::{StreamEvent, StreamReader};
pub use storage::{Draft, Folder, Room, Storage, folder, save};
pub use wire::Malformed;
pub use write::copy::{Copied, Copier};
pub use write::framer::Sections;
pub use write::recorder::{Kept, Recorder, RecorderOptions, RecorderStatus};
pub use write::tape::{History, Tape};

/// An instant as every frame carries it. Order is by sequence: REALTIME may jump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    /// CLOCK_BOOTTIME
    pub boottime_ns: u64,
    /// CLOCK_REALTIME
    pub realtime_ns: i64,
}

impl From<crate::sample::Instant> for Moment {
    fn from(at: crate::sample::Instant) -> Moment {
        Moment { boottime_ns: at.boottime_ns, realtime_ns: at.realtime_ns }
    }
}
