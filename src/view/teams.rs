//! Who makes the box busy or stuck: tasks that belong together, as one row each.

use rustc_hash::FxHashMap;

use super::text::SafeText;
use super::whereabouts;
use crate::ids::{GroupId, TaskId};
use crate::interval::Interval;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::Name;
use crate::state::rows::{Matters, calm};

/// A process, or the sibling processes of one executable, over the interval.
pub struct Team<'a> {
    pub name: &'a Name,
    /// Of the member that did most
    pub pid: u32,
    pub processes: u32,
    pub threads: u32,
    /// In CPUs
    pub cpu: f64,
    /// Threads, on average
    pub run_queue: f64,
    pub disk: f64,
    pub lock: f64,
    /// The waits of some of them are hidden from this user
    pub out_of_sight: bool,
    weight: f64,
    foremost: Option<TaskId>,
    most: f64,
    blocked: Option<&'a BlockedGroup>,
}

/// In threads: what does less is as good as asleep, and would only make the table flicker.
const WORTH_A_ROW: f64 = 0.002;

/// Those that did anything worth a row, the most blocked and running first.
pub fn teams(interval: &Interval) -> Vec<Team<'_>> {
    let (Some(span), Ok(sample)) = (&interval.tasks, &interval.newer.tasks) else { return Vec::new() };
    let blocked: FxHashMap<&GroupId, &BlockedGroup> =
        interval.idle_blocked.iter().flat_map(|idle| &idle.groups).map(|group| (&group.group, group)).collect();
    let matters = Matters::of(interval);
    let mut teams: FxHashMap<GroupId, Team> = FxHashMap::default();
    for row in &span.active_processes {
        let Some(process) = sample.process(row.id.pid) else { continue };
        let used = row.cpu.map_or(0.0, |cpu| cpu.0);
        if row.states.non_sleep().max(used) < 0.0005 {
            continue;
        }
        let weight = matters.weight(process, &row.states, row.cpu, row.run_queue_wait);
        let id = process.group();
        let blocked = blocked.get(&id).copied();
        let team = teams.entry(id).or_insert_with(|| Team {
            name: &process.comm,
            pid: process.pid,
            processes: 0,
            threads: 0,
            cpu: 0.0,
            run_queue: 0.0,
            disk: 0.0,
            lock: 0.0,
            out_of_sight: false,
            weight: 0.0,
            foremost: None,
            most: 0.0,
            blocked,
        });
        team.processes += 1;
        team.threads += row.threads;
        team.cpu += used;
        team.run_queue += row.run_queue_wait.map_or(0.0, |wait| wait.0);
        team.disk += row.states.disk;
        team.lock += row.states.lock;
        team.out_of_sight |= whereabouts::is_out_of_sight(interval, process);
        team.weight += weight;
        if weight > team.most {
            team.most = weight;
            team.pid = process.pid;
            team.foremost = row.top_thread;
        }
    }
    let mut list: Vec<Team> = teams.into_values().filter(|team| team.weight >= WORTH_A_ROW).collect();
    list.sort_unstable_by(|a, b| calm(b.weight).total_cmp(&calm(a.weight)).then(a.pid.cmp(&b.pid)));
    list
}

impl Team<'_> {
    /// What most of it waits for.
    pub fn place(&self, interval: &Interval) -> SafeText {
        let group = self.blocked.filter(|group| group.blocked_threads() >= self.cpu);
        group
            .and_then(|group| whereabouts::of_group(interval, group))
            .or_else(|| self.foremost.map(|task| whereabouts::of_thread(interval, task)))
            .unwrap_or_default()
    }
}
