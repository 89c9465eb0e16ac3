//! Enters a network namespace, on a short-lived thread of its own: the sockets that it opens there remain sockets of that namespace.

use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns};

use crate::kernel::root::{Root, absent_from_errno, absent_from_io_error};
use crate::kernel::sys::{CapabilitySets, capget, capset};
use crate::sample::{Absent, Reading};

const CAP_SYS_ADMIN: u64 = 1 << 21;
const STACK_BYTES: usize = 256 << 10;

/// Runs `work` in the network namespace of a process, if that is the one with this inode. Needs CAP_SYS_ADMIN, which only this
/// thread makes effective.
pub fn run_in_namespace<T: Send>(root: &Root, pid: u32, inode: u64, work: impl FnOnce() -> T + Send) -> Reading<T> {
    if capget().map_err(absent_from_errno)?.permitted & CAP_SYS_ADMIN == 0 {
        return Err(Absent::NoPermission);
    }
    let namespace = root.open(format!("proc/{pid}/ns/net"))?;
    let opened = namespace.metadata().map_err(|error| absent_from_io_error(&error))?;
    if opened.ino() != inode {
        return Err(Absent::Vanished);
    }
    let enter_and_work = || {
        let held = capget().map_err(absent_from_errno)?;
        capset(CapabilitySets { effective: held.effective | CAP_SYS_ADMIN, ..held }).map_err(absent_from_errno)?;
        setns(&namespace, CloneFlags::CLONE_NEWNET).map_err(absent_from_errno)?;
        capset(held).map_err(absent_from_errno)?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, enter_and_work).map_err(|error| absent_from_io_error(&error))?;
        thread.join().unwrap_or(Err(Absent::Malformed))
    })
}
