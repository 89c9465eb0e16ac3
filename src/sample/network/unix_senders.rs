//! Threads that wait for a process of this machine to read from a Unix socket whose buffer or datagram queue is full, or to
//! accept from one whose accept queue is full (sock_diag UNIX_DIAG).

use crate::ids::ProcessId;
use crate::sample::Name;

/// Rows of senders that a sample keeps, those with most threads first.
pub const MAX_UNIX_SENDERS: usize = 16;

/// Threads of one process that wait for the same receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixSenders {
    /// The process that sends or connects, and its name
    pub owner: (ProcessId, Name),
    /// The process that has the other end, or the listening socket, open; `None` if it is not known: its /proc/PID/fd is not readable, or
    /// the datagrams are sent without a connection
    pub receiver: Option<(ProcessId, Name)>,
    /// udiag_type is SOCK_DGRAM, otherwise SOCK_STREAM or SOCK_SEQPACKET
    pub are_datagrams: bool,
    /// Path of the receiving socket, `@name` of an abstract one; `None` if it has none (socketpair)
    pub address: Option<Name>,
    /// Sending sockets; of threads in connect the connections in the accept queue (udiag_rqueue)
    pub sockets: u32,
    /// Threads that sleep in a send call on one of them, or in connect
    pub threads: u32,
    /// Threads that sleep in poll, select or epoll until one of them can be written to
    pub polling_threads: u32,
    /// CLOCK_BOOTTIME nanoseconds since when the first of these threads has waited, of datagrams the last one, since they share the receiver's
    /// queue; a lower bound of the time
    pub since_boottime_ns: u64,
    /// Bytes that the receiver has not read: udiag_rqueue; of datagrams the first one
    pub unread_bytes: u64,
    /// Of threads in connect the backlog of the listening socket: udiag_wqueue. `None` of senders, and in recordings of earlier versions
    pub backlog: Option<u32>,
}
