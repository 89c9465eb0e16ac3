//! Network interfaces, protocol counters, listening sockets, per-CPU receive queues; remote hosts are in `remote_hosts`.

pub mod namespaces;
pub mod remote_hosts;
pub mod unix_senders;
pub mod waiting_connections;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Absent, Name, Reading};
use crate::ids::{CpuId, NicId, ProcessId};
use crate::units::Counter;

/// One line of /proc/net/dev, with facts about the interface.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic {
    pub id: NicId,
    pub facts: Arc<NicFacts>,
    pub rx: DirectionCounters,
    pub tx: DirectionCounters,
    /// `multicast`, packets
    pub multicast: Counter,
    /// `colls`
    pub collisions: Counter,
    /// `carrier`
    pub carrier_losses: Counter,
    /// rx_missed_errors, /sys/class/net/IF/statistics: also part of rx `drop` in /proc/net/dev, of all drivers
    pub rx_missed: Option<Counter>,
    /// rx_nohandler: packets without a handler
    pub rx_nohandler: Option<Counter>,
    /// The root queueing discipline (rtnetlink RTM_GETQDISC)
    pub qdisc: Option<Qdisc>,
}

/// The columns of one direction in /proc/net/dev.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionCounters {
    pub bytes: Counter,
    pub packets: Counter,
    /// errs
    pub errors: Counter,
    /// drop
    pub dropped: Counter,
    /// fifo
    pub fifo_errors: Counter,
}

/// Facts about an interface. Read when it appears, after a uevent, and every 10 s.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NicFacts {
    /// Megabits per second; ETHTOOL_GLINKSETTINGS, then /sys/class/net/IF/speed. −1, 0 and 65535 are unknown.
    pub speed_mbps: Reading<u32>,
    pub duplex: Reading<Duplex>,
    /// operstate
    pub up: Option<bool>,
    pub loopback: bool,
    /// Neither a physical nor a paravirtual device: veth, bridge, tun, bond …. Its reported speed is no limit.
    pub virtual_device: bool,
}

/// Duplex mode of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplex {
    Half,
    Full,
}

/// Statistics of a queueing discipline, summed over the discipline and its children where it is a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// tbf, fq_codel, mq …
    pub kind: Name,
    /// Waiting now; gauges
    pub backlog_bytes: u64,
    pub backlog_packets: u64,
    pub dropped: Counter,
    pub overlimits: Counter,
    pub requeues: Counter,
    /// Drops of the ingress or clsact discipline of the same interface: by filters (tc police, eBPF); `None` without one
    pub ingress_dropped: Option<Counter>,
    /// The rate to which the root discipline limits the interface: of tbf, cake and netem (TCA_OPTIONS); `None` for others
    pub rate_bytes_per_second: Option<u64>,
}

/// Counters of the whole network namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocols {
    pub tcp: Reading<Tcp>,
    pub tcp_ext: Reading<TcpExt>,
    pub udp: Reading<Udp>,
    /// IpExt InOctets, OutOctets
    pub ip_octets: Reading<(Counter, Counter)>,
    /// Listening TCP sockets whose accept queue is not empty
    pub listeners: Reading<Vec<Listener>>,
    /// Listening TCP sockets with requests in their SYN queue, those with most first; read only while the kernel counts that one
    /// is full
    pub syn_queues: Reading<Vec<SynQueue>>,
    /// One entry per CPU, for the whole machine and not only this namespace
    pub softnet: Reading<Vec<Softnet>>,
    /// Remote hosts, by their TCP connections
    pub remote_hosts: Reading<remote_hosts::RemoteHosts>,
    /// Connections that wait for their remote end, at the last scan of the connections
    pub waiting_connections: Reading<Vec<waiting_connections::WaitingConnections>>,
    /// UDP sockets with drops, those with most first; read only while the kernel counts overflows
    pub udp_sockets: Reading<Vec<UdpSocket>>,
    /// UDP over IPv6, which `udp` does not contain
    pub udp6: Reading<Udp6>,
    /// Threads that wait for a receiver on a Unix socket, of this network namespace
    pub unix_senders: Reading<Vec<unix_senders::UnixSenders>>,
}

impl Protocols {
    /// All readings missing for the same reason.
    pub fn absent(why: Absent) -> Protocols {
        Protocols {
            tcp: Err(why),
            tcp_ext: Err(why),
            udp: Err(why),
            ip_octets: Err(why),
            listeners: Err(why),
            syn_queues: Err(why),
            softnet: Err(why),
            remote_hosts: Err(why),
            waiting_connections: Err(why),
            udp_sockets: Err(why),
            udp6: Err(why),
            unix_senders: Err(why),
        }
    }
}

/// /proc/net/snmp, `Tcp:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// ActiveOpens
    pub active_opens: Counter,
    /// PassiveOpens
    pub passive_opens: Counter,
    /// AttemptFails
    pub attempt_fails: Counter,
    /// EstabResets
    pub established_resets: Counter,
    /// CurrEstab; a gauge
    pub established: u64,
    /// InSegs
    pub segments_in: Counter,
    /// OutSegs
    pub segments_out: Counter,
    /// RetransSegs
    pub segments_retransmitted: Counter,
    /// InErrs
    pub errors_in: Counter,
    /// OutRsts
    pub resets_out: Counter,
}

