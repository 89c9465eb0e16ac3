//! Remote hosts between two scans of the connections: rates, round-trip times against their minimum, and what limited sending.

use std::net::IpAddr;

use crate::ids::ProcessId;
use crate::sample::network::remote_hosts::{RemoteHost, RemoteHosts, RttSums, SendLimitTimes};
use crate::sample::{Name, Sample};
use crate::units::{Counter, Millis, PerSecond, Ratio, delta};

/// Figures between two scans of the connections. The scans are those of the samples, or older ones if a scan is too
/// expensive for each sample.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteHostsSpan {
    /// CLOCK_BOOTTIME nanoseconds of the later scan
    pub scan_boottime_ns: u64,
    /// Seconds between the scans
    pub seconds: f64,
    /// CPU seconds of the later scan
    pub scan_cpu_seconds: f64,
    /// Connections at the later scan
    pub connection_count: u32,
    /// Remote hosts at the later scan, also those without a row
    pub host_count: u32,
    /// Sorted by address
    pub rows: Vec<RemoteHostSpan>,
}

/// A remote host. Rates and means are `None` if the earlier scan did not list it.
#[derive(Clone, Debug, PartialEq)]
pub struct RemoteHostSpan {
    pub address: IpAddr,
    pub local: bool,
    pub ifindex: Option<u32>,
    pub connections: u32,
    /// Those of them that the remote host opened, as their ports say
    pub client_connections: u32,
    /// Payload that it acknowledged, KB of 1024 bytes
    pub kilobytes_out: Option<PerSecond>,
    /// Payload received from it, KB of 1024 bytes
    pub kilobytes_in: Option<PerSecond>,
    pub segments_retransmitted: Option<PerSecond>,
    pub retransmitted_share: Option<Ratio>,
    /// Segments with data, also retransmitted ones
    pub data_segments_out: Option<PerSecond>,
    /// Round-trip times of its active connections; `None` if there were none
    pub active: Option<RttSpan>,
    /// Round-trip times of those with a send backlog; `None` if there were none
    pub send_backlogged: Option<RttSpan>,
    pub send_limits: Option<SendLimitShares>,
    /// The process of its worst connection, and its name
    pub worst_process: Option<(ProcessId, Name)>,
}

/// Means over connections and scans.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RttSpan {
    /// Number of connections scanned
    pub count: u64,
    pub srtt: Millis,
    /// Mean of the minima of the connections; `None` if the kernel does not report them
    pub min_rtt: Option<Millis>,
}

/// Shares of the time of the active connections; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendLimitShares {
    /// Nothing was in flight: the application had nothing to send
    pub app_limited: Ratio,
    /// The receiver's window was full
    pub rwnd_limited: Ratio,
    /// The send buffer was full
    pub sndbuf_limited: Ratio,
    /// The rest: waiting for acknowledgements, limited by the path or by the remote host
    pub path_limited: Ratio,
}

impl RttSpan {
    /// Smoothed ÷ minimum.
    pub fn srtt_to_min_ratio(&self) -> Option<f64> {
        let minimum = self.min_rtt.filter(|minimum| minimum.0 > 0.0)?;
        Some(self.srtt.0 / minimum.0)
    }

    /// Smoothed − minimum.
    pub fn excess(&self) -> Option<Millis> {
        Some(Millis((self.srtt.0 - self.min_rtt?.0).max(0.0)))
    }

    fn between(older: &RttSums, newer: &RttSums) -> Option<RttSpan> {
        let count = newer.count.since(older.count).filter(|&count| count > 0)?;
        let mean = |us: u64| Millis(us as f64 / count as f64 / 1000.0);
        Some(RttSpan {
            count,
            srtt: mean(newer.srtt_us.since(older.srtt_us)?),
            min_rtt: delta(newer.min_rtt_us, older.min_rtt_us).map(mean),
        })
    }
}

impl SendLimitShares {
    fn between(older: &SendLimitTimes, newer: &SendLimitTimes) -> Option<SendLimitShares> {
        let grown = |field: fn(&SendLimitTimes) -> Counter| field(newer).since(field(older)).map(|us| us as f64);
        let watched = grown(|limits| limits.observed_us)?;
        let busy = grown(|limits| limits.busy_us)?.min(watched);
        let receiver = grown(|limits| limits.rwnd_limited_us)?.min(busy);
        let send_buffer = grown(|limits| limits.sndbuf_limited_us)?.min(busy - receiver);
        Some(SendLimitShares {
            app_limited: Ratio::new(watched - busy, watched)?,
            rwnd_limited: Ratio::new(receiver, watched)?,
            sndbuf_limited: Ratio::new(send_buffer, watched)?,
            path_limited: Ratio::new(busy - receiver - send_buffer, watched)?,
        })
    }
}

impl RemoteHostSpan {
    fn between(older: Option<&RemoteHost>, newer: &RemoteHost, seconds: f64) -> RemoteHostSpan {
        let rate = |field: fn(&RemoteHost) -> Option<Counter>| {
            PerSecond::between(field(newer), older.and_then(field), seconds).filter(|rate| rate.0.is_finite())
        };
        let kilobytes = |field| rate(field).map(|bytes| PerSecond(bytes.0 / 1024.0));
        let retransmitted = rate(|peer| Some(peer.segments_retransmitted));
        let sent = rate(|peer| peer.data_segments_out);
        let round_trip = |field: fn(&RemoteHost) -> &RttSums| RttSpan::between(field(older?), field(newer));
        RemoteHostSpan {
            address: newer.address,
            local: newer.local,
            ifindex: newer.ifindex,
            connections: newer.connections,
            client_connections: newer.client_connections,
            kilobytes_out: kilobytes(|peer| peer.bytes_acked),
            kilobytes_in: kilobytes(|peer| peer.bytes_received),
            retransmitted_share: retransmitted.zip(sent).and_then(|(part, whole)| Ratio::new(part.0, whole.0)),
            segments_retransmitted: retransmitted,
            data_segments_out: sent,
            active: round_trip(|peer| &peer.active),
            send_backlogged: round_trip(|peer| &peer.send_backlogged),
            send_limits: older
                .and_then(|older| older.send_limits.as_ref())
                .zip(newer.send_limits.as_ref())
                .and_then(|(older, newer)| SendLimitShares::between(older, newer)),
            worst_process: newer.worst_process.clone(),
        }
    }
}

/// Figures between the scans of both samples; `None` if there was no scan between them.
pub fn between(older: &Sample, newer: &Sample) -> Option<RemoteHostsSpan> {
    let (was, now) = (older.protocols.remote_hosts.as_ref().ok()?, newer.protocols.remote_hosts.as_ref().ok()?);
    let seconds = now.scan_boottime_ns.checked_sub(was.scan_boottime_ns)? as f64 / 1e9;
    if seconds < 0.001 {
        return None;
    }
    let before = |peer: &RemoteHost| {
        let at = was.rows.binary_search_by_key(&peer.address, |row| row.address).ok()?;
        was.rows.get(at)
    };
    let rows = now.rows.iter().map(|peer| RemoteHostSpan::between(before(peer), peer, seconds)).collect();
    let &RemoteHosts {
        scan_boottime_ns: looked_ns,
        scan_cpu_ns: cost_ns,
        connection_count: connections,
        host_count: hosts,
        ..
    } = now;
    Some(RemoteHostsSpan {
        scan_boottime_ns: looked_ns,
        seconds,
        scan_cpu_seconds: cost_ns as f64 / 1e9,
        connection_count: connections,
        host_count: hosts,
        rows,
    })
}
