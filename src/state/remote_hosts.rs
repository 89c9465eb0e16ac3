//! Display order of remote hosts: the highest RTT excess over the minimum first, then the most traffic.

use crate::findings::{self, Evaluation};
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};
use crate::units::SmallSort;

/// Indices into the rows of the last socket scan, in display order.
pub fn display_order(evaluation: &Evaluation) -> Vec<usize> {
    let Some(peers) = &evaluation.remote_hosts else { return Vec::new() };
    let mut keyed: Vec<(RemoteHostSortKey, usize)> =
        peers.rows.iter().enumerate().map(|(at, peer)| (RemoteHostSortKey::new(peer), at)).collect();
    keyed.small_sort_by(|(a, _), (b, _)| {
        let excess = b.rtt_excess_ms.total_cmp(&a.rtt_excess_ms);
        excess.then(b.log2_traffic.total_cmp(&a.log2_traffic)).then(b.connections.cmp(&a.connections))
    });
    keyed.into_iter().map(|(_, at)| at).collect()
}

struct RemoteHostSortKey {
    /// RTT above its minimum, of hosts whose connections are path-limited. Whole milliseconds keep the order stable.
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
            // Powers of two keep the order stable when the traffic varies a little.
            log2_traffic: libm::log2((rate(peer.kilobytes_in) + rate(peer.kilobytes_out)).max(0.1)).floor(),
            connections: peer.connections,
        }
    }
}
