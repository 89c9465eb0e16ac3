//! A loaded program of a tracepoint, which may be attached and detached again and again.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::loader_process::TaskAccess;
use crate::kernel::fields::{lines, parse_u64};
use crate::kernel::sys;

/// Dropping it unloads the program.
#[derive(Debug)]
pub struct TracepointProgram {
    program: OwnedFd,
    /// Its tracepoint; `None`: it was loaded for that
    name: Option<&'static CStr>,
}

impl TracepointProgram {
    pub fn new(program: OwnedFd, tracepoint: &'static CStr, access: TaskAccess) -> TracepointProgram {
        TracepointProgram { program, name: (access == TaskAccess::Layout).then_some(tracepoint) }
    }

    /// Attaches it, until the link that this returns is dropped.
    pub fn attach(&self) -> nix::Result<OwnedFd> {
        sys::bpf_raw_tracepoint_open(self.program.as_fd(), self.name)
    }

    /// Events during which the program was running already on that CPU: `recursion_misses` of its descriptor.
    pub fn missed_events(&self) -> Option<u64> {
        let text = std::fs::read(format!("/proc/self/fdinfo/{}", self.program.as_raw_fd())).ok()?;
        parse_u64(lines(&text).find_map(|line| line.strip_prefix(b"recursion_misses:"))?.trim_ascii())
    }
}
