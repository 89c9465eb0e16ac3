//! In which order remote hosts are shown: those far above their minimum first, then those with most traffic.

use crate::findings::{self, Judged};
use crate::interval::network::remote_hosts::{RemoteHostSpan, RttSpan};

/// Places in the rows of the last look.
pub fn order(judged: &Judged) -> Vec<usize> {
    let Some(peers) = &judged.peers else { return Vec::new() };
    let mut keyed: Vec<(Key, usize)> = peers.rows.iter().enumerate().map(|(at, peer)| (Key::of(peer), at)).collect();
    keyed.sort_by(|(a, _), (b, _)| {
        let excess = b.excess_ms.total_cmp(&a.excess_ms);
        excess.then(b.traffic.total_cmp(&a.traffic)).then(b.connections.cmp(&a.connections))
    });
    keyed.into_iter().map(|(_, at)| at).collect()
}

struct Key {
    /// Of hosts that press against their path, in whole milliseconds so that the rest do not change places
    excess_ms: f64,
    traffic: f64,
    connections: u32,
}

impl Key {
    fn of(peer: &RemoteHostSpan) -> Key {
        let trip = findings::round_trip(peer).filter(|_| peer.send_backlogged.is_some() && !peer.local);
        let far = trip.filter(|trip| trip.srtt_to_min_ratio().is_some_and(|times| times >= 2.0));
        let rate = |rate: Option<crate::units::PerSecond>| rate.map_or(0.0, |rate| rate.0);
        Key {
            excess_ms: far.and_then(RttSpan::excess).map_or(0.0, |excess| excess.0.floor()),
            // Doublings: a little more or less traffic changes no places.
            traffic: libm::log2((rate(peer.kilobytes_in) + rate(peer.kilobytes_out)).max(0.1)).floor(),
            connections: peer.connections,
        }
    }
}
