//! Loads an eBPF program, the task iterator of assets/probe, and attaches it. `doctor` tries this; sampling does not use it.
//!
//! A child process (`loader_process`) relocates the object file to the running kernel by BTF, which takes 30 MB, and passes the
//! program's descriptor. Nothing is pinned: the program is unloaded when its last descriptor is closed.

pub mod loader_process;
#[cfg_attr(target_arch = "x86", path = "probe/unsupported_loader.rs")]
mod program_loader;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::sys;

/// The loaded and attached iterator. Dropping it unloads the program.
#[derive(Debug)]
pub struct TaskIterator {
    _link: OwnedFd,
}

impl TaskIterator {
    /// Attaches a loaded program.
    fn attach(program: &OwnedFd) -> io::Result<TaskIterator> {
        Ok(TaskIterator { _link: sys::bpf_link_create(program.as_fd())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_loaded_and_attached() {
        match program_loader::load_program() {
            Ok(program) => drop(TaskIterator::attach(&program).unwrap()),
            Err(why) => println!("skipped: {why}"),
        }
    }
}
