//! What each connection's counters were at the last look, and the sums by remote host that they have grown to.
//!
//! Sums are kept here, and not the connections in the sample, because connections come and go between two samples: their
//! sum over a host would fall when one closes, and one sample would have to hold all of them for another to be subtracted.
//! Bounded: beyond `MOST_CONNECTIONS` a connection is counted and no more.

use std::net::IpAddr;

use rustc_hash::FxHashMap;

use super::connection::{Connection, TcpInfo};
use crate::sample::network::peers::{Limits, Peer, Peers, RoundTrips};
use crate::units::Counter;

/// About 15 MB.
const MOST_CONNECTIONS: usize = 100_000;
/// Hosts that a sample keeps.
const MOST_HOSTS: usize = 24;
/// Of them, places for those whose round trips are farthest above their minimum.
const MOST_SLOW: usize = 8;
/// The smoothed round trip is a mean in which each measurement has an eighth: after so many segments two thirds of it are new.
const FRESH_SEGMENTS: u32 = 8;
/// A minimum that the kernel no longer holds (it looks back 5 minutes: a queue that stands longer becomes its minimum) is
/// remembered this long.
const MINIMUM_FOR_NS: u64 = 3_600_000_000_000;
/// A dump may skip a connection whose neighbours in the kernel's table closed meanwhile: it is not new when it is back.
const MISSED_LOOKS: u32 = 3;

/// Everything that is remembered from one look to the next.
#[derive(Debug, Default)]
pub struct Ledger {
    known: FxHashMap<[u8; 8], Known>,
    hosts: FxHashMap<IpAddr, Host>,
    look: u32,
    looked_ns: u64,
    connections: u32,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    tcp: TcpInfo,
    minimum_us: Option<u32>,
    minimum_at_ns: u64,
    look: u32,
}

#[derive(Clone, Debug)]
struct Host {
    peer: Peer,
    look: u32,
    /// Bytes that moved, fading by half with each look: hosts do not change places at each of them
    traffic: u64,
    /// The same of the largest excess over the minimum, microseconds
    excess_us: u64,
}

impl Ledger {
    /// A look begins.
    pub fn begin(&mut self, now_ns: u64) -> Look<'_> {
        let first = self.look == 0;
        self.look = self.look.wrapping_add(1).max(1);
        let elapsed_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        self.connections = 0;
        Look { now_ns, elapsed_us: if first { 0 } else { elapsed_ns / 1000 }, first, ledger: self }
    }

    /// What no dump shows any more goes; what is kept is what a sample gets.
    pub fn end(&mut self, cost_ns: u64) -> Peers {
        let look = self.look;
        self.known.retain(|_, known| look.wrapping_sub(known.look) <= MISSED_LOOKS);
        self.hosts.retain(|_, host| host.look == look);
        let mut hosts: Vec<&Host> = self.hosts.values().collect();
        hosts.sort_unstable_by(|a, b| b.excess_us.cmp(&a.excess_us).then(a.peer.address.cmp(&b.peer.address)));
        let slow = hosts.iter().take_while(|host| host.excess_us > 0).count().min(MOST_SLOW);
        let (_, others) = hosts.split_at_mut(slow);
        others.sort_unstable_by(|a, b| {
            let weight = |host: &Host| (host.traffic, host.peer.connections);
            weight(b).cmp(&weight(a)).then(a.peer.address.cmp(&b.peer.address))
        });
        let mut rows: Vec<Peer> = hosts.iter().take(MOST_HOSTS).map(|host| host.peer.clone()).collect();
        rows.sort_unstable_by_key(|peer| peer.address);
        Peers {
            looked_ns: self.looked_ns,
            cost_ns,
            connections: self.connections,
            hosts: u32::try_from(self.hosts.len()).unwrap_or(u32::MAX),
            rows,
        }
    }
}

/// One dump being read.
pub struct Look<'l> {
    ledger: &'l mut Ledger,
    now_ns: u64,
    elapsed_us: u64,
    first: bool,
}

impl Look<'_> {
    /// Takes in one connection; a dump may show it twice.
    pub fn add(&mut self, connection: &Connection) {
        let ledger = &mut *self.ledger;
        let (look, tcp) = (ledger.look, &connection.tcp);
        let known = ledger.known.get(&connection.cookie).copied();
        if known.is_some_and(|known| known.look == look) {
            return;
        }
        ledger.connections = ledger.connections.saturating_add(1);
        let host = ledger.hosts.entry(connection.remote).or_insert_with(|| Host::new(connection));
        host.appear(look);
        // A connection that was not there at the last look was opened since: all it has counted is of this time.
        let born = TcpInfo { chronograph_us: tcp.chronograph_us, ..TcpInfo::nothing(tcp) };
        let before = known.map_or(if self.first { *tcp } else { born }, |known| known.tcp);
        let minimum = known.and_then(|known| lowest(&known, tcp, self.now_ns)).or(tcp.minimum_us.map(|us| (us, self.now_ns)));
        // Time is only known between two looks in a row.
        let in_a_row = known.is_some_and(|known| look.wrapping_sub(known.look) == 1);
        host.grow(&before, tcp, minimum.map(|(us, _)| us), if in_a_row { self.elapsed_us } else { 0 });
        if known.is_some() || ledger.known.len() < MOST_CONNECTIONS {
            let (minimum_us, minimum_at_ns) = minimum.unzip();
            let minimum_at_ns = minimum_at_ns.unwrap_or_default();
            ledger.known.insert(connection.cookie, Known { tcp: *tcp, minimum_us, minimum_at_ns, look });
        }
    }
}

