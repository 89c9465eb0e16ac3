//! The missing readings of a sample by the name of their kernel file or interface: for reports and for a recording's metadata.

use crate::sample::network::namespaces::MAX_NAMESPACES;
use crate::sample::{Absent, Sample};

/// Not readable for other users' tasks, and for tasks that a security module protects from root too.
pub const HIDDEN_WAIT_CHANNELS: &str = "wait channels of some tasks";

/// Hidden by hidepid or a container.
pub const HIDDEN_PROCESSES: &str = "processes behind hidepid or a container";

/// Without CAP_SYS_ADMIN no socket can be opened in them.
pub const CLOSED_NAMESPACES: &str = "queueing disciplines, accept queues and Unix sockets of other network namespaces";

/// Without CAP_SYS_PTRACE the network namespace of another user's process is not known.
pub const HIDDEN_NAMESPACES: &str = "network namespaces of some processes";

/// Without CAP_SYS_ADMIN.
pub const KERNEL_STACKS: &str = "kernel stacks of stuck threads";

/// More than are read.
pub const UNREAD_NAMESPACES: &str = "network namespaces beyond the first 64";
const _: () = assert!(MAX_NAMESPACES == 64);

/// Every missing reading, under the name that users know, with its reason.
pub fn missing_readings(sample: &Sample) -> Vec<(&'static str, Absent)> {
    let mut list = Vec::new();
    let mut note = |what, why: Option<&Absent>| {
        if let Some(why) = why {
            list.push((what, *why));
        }
    };
    note("/proc/stat", sample.cpu.as_ref().err());
    note("/proc/loadavg", sample.load.as_ref().err());
    note("/proc/meminfo", sample.memory.as_ref().err());
    note("/proc/pressure/cpu", sample.pressure.cpu.as_ref().err());
    note("/proc/pressure/io", sample.pressure.io.as_ref().err());
    note("/proc/pressure/memory", sample.pressure.memory.as_ref().err());
    note("/proc/diskstats", sample.disks.as_ref().err());
    note("/proc/net/dev", sample.nics.as_ref().err());
    note("/proc/net/snmp Tcp", sample.protocols.tcp.as_ref().err());
    note("/proc/net/snmp Udp", sample.protocols.udp.as_ref().err());
    note("/proc/net/netstat TcpExt", sample.protocols.tcp_ext.as_ref().err());
    // Recordings from before these were kept have none.
    let missed = |why: Option<&'_ Absent>| why.copied().filter(|why| *why != Absent::NotRead);
    note("listening sockets (sock_diag)", missed(sample.protocols.listeners.as_ref().err()).as_ref());
    note("connections of remote hosts (sock_diag)", missed(sample.protocols.remote_hosts.as_ref().err()).as_ref());
    note("/proc/net/softnet_stat", missed(sample.protocols.softnet.as_ref().err()).as_ref());
    let uncounted = sample.limits.as_ref().is_ok_and(|limits| !limits.has_descriptor_counts);
    note("open file descriptors of processes (from Linux 6.2 on)", uncounted.then_some(&Absent::NoSuchFile));
    let unanswered = sample.limits.as_ref().is_ok_and(|limits| limits.has_unanswered_statfs);
    note("how full file systems are (statfs of one does not return)", unanswered.then_some(&Absent::NotRead));
    note("cgroup cpu.stat", sample.cgroups.as_ref().err());
    // Off by default: `doctor` reports that.
    let refused = sample.delays.as_ref().err().filter(|why| matches!(why, Absent::NoPermission | Absent::Malformed));
    note("delays of tasks (taskstats)", refused);
    note("tasks", sample.tasks.as_ref().err());
    let unknown = missed(sample.exits.as_ref().err());
    match unknown {
        Some(Absent::Unsupported) => note("ends of short-lived processes (from Linux 5.19 on)", Some(&Absent::NoSuchFile)),
        _ => note("ends of short-lived processes (taskstats)", unknown.as_ref()),
    }
    if let Ok(tasks) = &sample.tasks {
        note(HIDDEN_WAIT_CHANNELS, (tasks.hidden.wait_channels > 0).then_some(&Absent::Hidden));
        note("run-queue wait (schedstat)", (tasks.hidden.schedstats > 0).then_some(&Absent::Unsupported));
        note(HIDDEN_PROCESSES, tasks.hidden.processes.then_some(&Absent::Hidden));
    }
    note(KERNEL_STACKS, missed(sample.stacks.as_ref().err()).as_ref());
    if let Ok(namespaces) = &sample.network_namespaces {
        note(CLOSED_NAMESPACES, (namespaces.closed_count() > 0).then_some(&Absent::NoPermission));
        note(HIDDEN_NAMESPACES, (namespaces.hidden_processes > 0).then_some(&Absent::NoPermission));
        note(UNREAD_NAMESPACES, (namespaces.unread_count() > 0).then_some(&Absent::NotRead));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Instant, network};

    #[test]
    fn readings_of_sockets_are_absent_if_they_failed_and_not_if_they_were_not_read() {
        let mut sample = Sample::empty(Instant::default());
        let missed = |sample: &Sample, what: &str| missing_readings(sample).iter().any(|(known, _)| known.contains(what));
        assert!(!missed(&sample, "sock_diag") && !missed(&sample, "softnet"));
        sample.protocols = network::Protocols::absent(Absent::NoPermission);
        assert!(missed(&sample, "remote hosts") && missed(&sample, "listening sockets") && missed(&sample, "softnet"));
    }
}
