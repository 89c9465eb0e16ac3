//! Connections of clients that wait for servers which a CPU quota throttles. docs/metrics.md, "Throttled servers".

use super::Interval;
use super::group_label::GroupLabel;
use super::server_connections::ServerState;
use super::throttling::throttling;
use crate::ids::{CgroupId, GroupId};
use crate::sample::task::Process;
use crate::sample::{Absent, Reading};
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
        let Some(used_cpus) = spans.process(process).cpu else { continue };
        let state = ServerState::throttled(&interval.wait_counts, process.pid, used_cpus.0, throttling.share);
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

/// The number of connections that wait for those of these servers which the quota of this cgroup throttles; an error if none is known,
/// and what they wait for could not be read of all its processes.
pub fn waiting_connections(interval: &Interval, servers: &[ThrottledServers], cgroup: &CgroupId) -> Reading<u32> {
    let of_cgroup = servers.iter().filter(|server| server.cgroup == cgroup);
    let connections = of_cgroup.map(|server| server.connections).fold(0, u32::saturating_add);
    if connections > 0 {
        return Ok(connections);
    }
    let waits = &interval.newer.waits;
    let tasks = interval.newer.tasks.as_ref().map_err(|why| *why)?;
    let spans = interval.tasks.as_ref().filter(|_| !waits.sub_samples.is_empty()).ok_or(Absent::NotRead)?;
    let is_throttled = |process: &Process| throttling(interval, process).is_some_and(|by| by.cgroup == cgroup);
    for unread in &waits.unread_servers {
        let Some(group) = waits.groups.get(usize::from(unread.group)) else { continue };
        if tasks.processes.iter().any(|process| process.group() == *group && is_throttled(process)) {
            return Err(unread.reason);
        }
    }
    let has_unknown_time = |pid: u32| {
        let process = tasks.process(pid).filter(|process| spans.process(process).cpu.is_none());
        process.is_some_and(|process| is_throttled(process))
    };
    match waits.server_sockets.iter().any(|socket| has_unknown_time(socket.pid)) {
        true => Err(Absent::NotRead),
        false => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ids::{CgroupVersion, TaskId};
    use crate::sample::Sample;
    use crate::sample::cgroup::Cgroup;
    use crate::sample::task::{ProcessFacts, TaskState};
    use crate::sample::waits::{ServerSocket, SubSample, UnreadServer, WaitClass, Waits};
    use crate::synthetic;
    use crate::units::Counter;

    const PID: u32 = 7;

    fn lab() -> CgroupId {
        CgroupId { version: CgroupVersion::V2, path: "/lab".into() }
    }

    /// A server that uses 0.2 CPUs, in a cgroup that is throttled for 0.8 of the time, with one unread connection.
    fn sample(second: u64) -> Sample {
        let run_ns = second * 200_000_000;
        let facts = ProcessFacts { cgroup: Ok(lab()), ..ProcessFacts::default() };
        let thread = synthetic::thread(PID, "server").state(TaskState::Running).ran(run_ns, 0, second);
        let process = synthetic::process(PID, "server").ran(run_ns).facts(facts).threads([thread]).build();
        let group = process.group();
        let task = TaskId { pid: PID, tid: PID, start_ticks: 1 };
        synthetic::sample(second as f64)
            .processes([process])
            .with(|sample| {
                sample.cgroups = Ok(vec![Cgroup {
                    periods: Some(Counter(second * 10)),
                    throttled_periods: Some(Counter(second * 10)),
                    throttled_ns: Some(Counter(second * 800_000_000)),
                    ..Cgroup::new(lab())
                }]);
                sample.waits = Waits {
                    groups: vec![group],
                    observed: synthetic::waits::observed(),
                    sub_samples: vec![SubSample::default(); 10],
                    threads: synthetic::waits::thread(task, 0, &[(WaitClass::Running, 10)]),
                    server_sockets: vec![ServerSocket { pid: PID, unread_bytes: 1, ..ServerSocket::default() }],
                    ..Waits::default()
                };
            })
            .build()
    }

    fn connections(change: impl FnOnce(&mut Sample)) -> Reading<u32> {
        let mut newer = sample(11);
        change(&mut newer);
        let host = Arc::new(synthetic::host());
        let interval = Interval::between(&host, &Arc::new(sample(10)), &Arc::new(newer)).expect("time passed");
        waiting_connections(&interval, &throttled_servers(&interval), &lab())
    }

    #[test]
    fn connections_are_unknown_where_what_they_rest_on_was_not_read() {
        assert_eq!(connections(|_| {}), Ok(1));
        assert_eq!(connections(|sample| sample.waits.server_sockets.clear()), Ok(0));
        assert_eq!(connections(|sample| sample.tasks = Err(Absent::NoPermission)), Err(Absent::NoPermission));
        let none = |sample: &mut Sample| {
            sample.waits.sub_samples.clear();
            sample.waits.threads.clear();
        };
        assert_eq!(connections(none), Err(Absent::NotRead));
    }

    #[test]
    fn unread_sockets_of_a_group_in_the_cgroup_make_zero_unknown() {
        let unread = |group| UnreadServer { group, reason: Absent::NoPermission };
        let without = |sample: &mut Sample, group| {
            sample.waits.server_sockets.clear();
            sample.waits.unread_servers = vec![unread(group)];
        };
        assert_eq!(connections(|sample| without(sample, 0)), Err(Absent::NoPermission));
        assert_eq!(connections(|sample| without(sample, 1)), Ok(0), "of another group");
        assert_eq!(connections(|sample| sample.waits.unread_servers = vec![unread(0)]), Ok(1), "one is known");
    }
}
