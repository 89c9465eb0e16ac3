//! Recordings that this program writes: sessions, file names, segments, the meta frame and sections.

pub mod captures;
mod error;
mod frame_summary;
mod names;
mod own_directory;
mod pending_records;
pub mod segments;
mod session;

use std::time::Duration;

use crate::baseline::Baselines;
use crate::recording::{Meta, Redaction, Sections};
use crate::sample::Host;
pub use error::failure;
pub use frame_summary::frame_summary;
pub use names::{
    capture_name, default_name, directory_name, free_name, host_of_recording, is_capture_name, is_default_name, recording_name,
    saved_name, screen_name, with_fallback_directory,
};
pub use pending_records::PendingRecords;
pub use session::{RecordingResult, Session, SharedSession};

/// The section with the baselines at the start of the recording.
pub const BASELINES_SECTION: &str = "baselines";

/// The meta frame.
pub fn meta(host: &Host, interval: Duration, redaction: Redaction) -> Meta {
    Meta { version: env!("CARGO_PKG_VERSION").to_owned(), host: host.clone(), interval, redaction, absent: Vec::new() }
}

/// The sections that follow the meta frame.
pub fn sections(baselines: &Baselines) -> Sections {
    Sections::from([(BASELINES_SECTION.to_owned(), baselines.to_bytes())])
}

/// Parses the baselines of a recording; empty if the section is missing or malformed.
pub fn baselines(section: Option<&[u8]>) -> Baselines {
    section.and_then(|bytes| Baselines::from_bytes(bytes).ok()).unwrap_or_default()
}
