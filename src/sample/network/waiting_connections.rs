//! TCP connections that wait for the remote end, and lookups that wait for a name server: of each process with each remote host, from
//! sock_diag (INET_DIAG) of all network namespaces in which a socket can be opened.

use std::net::IpAddr;

use crate::ids::ProcessId;
use crate::sample::Name;

/// Processes and remote hosts that a sample keeps, those with most threads and connections first.
pub const MAX_WAITING_CONNECTIONS: usize = 16;

/// Connections of one process with one remote host, or with one receiver at it, that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingConnections {
    pub remote_host: IpAddr,
    /// The remote port, if it is the same for all of them
    pub remote_port: Option<u16>,
    /// The local port, if it is the same for all of them
    pub local_port: Option<u16>,
    pub wait: ConnectionWait,
    pub connections: u32,
    /// The process that has them open and its name; `None` if /proc/PID/fd is not readable
    pub owner: Option<(ProcessId, Name)>,
    /// Its threads that sleep in a send or connect call on one of them; `None` if /proc/PID/task/TID/syscall is not readable
    pub threads: Option<u32>,
    /// CLOCK_BOOTTIME nanoseconds since when the first of them has waited; a lower bound of the time
    pub since_boottime_ns: u64,
    /// Bytes that are not sent, or sent and not acknowledged; idiag_wqueue
    pub queued_bytes: u64,
    /// Retransmits, or window probes, in a row: idiag_retrans, the most of them
    pub retries: u32,
    /// The process at the other end, if that is on this machine and its /proc/PID/fd is readable
    pub receiver: Option<(ProcessId, Name)>,
    /// Bytes that it has not read: idiag_rqueue
    pub unread_bytes: u64,
    /// Threads of the process that wait for an answer: asleep in a receive call on one of the connections, or in poll until one can be
    /// read. Counted where the remote host acknowledges nothing, is a name server, or owes an answer (then only those in poll for few
    /// descriptors), otherwise 0
    pub receiving_threads: u32,
    /// Threads of the process that sleep in poll, select or epoll until one of the connections can be written to. Counted where this
    /// host opened the connections and nothing is acknowledged, otherwise 0. Of connection requests only those in poll for few
    /// descriptors, or in select. Epoll's descriptors are in /proc/PID/fdinfo, poll's are read from its memory; select counts only in
    /// a process with one thread
    pub polling_threads: u32,
    /// Upper bound of the longest earlier answer time on these connections, as scans saw it, ms; only for `Answer`
    pub longest_answer_ms: Option<u32>,
}

impl WaitingConnections {
    /// The port of the receiver that they wait for, if the sender has connected to it: the port of a client is usually the higher one.
    /// `None` where the remote host as a whole, or the path, is waited for.
    pub fn receiver_port(&self) -> Option<u16> {
        if self.wait == ConnectionWait::Answer {
            return self.remote_port;
        }
        let is_for_receiver = matches!(self.wait, ConnectionWait::ClosedWindow | ConnectionWait::FullWindow);
        let remote = self.remote_port.filter(|_| is_for_receiver)?;
        self.local_port.is_none_or(|local| remote < local).then_some(remote)
    }
}

/// What connections wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionWait {
    /// The remote host does not answer the connection request: state SYN_SENT, with retransmits
    Connect,
    /// The remote host does not acknowledge: the retransmit timer runs, and no byte was acknowledged since the previous scan
    Acknowledgement,
    /// The receiver does not read: the timer of window probes runs, and no byte was acknowledged since the previous scan
    ClosedWindow,
    /// The receiver reads slowly: its window was full in nearly all of the time since the previous scan (tcpi_rwnd_limited)
    FullWindow,
    /// The send buffer was full in nearly all of the time since the previous scan (tcpi_sndbuf_limited)
    SendBuffer,
    /// The name server does not answer a lookup: a UDP socket that is connected to its port 53 (/proc/net/udp)
    NameServer,
    /// The remote host has acknowledged a request some time ago and sent nothing since, on a connection on which it answered before
    Answer,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_receiver_that_the_sender_has_connected_to_has_a_port() {
        let row = |wait, remote_port, local_port| WaitingConnections {
            remote_host: IpAddr::from([127, 0, 0, 1]),
            remote_port,
            local_port,
            wait,
            connections: 1,
            owner: None,
            threads: None,
            since_boottime_ns: 0,
            queued_bytes: 0,
            retries: 0,
            receiver: None,
            unread_bytes: 0,
            receiving_threads: 0,
            polling_threads: 0,
            longest_answer_ms: None,
        };
        let closed = |remote_port, local_port| row(ConnectionWait::ClosedWindow, remote_port, local_port).receiver_port();
        assert_eq!(closed(Some(9000), Some(40_112)), Some(9000));
        assert_eq!(closed(Some(9000), None), Some(9000), "several connections to one port");
        assert_eq!(closed(Some(40_112), Some(80)), None, "a client of a server here");
        assert_eq!(closed(None, Some(80)), None);
        assert_eq!(row(ConnectionWait::Acknowledgement, Some(9000), Some(40_112)).receiver_port(), None, "the host is down");
    }
}
