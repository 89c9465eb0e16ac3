//! Remote hosts, from the kernel's figures of their TCP connections (sock_diag INET_DIAG, tcp_info). A host has up to
//! hundreds of thousands of connections, and a sample keeps a few remote hosts. So the reader sums up, by remote host, the
//! growth of each connection's counters between two scans; a sample holds these sums. They are cumulative like any kernel
//! counter, and stay correct while connections come and go. What a connection did after its last scan is not included.

use std::net::IpAddr;

use crate::units::Counter;

/// The last scan of all connections; the same in several samples if a scan is too expensive for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteHosts {
    /// Time of the scan, CLOCK_BOOTTIME nanoseconds: rates are between two scans
    pub scan_boottime_ns: u64,
    /// What it cost, nanoseconds of CPU
    pub scan_cpu_ns: u64,
    /// Connections seen, and the remote hosts that they are with
    pub connection_count: u32,
    pub host_count: u32,
    /// The hosts with the largest excess over their minimum round trip, then with the most traffic, sorted by address
    pub rows: Vec<RemoteHost>,
}

/// A remote host. Counters are of what was seen since the host was first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHost {
    /// IPv4 addresses that a dual-stack socket maps are written as IPv4
    pub address: IpAddr,
    /// This machine itself, over loopback
    pub local: bool,
    /// The interface that the route to it leaves by (rtnetlink RTM_GETROUTE)
    pub ifindex: Option<u32>,
    /// Open now
    pub connections: u32,
    /// tcpi_bytes_acked: payload that the host has confirmed
    pub bytes_acked: Option<Counter>,
    /// tcpi_bytes_received: payload
    pub bytes_received: Option<Counter>,
    /// tcpi_data_segs_out
    pub data_segments_out: Option<Counter>,
    /// tcpi_total_retrans
    pub segments_retransmitted: Counter,
    /// Connections that acknowledged enough new data since the previous scan for their smoothed round trip to be current
    pub active: RttSums,
    /// Those of them with a send backlog at the scan: unsent data, or a full congestion window. Delayed acknowledgements
    /// and response times are not in their round trips.
    pub send_backlogged: RttSums,
    /// Of the active connections: what limited them; since Linux 4.10
    pub send_limits: Option<SendLimitTimes>,
}

/// A sum over connections and scans, to compute means from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSums {
    /// How many are in the sums
    pub count: Counter,
    /// tcpi_rtt, microseconds
    pub srtt_us: Counter,
    /// The lowest tcpi_min_rtt of each connection in the last hour, microseconds (the kernel forgets it after 5 minutes);
    /// since Linux 4.6
    pub min_rtt_us: Option<Counter>,
}

/// What connections waited for, microseconds; each a part of the one above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendLimitTimes {
    /// Time between the scans of each
    pub observed_us: Counter,
    /// tcpi_busy_time: something was sent and not confirmed yet
    pub busy_us: Counter,
    /// tcpi_rwnd_limited: part of busy; the receiver's window was full
    pub rwnd_limited_us: Counter,
    /// tcpi_sndbuf_limited: part of busy; the send buffer had no room for more
    pub sndbuf_limited_us: Counter,
}
