//! Why an eBPF program is not attached.

use std::io;

use nix::errno::Errno;
use thiserror::Error;

use crate::sample::Absent;

/// Its text goes on after "cannot be loaded: ".
#[derive(Debug, Error)]
pub enum ProbeError {
    /// Known before it is tried
    #[error("{0}")]
    NotPossible(&'static str),
    #[error("{0}")]
    NotRead(Absent),
    #[error("its loader cannot be started: {0}")]
    Spawn(#[source] io::Error),
    #[error("its loader cannot be read from: {0}")]
    Socket(#[source] Errno),
    /// Seconds
    #[error("not loaded within {0} s")]
    Timeout(u64),
    #[error("its loader ended without an error message")]
    NoMessage,
    /// What the loader says
    #[error("{0}")]
    NotLoaded(String),
    #[error("its loader did not send its programs and maps")]
    Descriptors,
    #[error("its maps cannot be read: {0}")]
    Map(#[from] Errno),
    #[error("the kernel refuses the probe: {0}")]
    Refused(#[source] io::Error),
    #[error("functions of the server cannot be probed (CONFIG_UPROBE_EVENTS, Linux 5.15): {0}")]
    NoUprobes(#[source] io::Error),
}
