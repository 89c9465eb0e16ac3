//! Network namespaces other than that of stalltop: those of containers, of pods, of units with PrivateNetwork=, of `ip netns exec`.
//!
//! /proc/PID/net shows the namespace of a process without entering it. A namespace is read through one of its processes; one that no
//! process is in is not read.

use std::net::IpAddr;

use super::{Listener, Nic, SynQueue, Tcp, TcpExt, Udp, Udp6, UdpSocket};
use crate::ids::ProcessId;
use crate::sample::{Name, Reading};
use crate::units::Counter;

/// Namespaces that are read; of more, those with the lowest inodes.
pub const MAX_NAMESPACES: usize = 64;

/// The namespaces of the processes whose /proc/PID/ns/net this user may read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkNamespaces {
    /// All of them, those beyond `MAX_NAMESPACES` included
    pub count: u32,
    /// Processes whose namespace this user may not read
    pub hidden_processes: u32,
    /// Sorted by inode
    pub rows: Vec<NetworkNamespace>,
    /// Their interfaces, sorted by namespace, in the order of /proc/PID/net/dev
    pub nics: Vec<NamespaceNic>,
}

impl NetworkNamespaces {
    /// Number of namespaces that are read without a socket: their queueing disciplines and queues of sockets are not seen.
    pub fn closed_count(&self) -> u32 {
        u32::try_from(self.rows.iter().filter(|namespace| !namespace.has_socket).count()).unwrap_or(u32::MAX)
    }

    /// Number of namespaces beyond `MAX_NAMESPACES`.
    pub fn unread_count(&self) -> u32 {
        self.count.saturating_sub(u32::try_from(MAX_NAMESPACES).unwrap_or(u32::MAX))
    }

    /// The namespace with this inode.
    pub fn namespace(&self, inode: u64) -> Option<&NetworkNamespace> {
        let at = self.rows.binary_search_by_key(&inode, |namespace| namespace.inode).ok()?;
        self.rows.get(at)
    }
}

/// The counters of one network namespace; /proc/PID/net/snmp, snmp6 and netstat.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkNamespace {
    /// Inode of /proc/PID/ns/net
    pub inode: u64,
    /// The process through which it is read: of those in it the one that started first
    pub process: ProcessId,
    /// stat field 2 of that process
    pub comm: Name,
    /// Whether a socket could be opened in it, which needs CAP_SYS_ADMIN (setns): without one its queueing disciplines, accept
    /// queues and SYN queues are not read
    pub has_socket: bool,
    pub tcp: Reading<Tcp>,
    pub tcp_ext: Reading<TcpExt>,
    pub udp: Reading<Udp>,
    pub udp6: Reading<Udp6>,
    /// IpExt InOctets, OutOctets
    pub ip_octets: Reading<(Counter, Counter)>,
    /// The listening socket whose accept queue is fullest (sock_diag); read only while ListenDrops grows
    pub fullest_listener: Option<Listener>,
    /// The SYN queue with most requests (sock_diag); read only while the kernel counts that one is full
    pub fullest_syn_queue: Option<SynQueue>,
    /// The UDP socket with most drops (/proc/PID/net/udp and udp6); read only while RcvbufErrors or Udp6RcvbufErrors grows
    pub top_udp_socket: Option<UdpSocket>,
    /// The remote host with most retransmits in the last scans (sock_diag); read only while RetransSegs grows
    pub top_retransmit_host: Option<RetransmitHost>,
}

/// A remote host to which a namespace retransmits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetransmitHost {
    pub address: IpAddr,
    /// tcpi_total_retrans of its connections, since the first scan that had it
    pub segments_retransmitted: Counter,
    /// The process of its worst connection, and its name
    pub process: Option<(ProcessId, Name)>,
}

/// An interface of a namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceNic {
    /// Inode of the namespace
    pub namespace: u64,
    /// Index 0 where no socket could be opened in the namespace
    pub nic: Nic,
}
