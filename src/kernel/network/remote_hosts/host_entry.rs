//! The sums of one remote host over its connections, and its worst connection. A sample has no connections, of which there may be a
//! hundred thousand: so their growth is added up here, as the kernel counted it, and `interval` does the rest.

use super::connection::{Connection, TcpInfo};
use crate::sample::network::remote_hosts::{RemoteHost, RttSums, SendLimitTimes};
use crate::units::Counter;

/// Excess over the minimum round trip, and multiple of the minimum, from which the process of a host's worst connection is searched for.
pub const MIN_LOOKUP_EXCESS_US: u32 = 2_000;
const MIN_LOOKUP_MULTIPLE: u32 = 3;
/// Each measurement has a weight of 1/8 in the smoothed round trip: after this many segments two thirds of it are new.
pub const MIN_SEGMENTS_FOR_RTT: u32 = 8;

#[derive(Clone, Debug)]
pub struct HostEntry {
    pub sums: RemoteHost,
    pub dump_number: u32,
    /// Bytes moved, halved with each dump: the order of hosts changes slowly
    pub recent_bytes: u64,
    /// Largest excess of the round trip over its minimum, halved with each dump; microseconds
    pub excess_rtt_us: u64,
    /// Retransmits, halved with each dump
    pub recent_retransmits: u64,
    /// The worst connection of the last dump that had one
    pub worst: Option<WorstConnection>,
}

/// The connection of a host with most retransmits in a dump, or with the largest excess over its minimum round trip.
#[derive(Clone, Copy, Debug)]
pub struct WorstConnection {
    pub dump_number: u32,
    pub retransmits: u64,
    pub excess_us: u32,
    pub inode: u32,
}

impl HostEntry {
    pub fn new(connection: &Connection) -> HostEntry {
        let tcp = &connection.tcp_info;
        let zero = |there: bool| there.then_some(Counter(0));
        let round_trips = RttSums { min_rtt_us: zero(tcp.notsent_bytes.is_some()), ..RttSums::default() };
        HostEntry {
            sums: RemoteHost {
                address: connection.remote_address,
                local: connection.is_local,
                ifindex: None,
                connections: 0,
                client_connections: 0,
                bytes_acked: zero(tcp.bytes_acked.is_some()),
                bytes_received: zero(tcp.bytes_received.is_some()),
                data_segments_out: zero(tcp.data_segments_out.is_some()),
                segments_retransmitted: Counter(0),
                active: round_trips,
                send_backlogged: round_trips,
                send_limits: tcp.limit_times_us.map(|_| SendLimitTimes::default()),
                worst_process: None,
            },
            dump_number: 0,
            recent_bytes: 0,
            excess_rtt_us: 0,
            recent_retransmits: 0,
            worst: None,
        }
    }

    /// Counts one connection; the first of a dump resets the sums of the dump before.
    pub fn count_connection(&mut self, connection: &Connection, dump_number: u32) {
        if self.dump_number != dump_number {
            self.dump_number = dump_number;
            (self.sums.connections, self.sums.client_connections) = (0, 0);
            self.recent_bytes /= 2;
            self.excess_rtt_us /= 2;
            self.recent_retransmits /= 2;
        }
        self.sums.connections = self.sums.connections.saturating_add(1);
        let of_client = u32::from(connection.is_opened_by_remote());
        self.sums.client_connections = self.sums.client_connections.saturating_add(of_client);
    }

    /// Keeps the connection if it is the worst of this dump so far.
    pub fn update_worst(&mut self, before: &TcpInfo, connection: &Connection, minimum_us: Option<u32>, dump_number: u32) {
        let now = &connection.tcp_info;
        let retransmits = u64::from(now.segments_retransmitted.wrapping_sub(before.segments_retransmitted));
        let segments = wrapping_growth(now.data_segments_out, before.data_segments_out);
        let acked = growth(now.bytes_acked, before.bytes_acked);
        let is_fresh = acked.is_some_and(|bytes| bytes > 0) && segments.is_some_and(|count| count >= MIN_SEGMENTS_FOR_RTT);
        let is_slow = |minimum: &u32| is_fresh && now.srtt_us / MIN_LOOKUP_MULTIPLE >= *minimum;
        let excess_us = minimum_us.filter(is_slow).map_or(0, |minimum| now.srtt_us.saturating_sub(minimum));
        if connection.inode == 0 || retransmits == 0 && excess_us < MIN_LOOKUP_EXCESS_US {
            return;
        }
        let rank = |worst: &WorstConnection| (worst.retransmits, worst.excess_us);
        let this = WorstConnection { dump_number, retransmits, excess_us, inode: connection.inode };
        if self.worst.is_none_or(|worst| worst.dump_number != dump_number || rank(&worst) < rank(&this)) {
            self.worst = Some(this);
        }
    }

