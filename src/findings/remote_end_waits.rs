//! Connections that wait for their remote end, by remote host: which processes, how many of their threads, how long.

use std::net::{IpAddr, SocketAddr};

use crate::findings::finding::Subject;
use crate::findings::formatting::{lossy_name, plural};
use crate::ids::{GroupId, ProcessId};
use crate::interval::Interval;
use crate::sample::Name;
use crate::sample::network::waiting_connections::{ConnectionWait, WaitingConnections};
use crate::units::SmallSort;

/// Processes that a sentence names.
const MAX_NAMED_PROCESSES: usize = 3;

/// The connections with one remote host, or with one receiver at it, that wait for the same reason.
pub struct RemoteEndWait<'a> {
    pub remote_host: IpAddr,
    pub wait: ConnectionWait,
    /// Of the receiver: two programs of one host that do not read are two faults
    port: Option<u16>,
    /// Those with most threads first
    rows: Vec<&'a WaitingConnections>,
}

impl<'a> RemoteEndWait<'a> {
    /// Threads in a send or connect call on one of the connections, in a receive call for an answer that cannot come, or in poll
    /// until they can send.
    pub fn threads(&self) -> u32 {
        self.sum(|row| row.threads.unwrap_or(0).saturating_add(row.receiving_threads).saturating_add(row.polling_threads))
    }

    /// Threads that are blocked; an event loop, which is one thread in poll, counts as its connections.
    pub fn blocked(&self) -> u32 {
        let of_row = |row: &WaitingConnections| {
            let calling = row.threads.unwrap_or(0).saturating_add(row.receiving_threads);
            calling.max(if row.polling_threads > 0 { row.connections } else { 0 })
        };
        self.sum(of_row)
    }

    /// What the threads sleep in: `send`, `send and recv`; `connect`, `connect and poll`.
    pub fn calls(&self) -> String {
        let first = if self.wait == ConnectionWait::Connect { "connect" } else { "send" };
        let calls = [
            (first, self.sum(|row| row.threads.unwrap_or(0))),
            ("recv", self.sum(|row| row.receiving_threads)),
            ("poll", self.sum(|row| row.polling_threads)),
        ];
        join_calls(calls)
    }

    /// The most threads of one process that sleep in a send call.
    pub fn most_senders(&self) -> u32 {
        self.rows.iter().filter(|row| row.owner.is_some()).filter_map(|row| row.threads).max().unwrap_or(0)
    }

