//! Keeps each connection's counters at the last dump, and cumulative sums by remote host.
//!
//! The sums are kept here because connections open and close between two samples: a host's sum over its open connections
//! would fall when one closes. Limited: of connections beyond `MAX_CONNECTIONS` only the number is counted.

use std::net::{IpAddr, SocketAddr};

use rustc_hash::FxHashMap;

use super::connection::{Connection, TcpInfo};
use super::host_entry::{HostEntry, MIN_LOOKUP_EXCESS_US};
use super::unanswered_requests::UnansweredRequests;
use super::waiting_sockets::{MAX_WAITING_SOCKETS, PreviousScan, Progress, WaitingSocket, owes_answer};
use crate::sample::network::remote_hosts::{RemoteHost, RemoteHosts};
use crate::sample::network::waiting_connections::ConnectionWait;
use crate::units::SmallSort;

/// Connections that are kept: about 15 MB.
const MAX_CONNECTIONS: usize = 100_000;
/// Hosts that a sample keeps.
const MAX_HOSTS: usize = 24;
/// Number of these that are chosen by the excess of their round trips over the minimum, the others by traffic.
const MAX_SLOW_HOSTS: usize = 8;
/// Number that are chosen by retransmits after these.
const MAX_RETRANSMITTING_HOSTS: usize = 4;
/// Hosts for whose worst connection the process is searched.
const MAX_PROCESS_LOOKUPS: usize = 4;
/// Retransmits of a host in a scan from which the process of its worst connection is searched for.
const MIN_LOOKUP_RETRANSMITS: u64 = 5;
/// A minimum round trip is kept this long. The kernel's own minimum is of 5 minutes: a longer lasting queue raises it.
const MIN_RTT_TTL_NS: u64 = 3_600_000_000_000;
/// A dump may miss a connection if its neighbours in the kernel's table close meanwhile: it is kept for this many dumps.
const MAX_MISSED_DUMPS: u32 = 3;
/// Connections with one remote address and port that wait for an answer, from which their threads are searched for. A server, whose
/// clients have ports of their own, has one with each.
const MIN_AWAITED_CONNECTIONS: usize = 4;

/// The connections and the sums by host.
#[derive(Debug, Default)]
pub struct ConnectionTable {
    known: FxHashMap<[u8; 8], KnownConnection>,
    hosts: FxHashMap<IpAddr, HostEntry>,
    dump_number: u32,
    last_dump_ns: u64,
    connection_count: u32,
    /// Whether this dump has connections that are not kept
    is_limited: bool,
    /// Whether all connections of the last finished dump were kept
    was_complete: bool,
    waiting: Vec<WaitingSocket>,
    awaited: Vec<WaitingSocket>,
    receivers: FxHashMap<(SocketAddr, SocketAddr), (u32, u32)>,
    unanswered: UnansweredRequests,
}

#[derive(Clone, Copy, Debug)]
struct KnownConnection {
    tcp_info: TcpInfo,
    progress: Progress,
    is_connecting: bool,
    min_rtt_us: Option<u32>,
    min_rtt_at_ns: u64,
    dump_number: u32,
}

