//! Remote hosts, as the kernel's own figures of their TCP connections (sock_diag INET_DIAG, tcp_info) say.
//!
//! A box has up to hundreds of thousands of connections and a sample keeps a few hosts. So the reader adds up, by remote
//! host, what each connection's counters grew by from one look to the next, and a sample holds these sums: cumulative like
//! any counter of the kernel, and right while connections come and go. What a connection did after the last look at it
//! is not in them.

use std::net::IpAddr;

use crate::units::Counter;

/// The last look at all connections; the same in several samples where looking is too dear for each of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteHosts {
    /// When it was, CLOCK_BOOTTIME nanoseconds: rates are between two looks
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
    /// Connections that confirmed enough new data since the look before for their smoothed round trip to be of this time
    pub active: RttSums,
    /// Those of them that at the look had more to send than the path took: unsent data, or a full congestion window. No
    /// delayed acknowledgement and no time to think is in their round trips.
    pub send_backlogged: RttSums,
    /// Of the active connections: what they were held up by; kernels before 4.10 do not tell
    pub send_limits: Option<SendLimitTimes>,
}

/// A sum over connections and looks, to take means from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RttSums {
    /// How many are in the sums
    pub count: Counter,
    /// tcpi_rtt, microseconds
    pub srtt_us: Counter,
    /// The lowest tcpi_min_rtt of each connection in the last hour, microseconds (the kernel forgets it after 5 minutes);
    /// kernels before 4.6 do not tell
    pub min_rtt_us: Option<Counter>,
}

/// What connections waited for, microseconds; each a part of the one above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendLimitTimes {
    /// Time between the looks at each
    pub observed_us: Counter,
    /// tcpi_busy_time: something was sent and not confirmed yet
    pub busy_us: Counter,
    /// tcpi_rwnd_limited: part of busy; the receiver's window was full
    pub rwnd_limited_us: Counter,
    /// tcpi_sndbuf_limited: part of busy; the send buffer had no room for more
    pub sndbuf_limited_us: Counter,
}
