//! Finds the connections with a request that has no answer yet, of threads for which others wait: among the sockets of their
//! call, by sock_diag. Of an event loop's many, the last request, if all went to one address and port.
//!
//! Left out are connections that the other end opened (clients), those with data that is not read, and those on which nothing ever comes
//! back (`may_be_requests`). `interval::remote_waits` has the times.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::owner_namespaces::OwnerNamespaces;
use super::remote_waits::{has_few_sockets, socket_waiter, tcp_sockets, tcp_sockets_over};
use crate::ids::TaskId;
use crate::kernel::network::remote_hosts::{Connection, has_sent_last, may_be_requests};
use crate::kernel::network::sleeping_threads::awaited_sockets::awaited_sockets;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::waits::Waits;
use crate::units::SmallSort;

/// Threads examined an interval, and event loops among them: what one watches is a list of all its connections.
const MAX_THREADS: usize = 64;
const MAX_LOOPS: usize = 8;

/// Adds a row for each of these threads (each comes with its row's group) that asked one remote end, unless it has one or may not
/// wait; returns the inodes of their sockets.
pub(super) fn read_asked_connections(
    waits: &mut Waits,
    threads: impl Iterator<Item = (TaskId, u16)>,
    may_wait: impl Fn(&[&(Connection, bool)]) -> bool,
    (root, machine): (&Root, &[u8]),
    files: &mut TaskFiles,
    namespaces: &mut OwnerNamespaces<'_>,
) -> FxHashMap<TaskId, u32> {
    let mut asked = FxHashMap::default();
    if !root.is_host() {
        return asked;
    }
    let mut by_namespace: BTreeMap<Option<u64>, Vec<(TaskId, u16)>> = BTreeMap::new();
    for (task, group) in threads.take(MAX_THREADS) {
        by_namespace.entry(namespaces.of_process(task.pid, files)).or_default().push((task, group));
    }
    let mut loops_left = MAX_LOOPS;
    for (namespace, threads) in by_namespace {
        let Some((first, _)) = threads.first() else { continue };
        if !has_few_sockets(root, &format!("proc/{}/net", first.pid)) {
            continue;
        }
        let mut watching: Vec<(TaskId, u16, Vec<u32>)> = Vec::new();
        for (task, group) in threads {
            // What a loop watches is a long list; a thread that waits in a receive call has one socket.
            if loops_left == 0 {
                break;
            }
            let sockets = awaited_sockets(task, root, files, machine);
            if sockets.len() > 1 {
                loops_left = loops_left.saturating_sub(1);
            }
            watching.push((task, group, sockets));
        }
        let wanted: FxHashSet<u32> = watching.iter().flat_map(|(.., sockets)| sockets).copied().collect();
        if wanted.is_empty() {
            continue;
        }
        let is_wanted = |socket: &Connection| wanted.contains(&socket.inode);
        let found = match namespace {
            None => tcp_sockets(is_wanted),
            Some(inode) => match namespaces.diag_socket(inode) {
                Some(netlink) => tcp_sockets_over(netlink, is_wanted),
                None => continue,
            },
        };
        let Ok(found) = found else { continue };
        for (task, group, sockets) in watching {
            let connections = sockets.iter().filter_map(|inode| found.get(inode));
            let connections: Vec<&(Connection, bool)> = connections.collect();
            if !may_wait(&connections) {
                continue;
            }
            let Some(connection) = last_request(connections.into_iter()) else { continue };
            asked.insert(task, connection.inode);
            if !waits.socket_waiters.iter().any(|known| known.task == task) {
                waits.socket_waiters.push(socket_waiter(task, group, connection, false));
            }
        }
    }
    waits.socket_waiters.small_sort_by_key(|waiter| waiter.task);
    asked
}

/// Whether the owner of a lock that watches these connections may wait for an answer: the leader of a pool, which waits for requests of
/// clients under the lock, does not.
pub(super) fn is_of_lock_owner(connections: &[&(Connection, bool)]) -> bool {
    let serves = |(connection, local_port_listens): &(Connection, bool)| {
        *local_port_listens || connection.is_certainly_opened_by_remote()
    };
    !connections.iter().any(|watched| serves(watched))
}

