//! Remote hosts between two looks at the connections: rates, round trips against their minimum, what connections waited for.

use std::net::IpAddr;

use crate::sample::Sample;
use crate::sample::network::peers::{Limits, Peer, Peers, RoundTrips};
use crate::units::{Counter, Millis, PerSecond, Ratio, growth};

/// What two looks tell. The looks are the samples' own, or older ones where looking at each sample is too dear.
#[derive(Clone, Debug, PartialEq)]
pub struct PeersSpan {
    /// CLOCK_BOOTTIME nanoseconds of the later look
    pub looked_ns: u64,
    /// Seconds between the looks
    pub seconds: f64,
    /// Seconds of CPU that the later look cost
    pub cost_seconds: f64,
    /// At the later look, those that are not listed included
    pub connections: u32,
    pub hosts: u32,
    /// By address
    pub rows: Vec<PeerSpan>,
}

/// A remote host. Rates and means are `None` where the earlier look did not list it.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerSpan {
    pub address: IpAddr,
    pub local: bool,
    pub interface: Option<u32>,
    pub connections: u32,
    /// Payload that it has confirmed, and that came from it; KB of 1024 bytes
    pub kilobytes_out: Option<PerSecond>,
    pub kilobytes_in: Option<PerSecond>,
    /// Segments
    pub retransmitted: Option<PerSecond>,
    pub retransmitted_share: Option<Ratio>,
    /// Of the connections that carried data; `None` where none did
    pub active: Option<RoundTrip>,
    /// Of those that had more to send than the path took
    pub pressed: Option<RoundTrip>,
    pub limits: Option<LimitShares>,
}

/// Means over connections and looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTrip {
    /// How many were looked at
    pub looks: u64,
    pub smoothed: Millis,
    /// Of the connections' own minima; `None` where the kernel does not tell
    pub minimum: Option<Millis>,
}

/// Shares of the time of the active connections; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LimitShares {
    /// Nothing on its way: the application had nothing to send
    pub application: Ratio,
    /// The receiver's window was full
    pub receiver: Ratio,
    /// The send buffer was full
    pub send_buffer: Ratio,
    /// The rest: waiting for confirmations, at the speed of the path (or of what answers)
    pub path: Ratio,
}

impl RoundTrip {
    /// Smoothed ÷ minimum.
    pub fn times(&self) -> Option<f64> {
        let minimum = self.minimum.filter(|minimum| minimum.0 > 0.0)?;
        Some(self.smoothed.0 / minimum.0)
    }

    /// Smoothed − minimum.
    pub fn excess(&self) -> Option<Millis> {
        Some(Millis((self.smoothed.0 - self.minimum?.0).max(0.0)))
    }

    fn between(older: &RoundTrips, newer: &RoundTrips) -> Option<RoundTrip> {
        let looks = newer.looks.since(older.looks).filter(|&looks| looks > 0)?;
        let mean = |us: u64| Millis(us as f64 / looks as f64 / 1000.0);
        Some(RoundTrip {
            looks,
            smoothed: mean(newer.smoothed_us.since(older.smoothed_us)?),
            minimum: growth(newer.minimum_us, older.minimum_us).map(mean),
        })
    }
}

impl LimitShares {
    fn between(older: &Limits, newer: &Limits) -> Option<LimitShares> {
        let grown = |field: fn(&Limits) -> Counter| field(newer).since(field(older)).map(|us| us as f64);
        let watched = grown(|limits| limits.watched_us)?;
        let busy = grown(|limits| limits.busy_us)?.min(watched);
        let receiver = grown(|limits| limits.receiver_us)?.min(busy);
        let send_buffer = grown(|limits| limits.send_buffer_us)?.min(busy - receiver);
        Some(LimitShares {
            application: Ratio::of(watched - busy, watched)?,
            receiver: Ratio::of(receiver, watched)?,
            send_buffer: Ratio::of(send_buffer, watched)?,
            path: Ratio::of(busy - receiver - send_buffer, watched)?,
        })
    }
}

impl PeerSpan {
    fn between(older: Option<&Peer>, newer: &Peer, seconds: f64) -> PeerSpan {
        let rate = |field: fn(&Peer) -> Option<Counter>| {
            PerSecond::between(field(newer), older.and_then(field), seconds).filter(|rate| rate.0.is_finite())
        };
        let kilobytes = |field| rate(field).map(|bytes| PerSecond(bytes.0 / 1024.0));
        let retransmitted = rate(|peer| Some(peer.retransmitted));
        let sent = rate(|peer| peer.segments_out);
        let round_trip = |field: fn(&Peer) -> &RoundTrips| RoundTrip::between(field(older?), field(newer));
        PeerSpan {
            address: newer.address,
            local: newer.local,
            interface: newer.interface,
            connections: newer.connections,
            kilobytes_out: kilobytes(|peer| peer.bytes_acked),
            kilobytes_in: kilobytes(|peer| peer.bytes_received),
            retransmitted_share: retransmitted.zip(sent).and_then(|(part, whole)| Ratio::of(part.0, whole.0)),
            retransmitted,
            active: round_trip(|peer| &peer.active),
            pressed: round_trip(|peer| &peer.pressed),
            limits: older
                .and_then(|older| older.limits.as_ref())
                .zip(newer.limits.as_ref())
                .and_then(|(older, newer)| LimitShares::between(older, newer)),
        }
    }
}

/// What the looks of both samples tell; `None` where there was no look between them, or none at all.
pub fn between(older: &Sample, newer: &Sample) -> Option<PeersSpan> {
    let (was, now) = (older.protocols.peers.as_ref().ok()?, newer.protocols.peers.as_ref().ok()?);
    let seconds = now.looked_ns.checked_sub(was.looked_ns)? as f64 / 1e9;
    if seconds < 0.001 {
        return None;
    }
    let before = |peer: &Peer| {
        let at = was.rows.binary_search_by_key(&peer.address, |row| row.address).ok()?;
        was.rows.get(at)
    };
    let rows = now.rows.iter().map(|peer| PeerSpan::between(before(peer), peer, seconds)).collect();
    let &Peers { looked_ns, cost_ns, connections, hosts, .. } = now;
    Some(PeersSpan { looked_ns, seconds, cost_seconds: cost_ns as f64 / 1e9, connections, hosts, rows })
}
