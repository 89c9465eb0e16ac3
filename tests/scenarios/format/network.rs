//! Interfaces, protocols, connections and remote hosts of a scenario file.

use serde::Deserialize;

use super::one_u32;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Nic {
    pub name: String,
    pub mbps: Option<u32>,
    #[serde(default)]
    pub half_duplex: bool,
    #[serde(default)]
    pub r#virtual: bool,
    #[serde(default)]
    pub rx_kb: f64,
    #[serde(default)]
    pub tx_kb: f64,
    #[serde(default)]
    pub rx_packets: f64,
    #[serde(default)]
    pub tx_packets: f64,
    #[serde(default)]
    pub rx_dropped: f64,
    #[serde(default)]
    pub tx_dropped: f64,
    #[serde(default)]
    pub rx_errors: f64,
    pub qdisc: Option<Qdisc>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Qdisc {
    pub kind: String,
    pub backlog_packets: u64,
    #[serde(default)]
    pub dropped: f64,
    #[serde(default)]
    pub overlimits: f64,
    /// Drops of its ingress filters
    pub ingress_dropped: Option<f64>,
    /// The rate of a shaper, in Mbit/s as tc prints it
    pub rate_mbit: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tcp {
    pub out: f64,
    pub retransmitted: f64,
    /// Connection requests among them
    #[serde(default)]
    pub syn: f64,
}

/// Datagrams per second: given to programs, dropped at full buffers, and for other reasons
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Udp {
    pub r#in: f64,
    pub overflows: f64,
    #[serde(default)]
    pub errors: f64,
    /// Overflows of IPv6 sockets
    #[serde(default)]
    pub overflows6: f64,
    #[serde(default)]
    pub socket: Vec<UdpSocket>,
}

/// The UDP socket that drops, at each sample
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpSocket {
    pub address: String,
    /// Datagrams per second that it drops
    pub drops: f64,
    #[serde(default)]
    pub queued_kb: u64,
    /// Name of the process with pid 900
    pub owner: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listen {
    #[serde(default)]
    pub drops: f64,
    #[serde(default)]
    pub overflows: f64,
    pub address: Option<String>,
    #[serde(default)]
    pub queue: u32,
    #[serde(default)]
    pub limit: u32,
    pub owner: Option<String>,
    /// SYN cookies a second, and how many of them come back
    #[serde(default)]
    pub cookies: f64,
    #[serde(default)]
    pub cookies_back: f64,
    /// SYNs a second that a full SYN queue drops; they count as drops, too
    #[serde(default)]
    pub syn_drops: f64,
    pub syn_queue: Option<SynQueue>,
}

/// Half-open connections of the listening socket, at each sample
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SynQueue {
    pub requests: u32,
    pub limit: u32,
    pub hosts: u32,
    pub top: std::net::IpAddr,
    pub top_requests: u32,
}

/// Another network namespace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Namespace {
    /// The process through which it is read
    pub name: String,
    pub pid: u32,
    /// Whether a socket could be opened in it, so that queueing disciplines and sockets are read
    #[serde(default = "yes")]
    pub socket: bool,
    #[serde(default)]
    pub nic: Vec<Nic>,
    pub tcp: Option<Tcp>,
    pub udp: Option<Udp>,
    pub listen: Option<Listen>,
    /// The remote host to which all segments are retransmitted
    pub retransmits_to: Option<std::net::IpAddr>,
}

fn yes() -> bool {
    true
}

/// Connections of one process that wait for their remote end.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Waiting {
    /// Address and port
    pub remote: std::net::SocketAddr,
    /// connect, name-server, acknowledgement, closed-window, full-window, send-buffer, answer
    pub wait: String,
    #[serde(default = "one_u32")]
    pub connections: u32,
    pub threads: Option<u32>,
    /// Name of the process with pid 900
    pub owner: Option<String>,
    /// Another pid of the process
    #[serde(default = "owner_pid")]
    pub owner_pid: u32,
    /// For how long at each sample
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub queued_kb: u64,
    #[serde(default)]
    pub retries: u32,
    /// Name of the process at the other end, with pid 901
    pub receiver: Option<String>,
    #[serde(default)]
    pub unread_kb: u64,
    #[serde(default)]
    pub receiving_threads: u32,
    #[serde(default)]
    pub polling_threads: u32,
    /// Of a connection that waits for an answer
    pub longest_answer_ms: Option<u32>,
    /// What the process at the other end does
    pub peer: Option<super::OwnerPeer>,
}

/// Threads of one process that wait for a receiver on a Unix socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnixSender {
    /// Name and pid of the process
    pub owner: String,
    #[serde(default = "pid_of_owner")]
    pub pid: u32,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub polling_threads: u32,
    #[serde(default = "one_u32")]
    pub sockets: u32,
    #[serde(default)]
    pub datagrams: bool,
    pub address: Option<String>,
    /// Name of the process at the other end, with pid 901
    pub receiver: Option<String>,
    /// For how long at each sample
    #[serde(default)]
    pub seconds: f64,
    #[serde(default)]
    pub unread_kb: u64,
    /// The threads are in connect: `sockets` is the accept queue, this its backlog
    pub backlog: Option<u32>,
}

fn pid_of_owner() -> u32 {
    900
}

/// A remote host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Peer {
    pub address: std::net::IpAddr,
    /// This machine itself
    #[serde(default)]
    pub local: bool,
    /// The interface of the route
    pub via: Option<String>,
    #[serde(default = "one_u32")]
    pub connections: u32,
    /// Whether it has opened them: it is a client of a server of this host
    #[serde(default)]
    pub clients: bool,
    /// The part of them that carried data, at each scan
    #[serde(default)]
    pub active: u32,
    /// The part of `active` with more to send than the path takes
    #[serde(default)]
    pub pressed: u32,
    #[serde(default)]
    pub rtt_ms: f64,
    #[serde(default)]
    pub min_ms: f64,
    #[serde(default)]
    pub sent_kb: f64,
    #[serde(default)]
    pub retransmitted: f64,
    /// Per cent of the time
    #[serde(default)]
    pub application: f64,
    #[serde(default)]
    pub receiver: f64,
    #[serde(default)]
    pub send_buffer: f64,
    /// The process of its worst connection
    pub process: Option<String>,
}

/// Received packets of one CPU, per second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Softnet {
    pub cpu: u32,
    #[serde(default)]
    pub packets: f64,
    #[serde(default)]
    pub squeezed: f64,
    #[serde(default)]
    pub dropped: f64,
}

fn owner_pid() -> u32 {
    900
}
