//! Connections of clients that wait for servers which a CPU quota throttles. docs/metrics.md, "Throttled servers".

use super::Interval;
use super::idle_blocked::GroupLabel;
use super::server_connections::ServerState;
use super::throttling::throttling;
use crate::ids::{CgroupId, GroupId};
use crate::units::SmallSort;

/// Processes of one group that the quota of a cgroup throttles, and the connections that wait for them.
#[derive(Clone, Debug, PartialEq)]
pub struct ThrottledServers<'a> {
    /// The cgroup with the quota
    pub cgroup: &'a CgroupId,
    pub group: GroupId,
    /// Name of the first process, their number, and the pid if it is one
    pub label: GroupLabel,
    /// Connections with unread or unanswered requests, and connections that are not accepted, at the sample; at least one
    pub connections: u32,
}

/// The throttled servers of an interval for which connections wait, those with most connections first.
pub fn throttled_servers(interval: &Interval) -> Vec<ThrottledServers<'_>> {
    let (Ok(tasks), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return Vec::new() };
    let mut found: Vec<ThrottledServers> = Vec::new();
    // They are sorted by group and process.
    for sockets in interval.newer.waits.server_sockets.chunk_by(|a, b| (a.group, a.pid) == (b.group, b.pid)) {
        let Some(process) = sockets.first().and_then(|socket| tasks.process(socket.pid)) else { continue };
        let Some(throttling) = throttling(interval, process) else { continue };
        let used_cpus = spans.process(process).cpu.map_or(0.0, |cpu| cpu.0);
        let state = ServerState::throttled(&interval.wait_counts, process.pid, used_cpus);
        let connections = sockets.iter().map(|socket| state.waiting_connections(socket)).fold(0, u32::saturating_add);
        if connections == 0 {
            continue;
        }
        let group = process.group();
        match found.iter_mut().find(|known| known.group == group && known.cgroup == throttling.cgroup) {
            Some(known) => {
                known.connections = known.connections.saturating_add(connections);
                known.label.processes = known.label.processes.saturating_add(1);
                known.label.pid = None;
            }
            None => {
                let label = GroupLabel { name: process.comm.clone(), processes: 1, pid: Some(process.pid) };
                found.push(ThrottledServers { cgroup: throttling.cgroup, group, label, connections });
            }
        }
    }
    found.small_sort_by(|a, b| b.connections.cmp(&a.connections).then_with(|| a.group.cmp(&b.group)));
    found
}
