//! In which order remote hosts are shown: those far above their minimum first, then those with most traffic.

use crate::findings::{self, Evaluation};
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};

/// Places in the rows of the last look.
pub fn display_order(judged: &Evaluation) -> Vec<usize> {
    let Some(peers) = &judged.remote_hosts else { return Vec::new() };
    let mut keyed: Vec<(RemoteHostSortKey, usize)> =
        peers.rows.iter().enumerate().map(|(at, peer)| (RemoteHostSortKey::new(peer), at)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let excess = b.rtt_excess_ms.total_cmp(&a.rtt_excess_ms);
        excess.then(b.log2_traffic.total_cmp(&a.log2_traffic)).then(b.connections.cmp(&a.connections))
    });
    keyed.into_iter().map(|(_, at)| at).collect()
}

struct RemoteHostSortKey {
    /// Of hosts that press against their path, in whole milliseconds so that the rest do not change places
    rtt_excess_ms: f64,
    log2_traffic: f64,
    connections: u32,
}

impl RemoteHostSortKey {
    fn new(peer: &RemoteHostSpan) -> RemoteHostSortKey {
        let trip = findings::evaluated_rtt(peer).filter(|_| peer.send_backlogged.is_some() && !peer.local);
        let far = trip.filter(|trip| trip.srtt_to_min_ratio().is_some_and(|times| times >= 2.0));
        let rate = |rate: Option<crate::units::PerSecond>| rate.map_or(0.0, |rate| rate.0);
        RemoteHostSortKey {
            rtt_excess_ms: far.and_then(RttSpan::excess).map_or(0.0, |excess| excess.0.floor()),
            // Doublings: a little more or less traffic changes no places.
            log2_traffic: libm::log2((rate(peer.kilobytes_in) + rate(peer.kilobytes_out)).max(0.1)).floor(),
            connections: peer.connections,
        }
    }
}
