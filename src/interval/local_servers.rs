//! Processes of this host for whose answer threads wait, and which wait themselves for the answer of a remote end: an application server, a
//! proxy, a pool of connections. docs/metrics.md, "Lock holders".

use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::holder_activity::HolderActivity;
use super::owner_peers::{Peer, asked_hosts, owner_peers, server_activity};
use crate::ids::TaskId;
use crate::sample::task::TaskState;
use crate::sample::waits::{OwnerPeer, Waits, class};
use crate::sample::{Host, Name, Sample};
use crate::units::SmallSort;

/// A thread of a process of this host that waits for an answer of this address and port.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingServer {
    pub thread: BlockedThread,
    pub remote: SocketAddr,
}

/// The threads of a group that wait for a process of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedGroup {
    /// Index into `Waits::groups`
    pub group: u16,
    /// Mean number of its threads that wait for data in Unix sockets; `None`: they wait over TCP (`remote_waits`)
    pub in_unix_sockets: Option<f64>,
    /// The process, and each one for which the one before it waits; never empty
    pub servers: Vec<WaitingServer>,
}

/// Processes that are followed from one to the next.
const MAX_SERVERS: usize = 4;

/// One entry a group, sorted by group; only of groups all of whose examined threads wait for one process.
pub fn served_groups(host: &Host, newer: &Sample) -> Vec<ServedGroup> {
    let waits = &newer.waits;
    let is_owner = |task: TaskId| waits.lock_owner_waits().any(|owner| owner.task == task);
    let is_server = |task: TaskId| waits.owner_peers.iter().any(|row| row.peer == task.pid);
    let rows: Vec<&OwnerPeer> = waits.owner_peers.iter().filter(|row| !is_owner(row.owner) && !is_server(row.owner)).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let (peers, hosts) = (owner_peers(host, newer), asked_hosts(waits));
    let mut groups: FxHashMap<u16, Option<ServedGroup>> = FxHashMap::default();
    for row in rows {
        let from = waits.threads.partition_point(|thread| thread.task < row.owner);
        let Some(group) = waits.threads.get(from).filter(|thread| thread.task == row.owner).map(|thread| thread.group) else {
            continue;
        };
        let is_tcp = hosts.contains_key(&row.owner);
        let awaits_answer = hosts.get(&row.owner).map_or(row.may_answer, Option::is_some);
        let servers = peers.get(&row.owner).filter(|_| awaits_answer).map_or_else(Vec::new, |peer| followed(&peers, peer));
        let in_unix_sockets = (!is_tcp).then(|| threads_in_unix_sockets(waits, group));
        let found = (!servers.is_empty()).then_some(ServedGroup { group, in_unix_sockets, servers });
        groups
            .entry(group)
            .and_modify(|known| {
                if known.as_ref().map(ends) != found.as_ref().map(ends) {
                    *known = None;
                }
            })
            .or_insert(found);
    }
    let mut list: Vec<ServedGroup> = groups.into_values().flatten().collect();
    list.small_sort_by_key(|served| served.group);
    list
}

/// A process for whose answer others have waited for this time, if it waits for that of a remote end, and those for which it waits in turn.
pub fn waiting_servers(host: &Host, newer: &Sample, pid: u32, waited_ms: u64) -> Vec<WaitingServer> {
    let Some((thread, HolderActivity::RemoteHost(remote))) = server_activity(host, newer, pid, Some(waited_ms)) else {
        return Vec::new();
    };
    let peers = owner_peers(host, newer);
    let mut servers = vec![WaitingServer { thread, remote }];
    follow(&peers, &mut servers);
    servers
}

fn followed(peers: &FxHashMap<TaskId, Peer>, first: &Peer) -> Vec<WaitingServer> {
    let HolderActivity::RemoteHost(remote) = first.activity else { return Vec::new() };
    let mut servers = vec![WaitingServer { thread: first.thread.clone(), remote }];
    follow(peers, &mut servers);
    servers
}

fn follow(peers: &FxHashMap<TaskId, Peer>, servers: &mut Vec<WaitingServer>) {
    while let Some(next) = servers.last().and_then(|last| peers.get(&last.thread.wait.task)) {
        let HolderActivity::RemoteHost(remote) = next.activity else { return };
        if servers.len() >= MAX_SERVERS || servers.iter().any(|known| known.thread.wait.task.pid == next.thread.wait.task.pid) {
            return;
        }
        servers.push(WaitingServer { thread: next.thread.clone(), remote });
    }
}

/// The first process, and the remote end.
fn ends(served: &ServedGroup) -> (Option<u32>, Option<SocketAddr>) {
    let (first, last) = (served.servers.first(), served.servers.last());
    (first.map(|server| server.thread.wait.task.pid), last.map(|server| server.remote))
}

fn threads_in_unix_sockets(waits: &Waits, group: u16) -> f64 {
    let is_there = |wait: u32| {
        let asleep = waits.observed_wait(wait).filter(|wait| wait.state == TaskState::Sleeping);
        let wchan = asleep.and_then(|wait| wait.wchan.as_ref()).map(Name::as_bytes);
        wchan.is_some_and(class::is_empty_unix_socket)
    };
    let rows = waits.threads.iter().filter(|row| row.group == group && is_there(row.wait));
    rows.map(|row| f64::from(row.seen_count)).sum::<f64>() / waits.sub_samples.len().max(1) as f64
}