impl ConnectionTable {
    /// Starts a dump.
    pub fn begin_dump(&mut self, now_ns: u64) -> DumpUpdate<'_> {
        let is_first = self.dump_number == 0;
        self.dump_number = self.dump_number.wrapping_add(1).max(1);
        let elapsed_ns = now_ns.saturating_sub(self.last_dump_ns);
        self.last_dump_ns = now_ns;
        self.connection_count = 0;
        self.waiting.clear();
        self.awaited.clear();
        self.receivers.clear();
        DumpUpdate {
            now_ns,
            elapsed_us: if is_first { 0 } else { elapsed_ns / 1000 },
            may_be_older: !self.was_complete,
            table: self,
        }
    }

    /// The connections of the last dump that wait for their remote end, at most `MAX_WAITING_SOCKETS`; without those that wait for an
    /// answer.
    pub fn waiting(&self) -> &[WaitingSocket] {
        &self.waiting
    }

    /// Those that wait for an answer, `MIN_AWAITED_CONNECTIONS` or more with one remote address and port.
    pub fn awaited_answers(&self) -> impl Iterator<Item = &WaitingSocket> {
        let mut counts: FxHashMap<SocketAddr, usize> = FxHashMap::default();
        for socket in &self.awaited {
            let count = counts.entry(socket.remote).or_default();
            *count = count.saturating_add(1);
        }
        self.awaited
            .iter()
            .filter(move |socket| counts.get(&socket.remote).is_some_and(|&count| count >= MIN_AWAITED_CONNECTIONS))
    }

    /// The sockets of this machine with unread data, or with a request that is not answered, whose other end is on this machine, too:
    /// by local and remote address, inode and unread bytes; at most `MAX_WAITING_SOCKETS`.
    pub fn receivers(&self) -> &FxHashMap<(SocketAddr, SocketAddr), (u32, u32)> {
        &self.receivers
    }

    /// The hosts with retransmits or slow round trips in the last dump, with the inode of their worst connection; at most
    /// `MAX_PROCESS_LOOKUPS`, those with most retransmits first.
    pub fn process_lookups(&self) -> Vec<(IpAddr, u32)> {
        let of_last = |host: &HostEntry| host.worst.filter(|worst| worst.dump_number == self.dump_number);
        let worst = self.hosts.values().filter_map(|host| Some((host, of_last(host)?)));
        let mut process_lookups: Vec<_> = worst
            .filter(|(host, worst)| {
                host.recent_retransmits >= MIN_LOOKUP_RETRANSMITS || worst.excess_us >= MIN_LOOKUP_EXCESS_US
            })
            .collect();
        process_lookups.small_sort_by_key(|(host, worst)| {
            (std::cmp::Reverse(host.recent_retransmits), std::cmp::Reverse(worst.excess_us), host.sums.address)
        });
        process_lookups.truncate(MAX_PROCESS_LOOKUPS);
        process_lookups.into_iter().map(|(host, worst)| (host.sums.address, worst.inode)).collect()
    }

    /// The host with most retransmits in the last dumps, and the inode of its worst connection.
    pub fn top_retransmits(&self) -> Option<(&RemoteHost, u32)> {
        let hosts = self.hosts.values().filter(|host| host.recent_retransmits >= MIN_LOOKUP_RETRANSMITS);
        let top = hosts.max_by_key(|host| (host.recent_retransmits, host.sums.address))?;
        Some((&top.sums, top.worst?.inode))
    }

    /// Removes connections that are in no dump any more, and returns the hosts for the sample.
    pub fn finish_dump(&mut self) -> RemoteHosts {
        let dump_number = self.dump_number;
        self.was_complete = !std::mem::take(&mut self.is_limited);
        self.unanswered.finish_dump(self.last_dump_ns);
        self.known.retain(|_, known| dump_number.wrapping_sub(known.dump_number) <= MAX_MISSED_DUMPS);
        self.hosts.retain(|_, host| host.dump_number == dump_number);
        let mut hosts: Vec<&HostEntry> = self.hosts.values().collect();
        hosts.small_sort_by(|a, b| b.excess_rtt_us.cmp(&a.excess_rtt_us).then(a.sums.address.cmp(&b.sums.address)));
        let slow = hosts.iter().take_while(|host| host.excess_rtt_us > 0).count().min(MAX_SLOW_HOSTS);
        let (_, others) = hosts.split_at_mut(slow);
        others.small_sort_by(|a, b| b.recent_retransmits.cmp(&a.recent_retransmits).then(a.sums.address.cmp(&b.sums.address)));
        let lossy = others.iter().take_while(|host| host.recent_retransmits > 0).count().min(MAX_RETRANSMITTING_HOSTS);
        let (_, others) = others.split_at_mut(lossy);
        others.small_sort_by(|a, b| {
            let weight = |host: &HostEntry| (host.recent_bytes, host.sums.connections);
            weight(b).cmp(&weight(a)).then(a.sums.address.cmp(&b.sums.address))
        });
        let mut rows: Vec<RemoteHost> = hosts.iter().take(MAX_HOSTS).map(|host| host.sums.clone()).collect();
        rows.small_sort_by_key(|host| host.address);
        RemoteHosts {
            scan_boottime_ns: self.last_dump_ns,
            // Set by the caller, which has measured it.
            scan_cpu_ns: 0,
            connection_count: self.connection_count,
            host_count: u32::try_from(self.hosts.len()).unwrap_or(u32::MAX),
            rows,
        }
    }
}

/// One dump being read.
pub struct DumpUpdate<'l> {
    table: &'l mut ConnectionTable,
    now_ns: u64,
    elapsed_us: u64,
    /// Whether a connection that is not known may have been open at the dump before
    may_be_older: bool,
}

