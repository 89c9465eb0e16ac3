//! Recordings: samples in a file, in a pipe or in memory, all in the same bytes (docs/recording-format.md).
//!
//! A recording holds facts, never conclusions. Nothing here judges, draws or reads the kernel; nothing here trusts what
//! it reads. `Recorder` writes, `Replayer` reads files, `StreamReader` reads pipes, `Tape` keeps the last minutes,
//! `Copier` makes a new recording of others.

mod bits;
mod cells;
mod changes;
mod choice;
mod columns;
mod copy;
mod damage;
mod decode;
mod digest;
mod encode;
mod error;
mod facts;
mod forms;
mod frame;
mod framer;
mod header;
mod index;
mod inspect;
mod layout;
mod meta;
mod pack;
mod part;
mod predicted;
mod recorder;
mod samples;
mod schema;
mod sections;
mod segments;
mod storage;
mod stream;
mod strings;
mod table;
mod tape;
mod walk;
mod wire;

pub use copy::{Copied, Copier};
pub use damage::{Damage, DamageKind, Tail};
pub use digest::{Digest, Seen};
pub use error::{FrameFault, LooksLike, Place, RecordingError};
pub use framer::Sections;
pub use header::{FileHeader, FileId};
pub use inspect::Inspection;
pub use meta::{Gap, GapReason, Mark, Meta, Redaction};
pub use recorder::{Kept, Recorder, RecorderOptions, RecorderStatus};
pub use segments::{Growth, Replayer, Unreadable};
pub use storage::{Draft, Folder, Room, Storage, folder, save};
pub use stream::{StreamEvent, StreamReader};
pub use tape::{History, Tape};
pub use wire::Malformed;

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
