//! The most active process groups of an interval. A group is a process, or sibling processes of one executable.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::{GroupId, TaskId};
use crate::interval::Interval;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::task_activity::{TaskActivity, floor_to_hundredth};
use crate::sample::Name;
use crate::sample::task::{TaskState, Tasks};

/// A process, or the sibling processes of one executable, in an interval.
pub struct ProcessGroup<'a> {
    pub id: GroupId,
    pub name: &'a Name,
    /// Pid of the most active process
    pub pid: u32,
    /// All processes and threads, as in the wait chain, also those that were not active
    pub processes: u32,
    pub threads: u32,
    /// CPUs used
    pub cpu: f64,
    /// Average number of threads in a run queue, on disk, in lock waits
    pub run_queue: f64,
    pub disk: f64,
    pub lock: f64,
    /// Whether some of the waits are hidden from this user
    pub waits_hidden: bool,
    weight: f64,
    pub busiest_thread: Option<TaskId>,
    max_weight: f64,
    /// The same group in `IdleBlocked::groups`
    pub blocked: Option<&'a BlockedGroup>,
}

/// Minimum average number of active threads of a row; rows below it would come and go each second.
const MIN_WEIGHT: f64 = 0.002;

/// Processes with fewer active threads are skipped, and smaller parts of their time are not listed.
pub const MIN_PROCESS_ACTIVITY: f64 = 0.0005;

/// The active groups, most active first.
pub fn process_groups(interval: &Interval) -> Vec<ProcessGroup<'_>> {
    let blocked: FxHashMap<&GroupId, &BlockedGroup> =
        interval.idle_blocked.iter().flat_map(|idle| &idle.groups).map(|group| (&group.group, group)).collect();
    let activity = TaskActivity::new(interval);
    let mut groups: FxHashMap<GroupId, ProcessGroup> = FxHashMap::default();
    for (process, row) in interval.active_processes() {
        let used = row.cpu.map_or(0.0, |cpu| cpu.0);
        if row.states.non_sleep().max(used) < MIN_PROCESS_ACTIVITY {
            continue;
        }
        let weight = activity.weight(process, &row.states, row.cpu, row.run_queue_wait);
        let id = process.group();
        let blocked = blocked.get(&id).copied();
        let group = groups.entry(id.clone()).or_insert_with(|| ProcessGroup {
            id,
            name: &process.comm,
            pid: process.pid,
            processes: 0,
            threads: 0,
            cpu: 0.0,
            run_queue: 0.0,
            disk: 0.0,
            lock: 0.0,
            waits_hidden: false,
            weight: 0.0,
            busiest_thread: None,
            max_weight: 0.0,
            blocked,
        });
        group.processes += 1;
        group.threads += row.threads;
        group.cpu += used;
        group.run_queue += row.run_queue_wait.map_or(0.0, |wait| wait.0);
        group.disk += row.states.disk;
        group.lock += row.states.lock;
        group.waits_hidden |= !interval.host.privilege.can_inspect_tasks_of(process.uid);
        group.weight += weight;
        if weight > group.max_weight {
            group.max_weight = weight;
            group.pid = process.pid;
            group.busiest_thread = row.top_thread;
        }
    }
    // The readings of its processes do not span exactly the same time.
    let online = interval.online_cpus() as f64;
    for group in groups.values_mut().filter(|_| online > 0.0) {
        group.cpu = group.cpu.min(online);
    }
    let mut list: Vec<ProcessGroup> = groups.into_values().filter(|group| group.weight >= MIN_WEIGHT).collect();
    if let Ok(tasks) = &interval.newer.tasks {
        count_siblings(tasks, &mut list);
    }
    list.sort_unstable_by(|a, b| floor_to_hundredth(b.weight).total_cmp(&floor_to_hundredth(a.weight)).then(a.pid.cmp(&b.pid)));
    list
}

/// Counts the processes and threads of the groups of siblings, also those that were not active.
fn count_siblings(tasks: &Tasks, groups: &mut [ProcessGroup]) {
    let parents: FxHashSet<u32> = groups.iter().filter_map(|group| group.id.parent()).collect();
    let mut counts: FxHashMap<GroupId, (u32, u32)> = FxHashMap::default();
    for process in tasks.processes.iter().filter(|process| parents.contains(&process.ppid)) {
        let (processes, threads) = counts.entry(process.group()).or_default();
        *processes += 1;
        let alive = process.threads.iter().filter(|thread| thread.state != TaskState::Dead).count();
        *threads += u32::try_from(alive).unwrap_or(u32::MAX);
    }
    for group in groups {
        if let Some(&(processes, threads)) = counts.get(&group.id) {
            (group.processes, group.threads) = (processes, threads);
        }
    }
}