impl TcpInfo {
    /// Where all counters of a connection began.
    fn nothing(of: &TcpInfo) -> TcpInfo {
        TcpInfo {
            bytes_acked: of.bytes_acked.map(|_| 0),
            bytes_received: of.bytes_received.map(|_| 0),
            segments_out: of.segments_out.map(|_| 0),
            ..TcpInfo::default()
        }
    }
}

/// The lowest round trip and when the kernel last held it, as long as that is not too long ago.
fn lowest(known: &Known, tcp: &TcpInfo, now_ns: u64) -> Option<(u32, u64)> {
    let (before, now) = (known.minimum_us?, tcp.minimum_us?);
    let lasts = before < now && now_ns.saturating_sub(known.minimum_at_ns) <= MINIMUM_FOR_NS;
    lasts.then_some((before, known.minimum_at_ns))
}

impl Host {
    fn new(connection: &Connection) -> Host {
        let tcp = &connection.tcp;
        let zero = |there: bool| there.then_some(Counter(0));
        let round_trips = RoundTrips { minimum_us: zero(tcp.unsent_bytes.is_some()), ..RoundTrips::default() };
        Host {
            peer: Peer {
                address: connection.remote,
                local: connection.local,
                interface: None,
                connections: 0,
                bytes_acked: zero(tcp.bytes_acked.is_some()),
                bytes_received: zero(tcp.bytes_received.is_some()),
                segments_out: zero(tcp.segments_out.is_some()),
                retransmitted: Counter(0),
                active: round_trips,
                pressed: round_trips,
                limits: tcp.chronograph_us.map(|_| Limits::default()),
            },
            look: 0,
            traffic: 0,
            excess_us: 0,
        }
    }

    /// Its first connection of a look.
    fn appear(&mut self, look: u32) {
        if self.look != look {
            self.look = look;
            self.peer.connections = 0;
            self.traffic /= 2;
            self.excess_us /= 2;
        }
        self.peer.connections = self.peer.connections.saturating_add(1);
    }

    fn grow(&mut self, before: &TcpInfo, now: &TcpInfo, minimum_us: Option<u32>, elapsed_us: u64) {
        let peer = &mut self.peer;
        let segments = small_growth(now.segments_out, before.segments_out);
        let acked = growth(now.bytes_acked, before.bytes_acked);
        let received = growth(now.bytes_received, before.bytes_received);
        let moved = acked.unwrap_or(0).saturating_add(received.unwrap_or(0));
        let again = u64::from(now.retransmitted.wrapping_sub(before.retransmitted));
        if moved == 0 && again == 0 && segments.unwrap_or(0) == 0 {
            return;
        }
        self.traffic = self.traffic.saturating_add(moved);
        add(&mut peer.bytes_acked, acked);
        add(&mut peer.bytes_received, received);
        add(&mut peer.segments_out, segments.map(u64::from));
        raise(&mut peer.retransmitted, again);
        let fresh = acked.is_some_and(|bytes| bytes > 0) && segments.is_some_and(|count| count >= FRESH_SEGMENTS);
        if !fresh {
            return;
        }
        peer.active.add(now, minimum_us);
        if now.is_pressed() {
            peer.pressed.add(now, minimum_us);
        }
        let excess = minimum_us.map_or(0, |minimum| now.smoothed_us.saturating_sub(minimum));
        if !peer.local && minimum_us.is_some_and(|minimum| excess > minimum) {
            self.excess_us = self.excess_us.max(u64::from(excess));
        }
        if let (Some(limits), Some(new), Some(old)) = (&mut peer.limits, now.chronograph_us, before.chronograph_us)
            && elapsed_us > 0
        {
            raise(&mut limits.watched_us, elapsed_us);
            let sums = [&mut limits.busy_us, &mut limits.receiver_us, &mut limits.send_buffer_us];
            for ((sum, new), old) in sums.into_iter().zip(new).zip(old) {
                raise(sum, new.saturating_sub(old).min(elapsed_us));
            }
        }
    }
}

impl RoundTrips {
    fn add(&mut self, tcp: &TcpInfo, minimum_us: Option<u32>) {
        // Without a minimum of its own it has nothing to be compared with.
        if self.minimum_us.is_some() && minimum_us.is_none() {
            return;
        }
        raise(&mut self.looks, 1);
        raise(&mut self.smoothed_us, u64::from(tcp.smoothed_us));
        add(&mut self.minimum_us, minimum_us.map(u64::from));
    }
}

/// A connection's own counters do not fall; a number that was given again would.
fn growth(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// 32 bits wide in the kernel, and they do wrap.
fn small_growth(now: Option<u32>, before: Option<u32>) -> Option<u32> {
    Some(now?.wrapping_sub(before?))
}

fn raise(sum: &mut Counter, by: u64) {
    sum.0 = sum.0.saturating_add(by);
}

fn add(sum: &mut Option<Counter>, by: Option<u64>) {
    if let (Some(sum), Some(by)) = (sum, by) {
        raise(sum, by);
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
