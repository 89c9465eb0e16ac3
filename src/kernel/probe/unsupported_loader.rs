//! Replaces `program_loader` on 32-bit x86, which aya does not support: loading always fails.

use thiserror::Error;

use super::loader_process::{Loaded, ProbeProgram};

/// Why the program could not be loaded.
#[derive(Debug, Error)]
#[error("the probe is not loaded by programs for 32-bit x86")]
pub struct LoadError;

/// Always fails.
pub fn load_program(_: ProbeProgram) -> Result<Loaded, LoadError> {
    Err(LoadError)
}

/// Always fails.
pub fn load_tasks_without_blocker() -> Result<Loaded, LoadError> {
    Err(LoadError)
}
