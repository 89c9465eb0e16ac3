//! What the program may do: no more than its command needs, given up before it reads anything or starts a thread.
//!
//! Root stays root, without the rights to load modules, mount, become others or touch devices; nothing that it might be
//! brought to execute gains any. A command of the user's (`table -- COMMAND`, `record --ops`) runs with all that the user
//! has, so those two keep it.

use std::io;

use nix::errno::Errno;
use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{getegid, geteuid, getgid, getuid};

use super::exit::{Exit, Failure};
use crate::cli::Command;

/// A number of include/uapi/linux/capability.h.
type Capability = u32;

/// To read and write files where root may: recordings, pages and baselines may lie in another user's directory.
const FILE_CAPABILITIES: [Capability; 3] = [
    1, // CAP_DAC_OVERRIDE
    2, // CAP_DAC_READ_SEARCH
    3, // CAP_FOWNER: to replace a file of somebody else's in /tmp
];

/// To watch the machine; what assets/stalltop-record.service gives, too.
const MONITORING_CAPABILITIES: [Capability; 4] = [
    12, // CAP_NET_ADMIN: taskstats
    19, // CAP_SYS_PTRACE: wait channels, system calls, I/O and files of others
    38, // CAP_PERFMON: the iterator over threads, with
    39, // CAP_BPF
];

/// What the loader of the iterator needs.
const BPF_CAPABILITIES: [Capability; 2] = [38, 39];

/// Refuses to run with the rights of whom the program's file belongs to: it writes files and reads what others may not.
pub fn refuse_setuid() -> Result<(), Failure> {
    if getuid() == geteuid() && getgid() == getegid() {
        return Ok(());
    }
    let remedy = "take the bit away (chmod ug-s) and use sudo, or give it capabilities: setcap cap_sys_ptrace+ep stalltop";
    Err(Failure::new(Exit::Refused, "cannot run", "the program is set-user-ID or set-group-ID", remedy))
}

/// Gives up what that command does not need. For the only thread there is.
pub fn drop_privileges_for(command: &Command) {
    let runs_another = match command {
        Command::Table(table) => !table.command.is_empty(),
        Command::Record(record) => record.ops.is_some(),
        _ => false,
    };
    if runs_another {
        return;
    }
    let watches = match command {
        Command::Live(_) | Command::Record(_) | Command::Doctor | Command::Nicstat(_) | Command::Baseline(_) => true,
        Command::Check(check) => check.file.is_none(),
        Command::Table(table) => table.from.is_none(),
        _ => false,
    };
    drop_all_except(FILE_CAPABILITIES.iter().chain(MONITORING_CAPABILITIES.iter().filter(|_| watches)));
}

/// For the process that loads the iterator.
pub fn drop_privileges_for_loader() {
    drop_all_except(BPF_CAPABILITIES.iter());
}

/// What cannot be given up stays: a kernel or a container that refuses is no reason not to watch it.
fn drop_all_except<'a>(kept: impl Iterator<Item = &'a Capability>) {
    let kept = kept.fold(0, |set, capability| set | 1_u64 << capability);
    let _ = set_no_new_privs();
    // First, while CAP_SETPCAP is there.
    for capability in (0..u64::BITS).filter(|capability| kept & 1 << capability == 0) {
        // SAFETY: takes no pointer.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) } == -1 {
            break; // no right to, or more than this kernel has
        }
    }
    let _ = capget()
        .and_then(|[effective, permitted, inheritable]| capset([effective & kept, permitted & kept, inheritable & kept]));
}

/// struct __user_cap_header_struct
#[repr(C)]
struct CapHeader {
    version: u32,
    /// 0: this thread
    pid: libc::c_int,
}

/// struct __user_cap_data_struct
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// _LINUX_CAPABILITY_VERSION_3: two parts, the lower 32 bits first.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// The effective, permitted and inheritable set.
fn capget() -> io::Result<[u64; 3]> {
    let mut header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut parts = [CapData::default(); 2];
    // SAFETY: both are as the kernel describes them, and it writes two parts for that version.
    Errno::result(unsafe { libc::syscall(libc::SYS_capget, &raw mut header, parts.as_mut_ptr()) })?;
    let [low, high] = parts;
    let whole = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
    Ok([whole(low.effective, high.effective), whole(low.permitted, high.permitted), whole(low.inheritable, high.inheritable)])
}

fn capset([effective, permitted, inheritable]: [u64; 3]) -> io::Result<()> {
    let mut header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let part = |shift: u32| CapData {
        effective: (effective >> shift) as u32,
        permitted: (permitted >> shift) as u32,
        inheritable: (inheritable >> shift) as u32,
    };
    let parts = [part(0), part(32)];
    // SAFETY: both are as the kernel describes them, and it reads two parts for that version.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw mut header, parts.as_ptr()) })?;
    Ok(())
}
