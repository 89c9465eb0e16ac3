//! The connections on which threads for which others wait have sent a request, and have no answer yet: of the sockets of which they sleep
//! until one can be read, by sock_diag. A thread in an event loop watches many: kept is the last request if all of them went to one
//! address and port.
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

/// Adds a row for each of these threads that has asked one remote end, unless it has one, and returns the inodes of their sockets. With each
/// thread comes the group of its row.
pub(super) fn read_asked_connections(
    waits: &mut Waits,
    threads: impl Iterator<Item = (TaskId, u16)>,
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
            let sockets = awaited_sockets(task, root, files, machine);
            if sockets.len() > 1 {
                let Some(left) = loops_left.checked_sub(1) else { continue };
                loops_left = left;
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
            let Some(connection) = last_request(connections) else { continue };
            asked.insert(task, connection.inode);
            if !waits.socket_waiters.iter().any(|known| known.task == task) {
                waits.socket_waiters.push(socket_waiter(task, group, connection, false));
            }
        }
    }
    waits.socket_waiters.small_sort_by_key(|waiter| waiter.task);
    asked
}

/// The connection with the last request that is not answered, if all such requests went to one address and port. With each comes whether
/// a socket listens at its local port.
fn last_request<'a>(connections: impl Iterator<Item = &'a (Connection, bool)>) -> Option<&'a Connection> {
    let mut last: Option<&Connection> = None;
    for (connection, local_port_listens) in connections {
        if *local_port_listens || !has_sent_last(connection) || !may_be_requests(&connection.tcp_info) {
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