    /// The same without the groups of processes that have fewer threads in it; `None` if there is no other. Workers of one program
    /// with a connection and a process each (php-fpm) are one group; those of which no answer was seen may wait for work.
    pub fn of_groups_with(mut self, threads: f64, interval: &Interval) -> Option<RemoteEndWait<'a>> {
        let tasks = interval.newer.tasks.as_ref().ok();
        let group = |row: &WaitingConnections| {
            let (id, _) = row.owner.as_ref()?;
            let process = tasks.and_then(|tasks| tasks.process(id.pid)).filter(|process| process.id() == *id);
            Some(process.map_or(GroupId::Process(*id), |process| process.group()))
        };
        self.rows.retain(|row| f64::from(row.receiving_threads) >= threads || row.longest_answer_ms.is_some());
        let mut counts: Vec<(GroupId, u32)> = Vec::new();
        for row in &self.rows {
            let Some(group) = group(row) else { continue };
            match counts.iter_mut().find(|(known, _)| *known == group) {
                Some((_, count)) => *count = count.saturating_add(row.receiving_threads),
                None => counts.push((group, row.receiving_threads)),
            }
        }
        counts.retain(|(_, count)| f64::from(*count) >= threads);
        self.rows.retain(|row| group(row).is_some_and(|group| counts.iter().any(|(known, _)| *known == group)));
        (!self.rows.is_empty()).then_some(self)
    }

    /// Seconds that the longest of the earlier answers took, at most, if one was seen.
    pub fn longest_answer(&self) -> Option<f64> {
        let longest_ms = self.rows.iter().filter_map(|row| row.longest_answer_ms).max()?;
        Some(f64::from(longest_ms) / 1000.0)
    }

    /// `app (4711)`, `app (3 processes), other (77)`; empty without a process.
    pub fn processes(&self) -> String {
        name_processes(self.rows.iter().filter_map(|row| row.owner.as_ref()))
    }

    pub fn connections(&self) -> u32 {
        self.sum(|row| row.connections)
    }

    /// Bytes that are not sent, or not acknowledged.
    pub fn queued_bytes(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(row.queued_bytes))
    }

    /// The most retransmits or window probes in a row.
    pub fn retries(&self) -> u32 {
        self.rows.iter().map(|row| row.retries).max().unwrap_or(0)
    }

    /// How long the first of them has waited.
    pub fn seconds(&self, interval: &Interval) -> f64 {
        let since_ns = self.rows.iter().map(|row| row.since_boottime_ns).min().unwrap_or(u64::MAX);
        interval.at().boottime_ns.saturating_sub(since_ns) as f64 / 1e9
    }

    /// The row with the process at the other end, if that is on this machine.
    pub fn local_receiver(&self) -> Option<&'a WaitingConnections> {
        self.rows.iter().copied().find(|row| row.receiver.is_some())
    }

    /// The subject of a finding about it: the remote host, or the receiver at it.
    pub fn subject(&self) -> Subject {
        let address = match self.port {
            Some(port) => SocketAddr::new(self.remote_host, port).to_string(),
            None => self.remote_host.to_string(),
        };
        Subject::RemoteHost(Name::from(address.as_str()))
    }

    /// Whether both may be one fault: they are about one host, and not about two receivers at it.
    pub fn may_be_one_with(&self, other: &RemoteEndWait) -> bool {
        self.remote_host == other.remote_host && (self.port == other.port || self.port.is_none() || other.port.is_none())
    }

    /// Whether all of them go to sockets with these local addresses, of this host or of containers on it.
    pub fn is_to_any_of(&self, sockets: &[SocketAddr]) -> bool {
        let is_at = |socket: &SocketAddr, port| {
            let is_any = socket.ip().is_unspecified() && self.remote_host.is_loopback();
            socket.port() == port && (socket.ip() == self.remote_host || is_any)
        };
        let has_socket =
            |row: &&WaitingConnections| row.remote_port.is_some_and(|port| sockets.iter().any(|socket| is_at(socket, port)));
        self.rows.iter().all(has_socket)
    }

    /// The wildcard address among these whose port all connections have: whether the host is this one is not known.
    pub fn wildcard_among(&self, sockets: &[SocketAddr]) -> Option<SocketAddr> {
        let port = self.rows.first()?.remote_port.filter(|&port| self.rows.iter().all(|row| row.remote_port == Some(port)))?;
        sockets.iter().copied().find(|socket| socket.ip().is_unspecified() && socket.port() == port)
    }

    /// `10.0.0.5:5432`, or `10.0.0.9, local port 80` for connections that the remote host has opened.
    pub fn address(&self) -> String {
        let common = |port: fn(&WaitingConnections) -> Option<u16>| {
            let first = port(self.rows.first()?)?;
            self.rows.iter().all(|row| port(row) == Some(first)).then_some(first)
        };
        match (common(|row| row.remote_port), common(|row| row.local_port)) {
            (Some(remote), _) => SocketAddr::new(self.remote_host, remote).to_string(),
            (None, Some(local)) => format!("{}, local port {local}", self.remote_host),
            (None, None) => self.remote_host.to_string(),
        }
    }

    /// `8 threads of sender (4711)`, `20 threads of app (3 processes), other (77)`; connections instead of threads if no thread is
    /// in a send or connect call.
    pub fn describe_waiters(&self) -> String {
        let labels = self.processes();
        let of = if labels.is_empty() { String::new() } else { format!(" of {labels}") };
        match self.threads() {
            0 => format!("{}{of}", plural(f64::from(self.connections()), "connection", "connections")),
            threads => format!("{}{of}", plural(f64::from(threads), "thread", "threads")),
        }
    }

    fn sum(&self, of: impl Fn(&WaitingConnections) -> u32) -> u32 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add(of(row)))
    }
}

/// The calls in which threads sleep: `send and poll`; `send` if that is not known.
pub fn join_calls<const N: usize>(calls: [(&'static str, u32); N]) -> String {
    let names: Vec<&str> = calls.into_iter().filter(|(_, threads)| *threads > 0).map(|(name, _)| name).collect();
    if names.is_empty() { "send".to_owned() } else { names.join(" and ") }
}

/// `sender (4711)`, `app (3 processes), other (77)`; empty without a process.
pub fn name_processes<'a>(processes: impl Iterator<Item = &'a (ProcessId, Name)>) -> String {
    let mut names: Vec<(String, u32, u32)> = Vec::new();
    for (process, name) in processes {
        let name = lossy_name(name);
        match names.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, _)) => *count = count.saturating_add(1),
            None => names.push((name, 1, process.pid)),
        }
    }
    let label = |(name, count, pid): &(String, u32, u32)| match count {
        1 => format!("{name} ({pid})"),
        many => format!("{name} ({many} processes)"),
    };
    let labels: Vec<String> = names.iter().take(MAX_NAMED_PROCESSES).map(label).collect();
    labels.join(", ")
}

/// By remote host, reason and port of the receiver, those with most threads first.
pub fn remote_end_waits(interval: &Interval) -> Vec<RemoteEndWait<'_>> {
    let mut list: Vec<RemoteEndWait> = Vec::new();
    for row in interval.newer.protocols.waiting_connections.as_deref().unwrap_or_default() {
        let key = (row.remote_host, row.wait, row.receiver_port());
        match list.iter_mut().find(|known| (known.remote_host, known.wait, known.port) == key) {
            Some(known) => known.rows.push(row),
            None => list.push(RemoteEndWait { remote_host: key.0, wait: key.1, port: key.2, rows: vec![row] }),
        }
    }
    list.small_sort_by_key(|wait| std::cmp::Reverse((wait.threads(), wait.connections())));
    list
}
