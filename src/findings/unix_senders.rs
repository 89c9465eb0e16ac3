//! Threads that wait for a receiver on a Unix socket, or in connect for its server: by socket, which processes, how many threads, how long.

use crate::findings::finding::Subject;
use crate::findings::formatting::{lossy_name, plural};
use crate::findings::remote_end_waits::{join_calls, name_processes};
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::sample::Name;
use crate::sample::network::unix_senders::UnixSenders;
use crate::units::SmallSort;

/// The threads of all processes that wait for one receiver.
pub struct UnixSocketWait<'a> {
    /// Those with most threads first, at least one
    rows: Vec<&'a UnixSenders>,
}

impl<'a> UnixSocketWait<'a> {
    /// Threads in a send or connect call, or in poll until they can send.
    pub fn threads(&self) -> u32 {
        self.sum(|row| row.threads.saturating_add(row.polling_threads))
    }

    /// Threads that are blocked; an event loop, which is one thread in poll, counts as its sockets.
    pub fn blocked(&self) -> u32 {
        self.sum(|row| row.threads.max(if row.polling_threads > 0 { row.sockets } else { 0 }))
    }

    /// What the threads sleep in: `send`, `send and poll`.
    pub fn calls(&self) -> String {
        join_calls([("send", self.sum(|row| row.threads)), ("poll", self.sum(|row| row.polling_threads))])
    }

    pub fn sockets(&self) -> u32 {
        self.sum(|row| row.sockets)
    }

    /// `8 sockets`, `3 datagram sockets`
    pub fn describe_sockets(&self) -> String {
        let (one, many) = if self.are_datagrams() { ("datagram socket", "datagram sockets") } else { ("socket", "sockets") };
        plural(f64::from(self.sockets()), one, many)
    }

    pub fn are_datagrams(&self) -> bool {
        self.rows.iter().all(|row| row.are_datagrams)
    }

    /// Bytes that the receiver has not read; `None` of datagrams, of which only the first one is known.
    pub fn unread_bytes(&self) -> Option<u64> {
        (!self.are_datagrams()).then(|| self.rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.unread_bytes)))
    }

    /// How long the first of them has waited; of datagrams the last one, since each datagram that is read lets one of them proceed.
    pub fn seconds(&self, interval: &Interval) -> f64 {
        let since = self.rows.iter().map(|row| row.since_boottime_ns);
        let since_ns = if self.are_datagrams() { since.max() } else { since.min() }.unwrap_or(u64::MAX);
        interval.at().boottime_ns.saturating_sub(since_ns) as f64 / 1e9
    }

    /// Of threads in connect the connections in the accept queue, and its backlog.
    pub fn accept_queue(&self) -> Option<(u32, u32)> {
        let row = self.rows.first()?;
        Some((row.sockets, row.backlog?))
    }

    /// The process at the other end, if it is known.
    pub fn receiver(&self) -> Option<&'a (ProcessId, Name)> {
        self.rows.first()?.receiver.as_ref()
    }

    /// The path or name of the receiving socket.
    pub fn address(&self) -> Option<&'a Name> {
        self.rows.iter().find_map(|row| row.address.as_ref())
    }

    /// The subject of a finding about it.
    pub fn subject(&self) -> Subject {
        match (self.address(), self.receiver()) {
            (Some(address), _) => Subject::Socket(address.clone()),
            (None, Some((process, name))) => Subject::Task {
                id: TaskId { pid: process.pid, tid: process.pid, start_ticks: process.start_ticks },
                name: name.clone(),
            },
            (None, None) => Subject::Host,
        }
    }

    /// `Unix socket /run/app.sock`
    pub fn place(&self) -> String {
        self.address().map_or_else(|| "Unix socket".to_owned(), |address| format!("Unix socket {}", lossy_name(address)))
    }

    /// `8 threads of sender (4711)`
    pub fn describe_waiters(&self) -> String {
        let threads = plural(f64::from(self.threads()), "thread", "threads");
        format!("{threads} of {}", name_processes(self.rows.iter().map(|row| &row.owner)))
    }

    fn sum(&self, of: impl Fn(&UnixSenders) -> u32) -> u32 {
        self.rows.iter().fold(0_u32, |sum, row| sum.saturating_add(of(row)))
    }

    fn has_receiver_of(&self, row: &UnixSenders) -> bool {
        let identity = |row: &UnixSenders| (row.receiver.as_ref().map(|(process, _)| *process), row.address.clone());
        self.rows.first().is_some_and(|first| identity(first) == identity(row))
    }
}

/// Of senders. By receiver and address, those with most threads first.
pub fn unix_send_waits(interval: &Interval) -> Vec<UnixSocketWait<'_>> {
    waits(interval, |row| row.backlog.is_none())
}

/// Of threads in connect, by listening socket.
pub fn unix_connect_waits(interval: &Interval) -> Vec<UnixSocketWait<'_>> {
    waits(interval, |row| row.backlog.is_some())
}

fn waits(interval: &Interval, is_wanted: impl Fn(&UnixSenders) -> bool) -> Vec<UnixSocketWait<'_>> {
    let mut list: Vec<UnixSocketWait> = Vec::new();
    let rows = interval.newer.protocols.unix_senders.as_deref().unwrap_or_default();
    for row in rows.iter().filter(|row| is_wanted(row)) {
        match list.iter_mut().find(|known| known.has_receiver_of(row)) {
            Some(known) => known.rows.push(row),
            None => list.push(UnixSocketWait { rows: vec![row] }),
        }
    }
    list.small_sort_by_key(|wait| std::cmp::Reverse((wait.threads(), wait.sockets())));
    list
}
