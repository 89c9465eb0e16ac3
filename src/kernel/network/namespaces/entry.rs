//! Enters a network namespace, on a short-lived thread of its own: the sockets that it opens there remain sockets of that namespace.

use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns};

use crate::kernel::root::{Root, absent_from_errno, absent_from_io_error};
use crate::kernel::sys_admin::{check_permitted, with_sys_admin};
use crate::sample::{Absent, Reading};

const STACK_BYTES: usize = 256 << 10;

/// Runs `work` in the network namespace of a process, if that is the one with this inode. Needs CAP_SYS_ADMIN, which only this
/// thread makes effective.
pub fn run_in_namespace<T: Send>(root: &Root, pid: u32, inode: u64, work: impl FnOnce() -> T + Send) -> Reading<T> {
    check_permitted()?;
    let namespace = root.open(format!("proc/{pid}/ns/net"))?;
    let opened = namespace.metadata().map_err(|error| absent_from_io_error(&error))?;
    if opened.ino() != inode {
        return Err(Absent::Vanished);
    }
    let enter_and_work = || {
        with_sys_admin(|| setns(&namespace, CloneFlags::CLONE_NEWNET))?.map_err(absent_from_errno)?;
        Ok(work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("netns".into()).stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, enter_and_work).map_err(|error| absent_from_io_error(&error))?;
        thread.join().unwrap_or(Err(Absent::Malformed))
    })
}
