//! Remote hosts, from tcp_info of their TCP connections (sock_diag INET_DIAG).
//!
//! A machine may have hundreds of thousands of connections, and a sample keeps a few remote hosts. So the reader adds the
//! increase of each connection's counters between two scans to the sums of its remote host. These sums are cumulative like
//! kernel counters and do not decrease when a connection closes. What a connection did after its last scan is not included.

use std::net::IpAddr;

use crate::ids::ProcessId;
use crate::sample::Name;
use crate::units::Counter;

/// The last scan of all connections. Several samples may have the same one, if a scan is too expensive for every sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteHosts {
    /// Time of the scan, CLOCK_BOOTTIME nanoseconds: rates are between two scans
    pub scan_boottime_ns: u64,
    /// CPU time of the scan, nanoseconds
    pub scan_cpu_ns: u64,
    /// Connections in the scan
    pub connection_count: u32,
    /// Remote hosts in the scan, also those without a row
    pub host_count: u32,
    /// The hosts with the largest excess over their minimum round trip, then with the most traffic, sorted by address
    pub rows: Vec<RemoteHost>,
}

/// A remote host. Counters start at 0 when the host is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHost {
    /// IPv4 addresses that a dual-stack socket maps are written as IPv4
    pub address: IpAddr,
    /// This machine itself, through loopback
    pub local: bool,
    /// The interface that the route to it leaves by (rtnetlink RTM_GETROUTE)
    pub ifindex: Option<u32>,
    /// Open connections at the scan; a gauge
    pub connections: u32,
    /// Those of them that the remote host opened, as their ports say: it is a client of a server of this host; a gauge
    pub client_connections: u32,
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
    /// What limited the active connections; since Linux 4.10
    pub send_limits: Option<SendLimitTimes>,
    /// The process of the connection with most retransmits, or with the largest excess over its minimum round trip, at the last
    /// scan in which the host had such a connection (/proc/PID/fd); `None` also if it was not searched for
    pub worst_process: Option<(ProcessId, Name)>,
}

/// A sum over connections and scans, to compute means from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSums {
    /// Number of measurements in the sums
    pub count: Counter,
    /// tcpi_rtt, microseconds
    pub srtt_us: Counter,
    /// The lowest tcpi_min_rtt of each connection in the last hour, microseconds (the kernel forgets it after 5 minutes);
    /// since Linux 4.6
    pub min_rtt_us: Option<Counter>,
}

/// How long connections were limited, by cause, microseconds summed over connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendLimitTimes {
    /// Time between two scans
    pub observed_us: Counter,
    /// tcpi_busy_time: part of observed, but in whole clock ticks; there was data to send or data not yet acknowledged
    pub busy_us: Counter,
    /// tcpi_rwnd_limited: part of busy; the receiver's window was full
    pub rwnd_limited_us: Counter,
    /// tcpi_sndbuf_limited: part of busy; the send buffer had no room for more
    pub sndbuf_limited_us: Counter,
}
