//! Drops the privileges that the command does not need, before any file is read or thread is started.
//!
//! Root remains root, without the capabilities to load modules, mount, change users or access devices, and no program that it
//! executes gains any (no_new_privs). A command of the user (`table -- COMMAND`, `record --ops`, `--on-finding`) has the user's
//! privileges, so that these keep them.

use linux_raw_sys::general::{
    CAP_BPF, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_KILL, CAP_NET_ADMIN, CAP_PERFMON, CAP_SYS_ADMIN,
    CAP_SYS_NICE, CAP_SYS_PTRACE, CAP_SYS_RESOURCE,
};
use nix::sys::prctl::set_no_new_privs;
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use nix::unistd::{getegid, geteuid, getgid, getuid};

use super::exit::{Exit, Failure};
use crate::app::sys;
use crate::cli::Command;
use crate::kernel::sys::{CapabilitySets, capget, capset};
use crate::kernel::{Root, probe};
use crate::sample::Absent;

/// A number of include/uapi/linux/capability.h.
pub type Capability = u32;

/// To access files of other users as root: recordings, reports and baselines.
const FILE_CAPABILITIES: [Capability; 3] = [
    CAP_DAC_OVERRIDE,
    CAP_DAC_READ_SEARCH,
    CAP_FOWNER, // to replace another user's file in /tmp
];

/// To sample the machine; assets/stalltop-record.service grants the same, and a nice value instead of CAP_SYS_NICE.
pub const MONITORING_CAPABILITIES: [Capability; 5] = [
    CAP_NET_ADMIN,  // taskstats
    CAP_SYS_PTRACE, // wait channels, system calls, I/O and files of others
    CAP_SYS_NICE,   // the priority of the sampling thread
    CAP_PERFMON,    // the iterator over threads, with
    CAP_BPF,
];

/// CAP_SYS_ADMIN stays permitted and is not effective: only a thread that enters the network namespace of a container makes it
/// effective for itself, and ends after it has opened its sockets (`kernel::network::namespaces`), and the sampling thread while it
/// opens the stack files of stuck threads (`kernel::stacks`; where wchan says nothing, of all, `kernel::task::wait_channel`), and
/// `probe query` while it attaches to functions of a server. It gives no right that root did not have with CAP_SYS_PTRACE, which
/// controls any process. The unit does not grant it.
const SYS_ADMIN_CAPABILITY: Capability = CAP_SYS_ADMIN;

/// CAP_KILL, to send signals to processes of other users as root: only with `--allow-signals`.
const SIGNAL_CAPABILITY: Capability = CAP_KILL;

/// CAP_SYS_RESOURCE, for pressure triggers with any window: only for `record --armed`, until they are registered.
const RESOURCE_CAPABILITY: Capability = CAP_SYS_RESOURCE;

/// For the loader of the task iterator.
const BPF_CAPABILITIES: [Capability; 2] = [CAP_PERFMON, CAP_BPF];

/// Refuses to run set-user-ID or set-group-ID: the program writes files, and shows data of other users.
pub fn refuse_setuid() -> Result<(), Failure> {
    if getuid() == geteuid() && getgid() == getegid() {
        return Ok(());
    }
    let remedy =
        "clear the bits (chmod ug-s); then use sudo, or grant capabilities with the command that 'stalltop doctor' prints";
    Err(Failure::new(Exit::Refused, "cannot run", "the program is set-user-ID or set-group-ID", remedy))
}

/// Drops what the command does not need. Applies to the calling thread, so that it must be the only one.
pub fn drop_privileges_for(command: &Command) {
    if runs_command(command) {
        return;
    }
    let samples_machine = match command {
        Command::Live(_)
        | Command::Record(_)
        | Command::Serve(_)
        | Command::Doctor
        | Command::BugReport(_)
        | Command::Nicstat(_)
        | Command::Probe(_)
        | Command::Trace(_)
        | Command::Baseline(_) => true,
        Command::Check(check) => check.file.is_none(),
        Command::Table(table) => table.from.is_none(),
        // Its `check` and `table` sample: they can have no privilege that it has not.
        Command::Mcp(_) => true,
        _ => false,
    };
    let sends_signals = matches!(command, Command::Live(live) if live.allow_signals);
    let registers_triggers = matches!(command, Command::Record(record) if record.armed.directory.is_some());
    let resource = [RESOURCE_CAPABILITY].iter().filter(|_| registers_triggers);
    let monitoring = MONITORING_CAPABILITIES.iter().filter(|_| samples_machine);
    let signals = [SIGNAL_CAPABILITY].iter().filter(|_| sends_signals);
    let effective = set_of(FILE_CAPABILITIES.iter().chain(monitoring).chain(signals).chain(resource));
    let only_permitted = if samples_machine { 1 << SYS_ADMIN_CAPABILITY } else { 0 };
    if samples_machine {
        raise_limit_of_locked_memory();
    }
    // The programs that `mcp` starts sample.
    let bounding = if matches!(command, Command::Mcp(_)) { effective | only_permitted } else { effective };
    drop_all_except(effective, effective | only_permitted, bounding);
}