/// The connection with the last request that is not answered, if all such requests went to one address and port. With each comes whether
/// a socket listens at its local port.
fn last_request<'a>(connections: impl Iterator<Item = &'a (Connection, bool)>) -> Option<&'a Connection> {
    let mut last: Option<&Connection> = None;
    for (connection, local_port_listens) in connections {
        let is_opened_by_remote = *local_port_listens || connection.is_certainly_opened_by_remote();
        if is_opened_by_remote || !has_sent_last(connection) || !may_be_requests(&connection.tcp_info) {
            continue;
        }
        last = match last {
            Some(known) if known.remote() != connection.remote() => return None,
            Some(known) if known.tcp_info.last_data_sent_ms <= connection.tcp_info.last_data_sent_ms => Some(known),
            _ => Some(connection),
        };
    }
    last
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::kernel::network::remote_hosts::{TcpInfo, TcpTimer};

    /// An established connection of an event loop, on which it sent and received so many ms ago, and so many segments with data.
    fn connection(remote: [u8; 4], (sent_ms, received_ms): (u32, u32), (sent, received): (u32, u32)) -> Connection {
        Connection {
            cookie: [0; 8],
            remote_address: IpAddr::from(remote),
            local_address: IpAddr::from([10, 0, 0, 1]),
            ports: (40_000, 5432),
            state: 1,
            timer: TcpTimer::Other,
            timer_ms: None,
            retries: 0,
            unread_bytes: 0,
            queued_bytes: 0,
            inode: sent_ms,
            is_local: false,
            tcp_info: TcpInfo {
                last_data_sent_ms: sent_ms,
                last_data_received_ms: received_ms,
                data_segments_out: Some(sent),
                data_segments_in: Some(received),
                ..TcpInfo::default()
            },
        }
    }

    /// The inode, which is the time since data was last sent, of the one that is kept.
    fn kept(connections: &[Connection]) -> Option<u32> {
        let list: Vec<(Connection, bool)> = connections.iter().cloned().map(|connection| (connection, false)).collect();
        last_request(list.iter()).map(|connection| connection.inode)
    }

    const DATABASE: [u8; 4] = [10, 0, 0, 5];
    const CACHE: [u8; 4] = [10, 0, 0, 6];

    #[test]
    fn of_idle_connections_and_one_request_the_request_is_kept() {
        let idle = || connection(CACHE, (900, 850), (7, 7));
        let asked = connection(DATABASE, (300, 800), (8, 7));
        assert_eq!(kept(&[idle(), asked.clone(), idle()]), Some(300));
        assert_eq!(kept(&[idle(), connection(DATABASE, (300, 200), (8, 8))]), None, "answered");
        assert_eq!(kept(&[connection(DATABASE, (300, 300), (8, 8))]), None, "answered in one clock tick");
        assert_eq!(kept(&[connection(DATABASE, (300, 300), (9, 8))]), Some(300), "answered and asked again in one clock tick");
        assert_eq!(kept(&[connection(DATABASE, (300, 310), (1, 0))]), Some(300), "the first one of a new connection");
        let unread = Connection { unread_bytes: 9, ..asked };
        assert_eq!(kept(&[unread]), None, "its answer is there");
    }

    #[test]
    fn of_several_requests_the_last_one_is_kept_if_they_went_to_one_end() {
        let asked = |remote, sent_ms| connection(remote, (sent_ms, 800), (8, 7));
        assert_eq!(kept(&[asked(DATABASE, 300), asked(DATABASE, 200), asked(DATABASE, 400)]), Some(200));
        assert_eq!(kept(&[asked(DATABASE, 300), asked(CACHE, 200)]), None);
    }

    #[test]
    fn logs_and_clients_are_not_asked() {
        assert_eq!(kept(&[connection(CACHE, (300, 90_000), (500, 1))]), None, "a log has no answers");
        let client = Connection { ports: (8080, 51_000), ..connection(CACHE, (300, 800), (8, 8)) };
        assert_eq!(kept(&[client]), None, "by its ports");
        let accepted = (connection(CACHE, (300, 800), (8, 8)), true);
        let own = (connection(DATABASE, (300, 800), (8, 8)), false);
        assert!(is_of_lock_owner(&[&own, &own]) && !is_of_lock_owner(&[&own, &accepted]), "a leader that serves a client");
        assert!(last_request(std::iter::once(&accepted)).is_none(), "a socket listens at the local port");
    }
}
