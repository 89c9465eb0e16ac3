//! Clauses that the sentences of several CPU rules share.

use crate::findings::formatting::{lossy_name, plural, significant_digits};
use crate::findings::rule_context::RuleContext;

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

/// CPUs that a process uses from which a sentence names it. docs/metrics.md, "Fixed thresholds".
const MIN_NAMED_CPUS: f64 = 0.05;

/// `; most: cc1 (4711) 1.20 CPUs, …`
pub fn top_cpu_users(context: &RuleContext) -> String {
    let Some(tasks) = &context.interval.tasks else { return String::new() };
    let mut users: Vec<_> = tasks.active_processes.iter().filter_map(|span| Some((span.cpu?.0, span.id.pid))).collect();
    users.sort_by(|a, b| b.0.total_cmp(&a.0));
    let listed = users.iter().take(3).filter(|(cpus, _)| *cpus >= MIN_NAMED_CPUS).filter_map(|(cpus, pid)| {
        let process = context.process(*pid)?;
        Some(format!("{} ({pid}) {} CPU", lossy_name(&process.comm), significant_digits(*cpus)))
    });
    let listed: Vec<_> = listed.collect();
    if listed.is_empty() { String::new() } else { format!("; most: {}", listed.join(", ")) }
}