/// Whether it runs a command that needs the user's privileges.
fn runs_command(command: &Command) -> bool {
    match command {
        Command::Table(table) => !table.command.is_empty(),
        Command::Record(record) => record.ops.is_some() || record.on_finding.on_finding.is_some(),
        Command::Check(check) => check.on_finding.on_finding.is_some(),
        // ssh, and what its configuration names.
        Command::Fleet(_) => true,
        Command::Mcp(mcp) => !mcp.hosts.is_empty(),
        _ => false,
    }
}

/// Drops CAP_SYS_RESOURCE, after the pressure triggers are registered. Applies to the calling thread, so that it must be the only
/// one.
pub fn drop_resource_capability() {
    let others = !(1 << RESOURCE_CAPABILITY);
    restrict_sets(others, others);
}

/// Drops what the process that loads eBPF programs does not need.
pub fn drop_privileges_for_loader() {
    raise_limit_of_locked_memory();
    let kept = set_of(BPF_CAPABILITIES.iter());
    drop_all_except(kept, kept, kept);
}

/// Before Linux 5.11 the maps of eBPF programs count as locked memory, and only CAP_SYS_RESOURCE may raise its limit.
fn raise_limit_of_locked_memory() {
    let _ = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
}

/// What lets a container see the threads by their numbers on the host.
pub const HOST_PIDS: &str = "run it on the host, or start the container with --pid=host (Kubernetes: hostPID: true)";

/// What lets this process load eBPF programs; `needs_types`: those that need BTF.
pub fn bpf_remedy(needs_types: bool) -> String {
    let lockdown = Root::host().read_once("sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.windows(LOCKED_DOWN.len()).any(|words| words == LOCKED_DOWN) {
        return "the kernel is locked down: boot it without lockdown=confidentiality".to_owned();
    }
    if !probe::kernel_has_cap_bpf() {
        return "a later kernel is needed (docs/probes.md)".to_owned();
    }
    if needs_types && matches!(probe::load_obstacle(&Root::host()), Some((Absent::NoSuchFile, _))) {
        return "a kernel with CONFIG_DEBUG_INFO_BTF is needed".to_owned();
    }
    if probe::permission_obstacle().is_none() {
        return "a later kernel is needed (docs/probes.md), or a container whose seccomp filter permits bpf(2)".to_owned();
    }
    remedy(&[(CAP_BPF, "BPF"), (CAP_PERFMON, "PERFMON")], "run as root, or with CAP_BPF and CAP_PERFMON")
}

/// What lets it attach them to functions of other programs.
pub fn uprobe_remedy() -> String {
    remedy(&[(CAP_BPF, "BPF"), (CAP_PERFMON, "PERFMON"), (SYS_ADMIN_CAPABILITY, "SYS_ADMIN")], "run as root")
}

/// In /sys/kernel/security/lockdown
const LOCKED_DOWN: &[u8] = b"[confidentiality]";

/// A root user who lacks a capability is in a container: becoming root is no advice there.
fn remedy(needed: &[(Capability, &str)], for_user: &str) -> String {
    let held = capget().map_or(u64::MAX, |sets| sets.permitted);
    let missing = needed.iter().filter(|&(number, _)| held & 1 << number == 0);
    let options: Vec<String> = missing.map(|(_, name)| format!("--cap-add={name}")).collect();
    match geteuid().is_root() && !options.is_empty() {
        true => format!("start the container with {}", options.join(" ")),
        false => for_user.to_owned(),
    }
}

fn set_of<'a>(capabilities: impl Iterator<Item = &'a Capability>) -> u64 {
    capabilities.fold(0, |set, capability| set | 1 << capability)
}

/// `bounding`: what programs that are started may have. A capability that the kernel or the container does not allow to drop remains.
fn drop_all_except(effective: u64, permitted: u64, bounding: u64) {
    let _ = set_no_new_privs();
    // The bounding set first, while CAP_SETPCAP is held. An error: not permitted, or beyond the last capability.
    for capability in (0..u64::BITS).filter(|capability| bounding & 1 << capability == 0) {
        if sys::drop_from_bounding_set(capability).is_err() {
            break;
        }
    }
    restrict_sets(effective, permitted);
}

fn restrict_sets(effective: u64, permitted: u64) {
    let _ = capget().and_then(|held| {
        capset(CapabilitySets {
            effective: held.effective & effective,
            permitted: held.permitted & permitted,
            inheritable: held.inheritable & effective,
        })
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn commands_that_run_what_the_user_names_keep_their_privileges() {
        let keeps = |words: &str| {
            let words = ["stalltop"].into_iter().chain(words.split(' '));
            runs_command(&cli::parse(words.map(Into::into).collect::<Vec<_>>()).unwrap().command)
        };
        assert_eq!(
            ["mcp --host web1", "fleet web1", "table cpu -- make", "mcp", "table cpu", "record a"].map(keeps),
            [true, true, true, false, false, false]
        );
    }
}
