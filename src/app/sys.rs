//! All `unsafe` code of the app layer: the allocator's parameters, signal actions, signals to a process, capabilities, scheduling,
//! wait4, and what a child does between fork and exec.
//!
//! Each function is safe to call with any argument. The structs are libc's and linux-raw-sys's, which are generated from the
//! kernel's headers; tests/kernel/structs.rs compares them with this machine's headers ([`LAYOUT`]).

use std::io;
use std::mem::{offset_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction, signal};

// The kernel writes its own rusage; a C library may have reserved space behind it.
const _: () = assert!(size_of::<libc::rusage>() >= size_of::<linux_raw_sys::general::rusage>());

/// What is handed to the kernel by this layer: a header below /usr/include, a C expression, and its value here.
pub const LAYOUT: &[(&str, &str, usize)] = &[
    ("linux/capability.h", "_LINUX_CAPABILITY_U32S_3", 2),
    ("sys/resource.h", "sizeof(struct rusage)", size_of::<libc::rusage>()),
    ("sys/resource.h", "offsetof(struct rusage, ru_maxrss)", offset_of!(libc::rusage, ru_maxrss)),
    ("sys/resource.h", "offsetof(struct rusage, ru_nivcsw)", offset_of!(libc::rusage, ru_nivcsw)),
    ("signal.h", "sizeof(struct sigaction)", size_of::<libc::sigaction>()),
    ("signal.h", "offsetof(struct sigaction, sa_flags)", offset_of!(libc::sigaction, sa_flags)),
];

/// Sets the allocator's parameters: the largest number of arenas, the free bytes that remain at the end of the heap, and the
/// size from which a block is mapped on its own. To be called before any other thread is started. Does nothing outside glibc.
pub fn configure_malloc(arenas: libc::c_int, trim_threshold: libc::c_int, mmap_threshold: libc::c_int) {
    #[cfg(not(target_env = "gnu"))]
    let _ = (arenas, trim_threshold, mmap_threshold);
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointer; glibc locks its parameters.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, arenas);
        libc::mallopt(libc::M_TRIM_THRESHOLD, trim_threshold);
        libc::mallopt(libc::M_TOP_PAD, trim_threshold / 4);
        libc::mallopt(libc::M_MMAP_THRESHOLD, mmap_threshold);
    }
}

/// Returns the heap's free pages to the kernel. Does nothing outside glibc.
pub fn malloc_trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: releases only pages that the allocator itself has free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Ignores a signal in this process.
pub fn ignore_signal(number: Signal) -> nix::Result<()> {
    // SAFETY: to ignore a signal installs no handler function.
    unsafe { signal(number, SigHandler::SigIgn) }?;
    Ok(())
}

/// Whether this process ignores a signal.
pub fn is_ignored(number: Signal) -> bool {
    // SAFETY: plain integers, for which zeros are a value.
    let mut current = unsafe { zeroed::<libc::sigaction>() };
    // SAFETY: without a new action the kernel only writes the present one to `current`.
    let status = unsafe { libc::sigaction(number as libc::c_int, std::ptr::null(), &raw mut current) };
    status == 0 && current.sa_sigaction == libc::SIG_IGN
}

/// Raises a signal with its default action, and restores the action that it had before.
pub fn raise_with_default_action(number: Signal) -> nix::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action installs no handler function.
    let before = unsafe { sigaction(number, &default) }?;
    let raised = raise(number);
    // SAFETY: `before` was this process's action a moment ago.
    unsafe { sigaction(number, &before) }?;
    raised
}

/// pidfd_send_signal(2), as kill(2) sends it: the kernel fills in the sender.
pub fn pidfd_send_signal(process: BorrowedFd, number: Signal) -> nix::Result<()> {
    let info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is borrowed for the call, and the kernel reads nothing through a null pointer.
    let status = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), number as libc::c_int, info, 0) };
    Errno::result(status)?;
    Ok(())
}

/// Has the child restore the default action of `ignored` and unblock `blocked` before it executes.
pub fn reset_signals_in_child<'a>(command: &'a mut Command, ignored: Signal, blocked: &[Signal]) -> &'a mut Command {
    let blocked = SigSet::from_iter(blocked.iter().copied());
    let before_exec = move || {
        // SAFETY: the default action installs no handler function.
        unsafe { signal(ignored, SigHandler::SigDfl) }?;
        Ok(blocked.thread_unblock()?)
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(before_exec) }
}

/// Has the child be killed when this process ends, and give up its ambient capabilities, before it executes.
pub fn restrict_child(command: &mut Command) -> &mut Command {
    let before_exec = || {
        // SAFETY: neither call takes a pointer.
        let status = unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
        };
        match Errno::result(status) {
            // A kernel before 4.3 has no ambient capabilities.
            Ok(_) | Err(Errno::EINVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    };
    // SAFETY: between fork and exec the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(before_exec) }
}

/// Removes a capability from the bounding set of this thread.
pub fn drop_from_bounding_set(capability: u32) -> nix::Result<()> {
    // SAFETY: takes no pointer.
    Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) })?;
    Ok(())
}

/// Has children of the calling thread begin with nice 0: sched_setscheduler(2) with SCHED_OTHER and SCHED_RESET_ON_FORK. The C
/// library's function is not used: musl has none.
pub fn reset_scheduling_on_fork() -> nix::Result<()> {
    // `struct sched_param` of the kernel: one int.
    let parameters: [libc::c_int; 1] = [0];
    // SAFETY: the kernel reads one int.
    let status = unsafe {
        libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, parameters.as_ptr())
    };
    Errno::result(status)?;
    Ok(())
}

/// wait4(2) for one child: its wait status, and the resources that it and its waited-for children used.
pub fn wait4(pid: libc::pid_t) -> io::Result<(libc::c_int, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: plain integers, for which zeros are a value.
        let mut usage: libc::rusage = unsafe { zeroed() };
        // SAFETY: the kernel writes one status and one rusage, both of which outlive the call.
        match Errno::result(unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) }) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Ok((status, usage)),
        }
    }
}