/// /proc/net/netstat, `TcpExt:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpExt {
    /// ListenOverflows
    pub listen_overflows: Option<Counter>,
    /// ListenDrops; already contains ListenOverflows
    pub listen_drops: Option<Counter>,
    /// TCPSynRetrans
    pub syn_retransmits: Option<Counter>,
    /// TCPTimeouts
    pub timeouts: Option<Counter>,
    /// TCPLostRetransmit
    pub lost_retransmits: Option<Counter>,
    /// TCPBacklogDrop
    pub backlog_drops: Option<Counter>,
    /// SyncookiesSent: SYNs that found a full SYN queue and were answered with a cookie
    pub syn_cookies_sent: Option<Counter>,
    /// SyncookiesRecv: handshakes that were finished with a valid cookie
    pub syn_cookies_received: Option<Counter>,
    /// SyncookiesFailed: packets that looked like the end of a handshake, with an invalid cookie
    pub syn_cookies_failed: Option<Counter>,
    /// TCPReqQFullDoCookies: SYNs that found a full SYN queue, or any SYN where net.ipv4.tcp_syncookies is 2
    pub syn_queue_full_cookies: Option<Counter>,
    /// TCPReqQFullDrop: SYNs that found a full SYN queue and were dropped; ListenDrops contains them
    pub syn_queue_full_drops: Option<Counter>,
}

/// /proc/net/snmp, `Udp:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// InDatagrams
    pub datagrams_in: Counter,
    /// NoPorts
    pub no_ports: Counter,
    /// InErrors
    pub errors_in: Counter,
    /// OutDatagrams
    pub datagrams_out: Counter,
    /// RcvbufErrors
    pub receive_buffer_errors: Option<Counter>,
    /// SndbufErrors
    pub send_buffer_errors: Option<Counter>,
}

/// /proc/net/snmp6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Udp6 {
    /// Udp6InDatagrams
    pub datagrams_in: Counter,
    /// Udp6InErrors
    pub errors_in: Counter,
    /// Udp6OutDatagrams
    pub datagrams_out: Counter,
    /// Udp6RcvbufErrors
    pub receive_buffer_errors: Option<Counter>,
    /// Udp6SndbufErrors
    pub send_buffer_errors: Option<Counter>,
}

/// A UDP socket that has dropped datagrams; /proc/net/udp and udp6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpSocket {
    /// local_address
    pub local_address: SocketAddr,
    /// inode
    pub inode: u64,
    /// rx_queue: bytes that were not read, with their overhead; a gauge
    pub queued_bytes: u64,
    /// drops: datagrams that found the receive buffer full, or were damaged
    pub drops: Counter,
    /// The process that has it open and its name; `None` if /proc/PID/fd is not readable
    pub owner: Option<(ProcessId, Name)>,
}

/// A listening socket (sock_diag INET_DIAG).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    pub local_address: SocketAddr,
    /// Connections established and not accepted yet; idiag_rqueue
    pub accept_queue: u32,
    /// Limit of the accept queue, which holds one more connection than this; idiag_wqueue
    pub backlog_limit: u32,
    /// The process that has it open and its name; `None` if /proc/PID/fd is not readable
    pub owner: Option<(ProcessId, Name)>,
}

/// The SYN queue of a listening socket: its requests in state SYN_RECV, whose handshake is not finished (sock_diag INET_DIAG).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynQueue {
    /// Of the listening socket; of a request if no listening socket has its port
    pub local_address: SocketAddr,
    pub requests: u32,
    /// Limit of the queue, the same as of the accept queue; idiag_wqueue of the listening socket
    pub limit: Option<u32>,
    /// Number of different remote addresses of the requests
    pub remote_hosts: u32,
    /// The remote address with most requests
    pub top_remote_host: IpAddr,
    pub top_requests: u32,
    /// The process that has the listening socket open and its name; `None` if /proc/PID/fd is not readable
    pub owner: Option<(ProcessId, Name)>,
}

/// One line of /proc/net/softnet_stat: packets that a CPU passed from drivers to protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Softnet {
    /// The 13th column; older kernels write the lines of the online CPUs in their order and no number
    pub cpu: Option<CpuId>,
    /// Packets; the 1st column
    pub processed: Counter,
    /// Packets lost because the CPU's backlog (net.core.netdev_max_backlog) was full; the 2nd column. The interface counts
    /// them as receive drops too.
    pub dropped: Counter,
    /// Runs of net_rx_action that ended with packets left, out of budget or time; the 3rd column
    pub time_squeeze: Counter,
    /// Packets that another CPU passed to this one (RPS); the 10th column
    pub received_rps: Option<Counter>,
    /// Packets lost to the flow limit; the 11th column
    pub flow_limited: Option<Counter>,
}
