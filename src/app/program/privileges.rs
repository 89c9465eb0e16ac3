//! What the program may do: no more than its command needs, given up before it reads anything or starts a thread.
//!
//! Root stays root, without the rights to load modules, mount, become others or touch devices; nothing that it might be
//! brought to execute gains any. A command of the user's (`table -- COMMAND`, `record --ops`) runs with all that the user
//! has, so those two keep it.

use nix::sys::prctl::set_no_new_privs;
use nix::unistd::{getegid, geteuid, getgid, getuid};

use super::exit::{Exit, Failure};
use crate::app::sys::{self, CapabilitySets};
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

/// A capability that the kernel or the container refuses to drop remains: that is no reason not to run.
fn drop_all_except<'a>(kept: impl Iterator<Item = &'a Capability>) {
    let kept = kept.fold(0, |set, capability| set | 1_u64 << capability);
    let _ = set_no_new_privs();
    // The bounding set first, while CAP_SETPCAP is still held. An error: not permitted, or beyond the kernel's last one.
    for capability in (0..u64::BITS).filter(|capability| kept & 1 << capability == 0) {
        if sys::drop_from_bounding_set(capability).is_err() {
            break;
        }
    }
    let _ = sys::capget().and_then(|held| {
        sys::capset(CapabilitySets {
            effective: held.effective & kept,
            permitted: held.permitted & kept,
            inheritable: held.inheritable & kept,
        })
    });
}