impl DumpUpdate<'_> {
    /// Adds one connection; a dump may contain it twice.
    pub fn add_connection(&mut self, connection: &Connection) {
        let table = &mut *self.table;
        let (dump_number, tcp) = (table.dump_number, &connection.tcp_info);
        let known = table.known.get(&connection.cookie).copied();
        if known.is_some_and(|known| known.dump_number == dump_number) {
            return;
        }
        // Times are known only between two consecutive dumps.
        let in_a_row = known.filter(|known| dump_number.wrapping_sub(known.dump_number) == 1);
        let elapsed_us = if in_a_row.is_some() { self.elapsed_us } else { 0 };
        let progress = self.add_waiting(connection, in_a_row.as_ref(), elapsed_us);
        let table = &mut *self.table;
        let is_behind = connection.is_local && connection.unread_bytes > 0 || owes_answer(connection);
        if is_behind && table.receivers.len() < MAX_WAITING_SOCKETS {
            let ends = (connection.local(), connection.remote());
            table.receivers.insert(ends, (connection.inode, connection.unread_bytes));
        }
        let update_known = |table: &mut ConnectionTable, minimum: Option<(u32, u64)>| {
            if known.is_some() || table.known.len() < MAX_CONNECTIONS {
                let (min_rtt_us, minimum_at_ns) = minimum.unzip();
                let min_rtt_at_ns = minimum_at_ns.unwrap_or_default();
                let is_connecting = connection.is_connecting();
                let known = KnownConnection { tcp_info: *tcp, progress, is_connecting, min_rtt_us, min_rtt_at_ns, dump_number };
                table.known.insert(connection.cookie, known);
            }
        };
        // A connection that is being opened carries no data.
        if connection.is_connecting() {
            table.unanswered.add_connecting(connection, self.now_ns);
            update_known(table, None);
            return;
        }
        table.connection_count = table.connection_count.saturating_add(1);
        if known.is_none() && table.known.len() >= MAX_CONNECTIONS {
            table.is_limited = true;
            return;
        }
        if known.map_or(!self.may_be_older, |known| known.is_connecting) {
            table.unanswered.add_opened(connection);
        }
        let host = table.hosts.entry(connection.remote_address).or_insert_with(|| HostEntry::new(connection));
        host.count_connection(connection, dump_number);
        // A connection that was not in the last dump was opened since: its counters started at 0 in this interval.
        let opened = TcpInfo { limit_times_us: tcp.limit_times_us, ..TcpInfo::zeroed(tcp) };
        let before = known.map_or(if self.may_be_older { *tcp } else { opened }, |known| known.tcp_info);
        let minimum =
            known.and_then(|known| hourly_min_rtt(&known, tcp, self.now_ns)).or(tcp.min_rtt_us.map(|us| (us, self.now_ns)));
        host.add_growth(&before, tcp, minimum.map(|(us, _)| us), elapsed_us);
        host.update_worst(&before, connection, minimum.map(|(us, _)| us), dump_number);
        update_known(table, minimum);
    }

    /// Keeps the connection if it waits for its remote end.
    fn add_waiting(&mut self, connection: &Connection, before: Option<&KnownConnection>, elapsed_us: u64) -> Progress {
        let before = before.map(|known| PreviousScan { tcp_info: &known.tcp_info, progress: known.progress, elapsed_us });
        let progress = Progress::update(before, connection, self.now_ns);
        let earlier_ns = Some(connection.remote()).filter(|_| connection.is_connecting());
        let earlier_ns = earlier_ns.and_then(|remote| self.table.unanswered.since_ns(remote));
        let waiting = match (progress.waiting, earlier_ns) {
            (own, Some(earlier_ns)) => {
                let since_ns = own.map_or(earlier_ns, |(_, since_ns)| since_ns.min(earlier_ns));
                Some((ConnectionWait::Connect, since_ns))
            }
            (own, None) => own,
        };
        let Some((wait, since_ns)) = waiting else { return progress };
        // An idle client of a server of this host, which answered last, looks the same.
        if wait == ConnectionWait::Answer && connection.is_certainly_opened_by_remote() {
            return progress;
        }
        let list = if wait == ConnectionWait::Answer { &mut self.table.awaited } else { &mut self.table.waiting };
        if list.len() < MAX_WAITING_SOCKETS {
            list.push(WaitingSocket {
                local: connection.local(),
                remote: connection.remote(),
                inode: connection.inode,
                wait,
                since_ns,
                queued_bytes: connection.queued_bytes,
                retries: connection.retries,
                longest_answer_ms: progress.longest_answer_ms,
            });
        }
        progress
    }
}

impl TcpInfo {
    /// The counters of a connection that was just opened.
    fn zeroed(open: &TcpInfo) -> TcpInfo {
        TcpInfo {
            bytes_acked: open.bytes_acked.map(|_| 0),
            bytes_received: open.bytes_received.map(|_| 0),
            data_segments_out: open.data_segments_out.map(|_| 0),
            ..TcpInfo::default()
        }
    }
}

/// The lowest round trip within `MIN_RTT_TTL_NS`, and when the kernel last reported it.
fn hourly_min_rtt(known: &KnownConnection, tcp: &TcpInfo, now_ns: u64) -> Option<(u32, u64)> {
    let (before, now) = (known.min_rtt_us?, tcp.min_rtt_us?);
    let lasts = before < now && now_ns.saturating_sub(known.min_rtt_at_ns) <= MIN_RTT_TTL_NS;
    lasts.then_some((before, known.min_rtt_at_ns))
}

#[cfg(test)]
mod tests;
