//! Recordings that this program writes: sessions, names, the meta frame and sections, errors.

mod error;
mod frame_summary;
mod names;
pub mod segments;
mod session;

use std::time::Duration;

use crate::baseline::Baselines;
use crate::recording::{Meta, Redaction, Sections};
use crate::sample::Host;
use crate::units::format;
pub use error::failure;
pub use frame_summary::frame_summary;
pub use names::{default_name, is_default_name, saved_name, with_fallback_directory};
pub use session::{Session, SharedSession};

/// The section of a recording that keeps the baselines it began with.
const BASELINES_SECTION: &str = "baselines";

/// What a recording of this machine says of itself.
pub fn meta(host: &Host, interval: Duration, redaction: Redaction) -> Meta {
    Meta { version: env!("CARGO_PKG_VERSION").to_owned(), host: host.clone(), interval, redaction, absent: Vec::new() }
}

/// What a recording begins with beside its meta frame.
pub fn sections(baselines: &Baselines) -> Sections {
    Sections::from([(BASELINES_SECTION.to_owned(), baselines.to_bytes())])
}

/// The baselines of a recording; none where it has none that can be understood.
pub fn baselines(section: Option<&[u8]>) -> Baselines {
    section.and_then(|bytes| Baselines::from_bytes(bytes).ok()).unwrap_or_default()
}

/// The name of their section.
pub fn baselines_section() -> &'static str {
    BASELINES_SECTION
}

/// Bytes as people read them.
pub fn format_bytes(bytes: u64) -> String {
    format::bytes(bytes as f64)
}
