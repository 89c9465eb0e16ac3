//! Clauses that the sentences of several CPU rules share.

use rustc_hash::FxHashMap;

use crate::findings::formatting::{cpu_time, lossy_name, plural};
use crate::findings::rule_context::RuleContext;
use crate::ids::GroupId;
use crate::sample::Name;
use crate::units::SmallSort;

/// For a thread at background priority.
pub const BACKGROUND_CLAUSE: &str = "; it runs at background priority (SCHED_IDLE or nice 19)";

/// CPUs, or threads, that are reported one by one: a machine may have a hundred busy-polling threads.
pub const MAX_REPORTED: usize = 8;

/// The number of items beyond `MAX_REPORTED`; empty if there are none.
pub fn unlisted_clause(all: usize, one: &str, many: &str) -> String {
    match all.saturating_sub(MAX_REPORTED) {
        0 => String::new(),
        more => format!("; {} like it", plural(more as f64, one, many)),
    }
}

/// Process groups that a sentence names.
const MAX_NAMED_GROUPS: usize = 3;

/// CPUs that a process group uses from which a sentence names it. docs/metrics.md, "Fixed thresholds".
const MIN_NAMED_CPUS: f64 = 0.05;

/// `; most CPU time: cc1 (12 processes) 1.20 CPUs`; empty without users.
pub fn cpu_users_clause(users: &str) -> String {
    if users.is_empty() { String::new() } else { format!("; most CPU time: {users}") }
}

/// `cc1 (12 processes) 1.20 CPUs, spin (4711) 0.50 CPU`; empty without one that uses a significant part.
pub fn list_top_cpu_users(context: &RuleContext) -> String {
    let (Some(spans), Ok(sample)) = (&context.interval.tasks, &context.interval.newer.tasks) else { return String::new() };
    let mut groups: FxHashMap<GroupId, GroupUse> = FxHashMap::default();
    for (span, used) in spans.active_processes.iter().filter_map(|span| Some((span, span.cpu?.0))) {
        let Some(process) = context.process(span.id.pid) else { continue };
        let group = groups.entry(process.group()).or_default();
        group.cpus += used;
        // The process that uses most names its group.
        if used >= group.most {
            (group.most, group.pid, group.name) = (used, process.pid, process.comm.clone());
        }
    }
    let mut names: FxHashMap<Name, Vec<(GroupId, GroupUse)>> = FxHashMap::default();
    for (id, group) in groups {
        names.entry(group.name.clone()).or_default().push((id, group));
    }
    let cpus = |groups: &[(GroupId, GroupUse)]| groups.iter().map(|(_, group)| group.cpus).sum::<f64>();
    let mut names: Vec<_> = names.into_iter().map(|(name, groups)| (cpus(&groups), name, groups)).collect();
    names.retain(|&(cpus, ..)| cpus >= MIN_NAMED_CPUS);
    names.small_sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut users: Vec<GroupUse> = Vec::new();
    // Members are counted of these alone: that takes a search through all processes for each group.
    for (.., groups) in names.into_iter().take(MAX_NAMED_GROUPS) {
        let count = |(id, group): (GroupId, GroupUse)| GroupUse { processes: sample.members(&id).count().max(1), ..group };
        users.extend(sum_unless_few(groups.into_iter().map(count).collect()));
    }
    users.small_sort_by(|a, b| b.cpus.total_cmp(&a.cpus).then(a.pid.cmp(&b.pid)));
    let listed = users.iter().take(MAX_NAMED_GROUPS).map(|group| {
        let members = match group.processes {
            1 => group.pid.to_string(),
            many => format!("{many} processes"),
        };
        // Each process has its own times of reading, so that their sum may exceed what there is.
        format!("{} ({members}) {}", lossy_name(&group.name), cpu_time(group.cpus.min(context.cpu_count())))
    });
    listed.collect::<Vec<_>>().join(", ")
}

/// The sum of groups of one name, unless each is one process that is named, and all of them can be.
fn sum_unless_few(groups: Vec<GroupUse>) -> Vec<GroupUse> {
    if groups.len() <= MAX_NAMED_GROUPS && groups.iter().all(|group| group.processes == 1 && group.cpus >= MIN_NAMED_CPUS) {
        return groups;
    }
    let sum = |sum: GroupUse, group: GroupUse| GroupUse {
        cpus: sum.cpus + group.cpus,
        processes: sum.processes + group.processes,
        ..sum
    };
    groups.into_iter().reduce(sum).into_iter().collect()
}

/// CPU use of a process group.
#[derive(Default)]
struct GroupUse {
    cpus: f64,
    /// CPUs that its busiest process uses
    most: f64,
    pid: u32,
    name: Name,
    processes: usize,
}
