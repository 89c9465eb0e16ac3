//! Limits of the kernel at which calls fail, or packets are dropped, while CPUs, disks and memory are idle. Read by `kernel/limits`.

use std::net::SocketAddr;

use crate::ids::{CgroupId, ProcessId};
use crate::sample::Name;
use crate::units::Counter;

/// Limits that a sample keeps, those that are used most first.
pub const MAX_LIMITS: usize = 64;

/// The limits that are nearly used up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Whether the kernel reports how many file descriptors a process has open: st_size of /proc/PID/fd, since Linux 6.2
    pub has_descriptor_counts: bool,
    /// Whether a file system has not answered for so long that how full all of them are is not known: statfs does not return
    pub has_unanswered_statfs: bool,
    /// Limits of which at least four fifths are used, and cgroups with half of their tasks
    pub rows: Vec<Limit>,
}

/// One limit, and how much of it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub kind: LimitKind,
    /// The process whose limit it is, and its name; of `OpenFiles`
    pub process: Option<(ProcessId, Name)>,
    /// The group whose limit it is; of `CgroupTasks`
    pub cgroup: Option<CgroupId>,
    /// Where the connections lead; of `LocalPorts`
    pub remote: Option<SocketAddr>,
    pub used: u64,
    pub max: u64,
    /// Of `used`, connections in TIME_WAIT; of `LocalPorts`
    pub in_time_wait: u64,
    /// How often the kernel refused more; `None` if it does not count that
    pub refused: Option<Counter>,
    /// Where it is mounted; of `FileSystemSpace` and `FileSystemInodes`
    pub mount_point: Option<Name>,
}

impl Limit {
    /// A limit of the whole host, of which no refusals are counted.
    pub fn new(kind: LimitKind, used: u64, max: u64) -> Limit {
        Limit { kind, process: None, cgroup: None, remote: None, used, max, in_time_wait: 0, refused: None, mount_point: None }
    }

    /// Whether both are the same limit, at two instants.
    pub fn is_same_as(&self, other: &Limit) -> bool {
        let process = |limit: &Limit| limit.process.as_ref().map(|(process, _)| *process);
        self.kind == other.kind
            && process(self) == process(other)
            && self.cgroup == other.cgroup
            && self.remote == other.remote
            && self.mount_point == other.mount_point
    }
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitKind {
    /// Tasks of a cgroup: pids.current, pids.max; refusals are `max` of pids.events
    CgroupTasks,
    /// Open file descriptors of a process: st_size of /proc/PID/fd, soft limit `Max open files` (RLIMIT_NOFILE)
    OpenFiles,
    /// Open files of the host: /proc/sys/fs/file-nr
    HostFiles,
    /// Entries of the table of connection tracking: nf_conntrack_count, nf_conntrack_max; refusals are `drop` of
    /// /proc/net/stat/nf_conntrack, summed over CPUs
    TrackedConnections,
    /// TCP connections from one local address to one remote address and port (sock_diag), those in TIME_WAIT included unless they
    /// are used again (tcp_tw_reuse); ports in ip_local_port_range
    LocalPorts,
    /// Tasks of the host: the fourth field of /proc/loadavg, kernel.threads-max
    HostTasks,
    /// The same against kernel.pid_max
    TaskIds,
    /// Entries of the table of IPv4 neighbours (ARP), which all network namespaces share: /proc/net/stat/arp_cache,
    /// net.ipv4.neigh.default.gc_thresh3; refusals are `table_fulls`, summed over CPUs
    Neighbours,
    /// The same of IPv6: /proc/net/stat/ndisc_cache, net.ipv6.neigh.default.gc_thresh3
    Neighbours6,
    /// Memory that programs have reserved, in KB, where vm.overcommit_memory is 2: Committed_AS and CommitLimit of /proc/meminfo
    CommittedMemory,
    /// Pages in buffers of TCP sockets: `mem` of /proc/net/sockstat, the third number of net.ipv4.tcp_mem
    TcpMemory,
    /// Space of a local file system, in KB: statfs f_blocks − f_bfree, of which root may have used what is reserved for it; that and
    /// f_bavail
    FileSystemSpace,
    /// Its inodes: statfs f_files − f_ffree, f_files
    FileSystemInodes,
}
