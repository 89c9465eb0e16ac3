//! Threads that wait for an answer from a remote host, by inference (`interval::remote_waits`). They are shown beside
//! findings and raise none, since the other host may be slow. Many that wait for seconds are the finding `answer-blocked`. Where the other end
//! is a process of this host that waits for a remote end itself, this is named (`interval::local_servers`).

use crate::findings::formatting::{lossy_name, plural};
use crate::findings::wait_chain::holder::syscall_name;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink, WaitChain};
use crate::findings::wait_chain::reported_threads::MIN_REPORTED_THREADS;
use crate::ids::GroupId;
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::group_label::group_label;
use crate::interval::local_servers::{WaitingServer, served_groups};
use crate::interval::remote_waits::{RemoteQueue, remote_queues};
use crate::units::SmallSort;
use std::net::{IpAddr, SocketAddr};

/// What the inference is based on.
pub const KNOWN_BY: &str = "inference: they opened the connection and sent last";
const UNIX_KNOWN_BY: &str = "the other end of the socket (sock_diag), and inference: it did not open the connection";

/// A group whose threads wait for an answer.
#[derive(Debug)]
pub struct RemoteWait<'a> {
    pub group: &'a GroupId,
    /// Name for a sentence
    pub group_label: String,
    /// Mean number of its threads that wait
    pub threads: f64,
    /// The host and port that most of them wait for
    pub remote: SocketAddr,
    /// All of them wait for it
    is_only_remote: bool,
}

impl RemoteWait<'_> {
    /// `3 wait for an answer from 10.0.0.5:5432: not counted as blocked`
    pub fn describe(&self) -> String {
        let others = if self.is_only_remote { "" } else { " and others" };
        format!("{} for an answer from {}{others}: not counted as blocked", plural(self.threads, "waits", "wait"), self.remote)
    }
}

/// The links behind a wait for a process of this host: what that waits for, up to the remote end. Each says how it is known.
pub fn server_links(interval: &Interval, servers: &[WaitingServer]) -> Vec<ChainLink> {
    let link = |server: &WaitingServer| {
        let what = format!("{} waits for an answer of {}", server_name(interval, server), server.remote);
        ChainLink::new(what, asked_by(interval, &server.thread))
    };
    servers.iter().map(link).collect()
}

/// `pgbouncer (77)`
pub fn server_name(interval: &Interval, server: &WaitingServer) -> String {
    let pid = server.thread.wait.task.pid;
    let process = interval.process(pid).map(|process| lossy_name(&process.comm));
    format!("{} ({pid})", process.unwrap_or_else(|| lossy_name(&server.thread.wait.comm)))
}

/// How it is known that a thread waits for an answer.
pub fn asked_by(interval: &Interval, thread: &BlockedThread) -> &'static str {
    match syscall_name(interval, thread) {
        Some("read" | "readv" | "recvfrom" | "recvmsg") => "inference: it opened the connection and sent last (tcp_info)",
        _ => "inference: of the connections that it opened and watches those on which it sent last go there (tcp_info)",
    }
}

/// Groups whose threads wait in Unix sockets for a process of this host that waits for a remote end: their chains.
pub fn unix_chains(interval: &Interval) -> Vec<(&GroupId, WaitChain)> {
    let mut chains: Vec<(&GroupId, WaitChain)> = Vec::new();
    for served in served_groups(&interval.host, &interval.newer) {
        let threads = served.in_unix_sockets.filter(|&threads| threads >= MIN_REPORTED_THREADS);
        let group = interval.newer.waits.groups.get(usize::from(served.group));
        let (Some(threads), Some(group), Some(first)) = (threads, group, served.servers.first()) else { continue };
        let Some(group_label) = group_name(interval, group) else { continue };
        let what = format!(
            "{} over a socket for an answer of {}: not counted as blocked",
            plural(threads, "waits", "wait"),
            server_name(interval, first)
        );
        let links = std::iter::once(ChainLink::new(what, UNIX_KNOWN_BY)).chain(server_links(interval, &served.servers));
        let chain = WaitChain { group_label, threads, links: links.collect(), confidence: ChainConfidence::Low };
        chains.push((group, chain));
    }
    chains
}

/// The processes of this host for which the threads of a group wait over TCP; none if they wait for another host.
pub fn servers_of(interval: &Interval, waiting: &RemoteWait) -> Vec<WaitingServer> {
    let is_of_group = |group: u16| interval.newer.waits.groups.get(usize::from(group)) == Some(waiting.group);
    let served = served_groups(&interval.host, &interval.newer).into_iter();
    served
        .filter(|served| served.in_unix_sockets.is_none())
        .find(|served| is_of_group(served.group))
        .map_or_else(Vec::new, |served| served.servers)
}

/// All such groups, most threads first.
pub fn remote_waits(interval: &Interval) -> Vec<RemoteWait<'_>> {
    let waits = &interval.newer.waits;
    let queues = remote_queues(waits, &interval.wait_counts).into_iter().filter(|queue| queue.threads >= MIN_REPORTED_THREADS);
    let mut list: Vec<RemoteWait> = queues
        .filter_map(|RemoteQueue { group, threads, remote, is_only_remote }| {
            let group = waits.groups.get(usize::from(group))?;
            Some(RemoteWait { group, group_label: group_name(interval, group)?, threads, remote, is_only_remote })
        })
        .collect();
    list.small_sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// The groups that wait for this host: `app (3 threads)`; `None` if there are none.
pub fn waiting_groups(interval: &Interval, address: IpAddr) -> Option<String> {
    let waiting = remote_waits(interval).into_iter().filter(|waiting| waiting.remote.ip() == address);
    let words: Vec<String> = waiting
        .take(3)
        .map(|waiting| format!("{} ({})", waiting.group_label, plural(waiting.threads, "thread", "threads")))
        .collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn group_name(interval: &Interval, group: &GroupId) -> Option<String> {
    Some(lossy_name(&group_label(group, &interval.older, &interval.newer).name)).filter(|words| !words.is_empty())
}
