//! In the place of `loading` on 32-bit x86, whose system calls its library does not know: whoever asks is told so.

use std::os::fd::OwnedFd;

use thiserror::Error;

/// Why there is no iterator.
#[derive(Debug, Error)]
#[error("the probe is not loaded by programs for 32-bit x86")]
pub struct LoadError;

/// Fails always.
pub fn load() -> Result<OwnedFd, LoadError> {
    Err(LoadError)
}