    /// Adds what a connection has counted since the dump before, `elapsed_us` ago; 0 where that is not known.
    pub fn add_growth(&mut self, before: &TcpInfo, now: &TcpInfo, minimum_us: Option<u32>, elapsed_us: u64) {
        let sums = &mut self.sums;
        let segments = wrapping_growth(now.data_segments_out, before.data_segments_out);
        let acked = growth(now.bytes_acked, before.bytes_acked);
        let received = growth(now.bytes_received, before.bytes_received);
        let moved = acked.unwrap_or(0).saturating_add(received.unwrap_or(0));
        let again = u64::from(now.segments_retransmitted.wrapping_sub(before.segments_retransmitted));
        if moved == 0 && again == 0 && segments.unwrap_or(0) == 0 {
            return;
        }
        self.recent_bytes = self.recent_bytes.saturating_add(moved);
        self.recent_retransmits = self.recent_retransmits.saturating_add(again);
        add(&mut sums.bytes_acked, acked);
        add(&mut sums.bytes_received, received);
        add(&mut sums.data_segments_out, segments.map(u64::from));
        add_to(&mut sums.segments_retransmitted, again);
        let fresh = acked.is_some_and(|bytes| bytes > 0) && segments.is_some_and(|count| count >= MIN_SEGMENTS_FOR_RTT);
        if !fresh {
            return;
        }
        sums.active.add(now, minimum_us);
        if now.is_send_backlogged() {
            sums.send_backlogged.add(now, minimum_us);
        }
        let excess = minimum_us.map_or(0, |minimum| now.srtt_us.saturating_sub(minimum));
        if !sums.local && minimum_us.is_some_and(|minimum| excess > minimum) {
            self.excess_rtt_us = self.excess_rtt_us.max(u64::from(excess));
        }
        if let (Some(limits), Some(new), Some(old)) = (&mut sums.send_limits, now.limit_times_us, before.limit_times_us)
            && elapsed_us > 0
        {
            add_to(&mut limits.observed_us, elapsed_us);
            let sums = [&mut limits.busy_us, &mut limits.rwnd_limited_us, &mut limits.sndbuf_limited_us];
            for ((sum, new), old) in sums.into_iter().zip(new).zip(old) {
                // In whole clock ticks: may be more than the time between two dumps.
                add_to(sum, new.saturating_sub(old));
            }
        }
    }
}

impl RttSums {
    fn add(&mut self, tcp: &TcpInfo, minimum_us: Option<u32>) {
        // Without a minimum there is nothing to compare with.
        if self.min_rtt_us.is_some() && minimum_us.is_none() {
            return;
        }
        add_to(&mut self.count, 1);
        add_to(&mut self.srtt_us, u64::from(tcp.srtt_us));
        add(&mut self.min_rtt_us, minimum_us.map(u64::from));
    }
}

/// The growth of a counter; `None` when it fell, as it does for a reused identity.
pub fn growth(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

/// The same for counters of 32 bits, which wrap.
pub fn wrapping_growth(now: Option<u32>, before: Option<u32>) -> Option<u32> {
    Some(now?.wrapping_sub(before?))
}

fn add_to(sum: &mut Counter, by: u64) {
    sum.0 = sum.0.saturating_add(by);
}

fn add(sum: &mut Option<Counter>, by: Option<u64>) {
    if let (Some(sum), Some(by)) = (sum, by) {
        add_to(sum, by);
    }
}
