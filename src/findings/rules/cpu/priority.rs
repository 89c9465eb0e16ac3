//! The scheduling priority of threads: work that is meant to wait for other work, and real-time threads, which all normal threads
//! wait for.

pub use crate::findings::low_priority::is_low_priority;
use crate::findings::rules::cpu::clauses::BACKGROUND_CLAUSE;
use crate::interval::task::ThreadSpan;
use crate::sample::task::{SCHED_BATCH, SCHED_DEADLINE, SCHED_FIFO, SCHED_OTHER, SCHED_RR};

/// Its nice value, if its policy has one.
pub fn nice_value(thread: &ThreadSpan) -> Option<i8> {
    thread
        .scheduling
        .filter(|scheduling| matches!(scheduling.policy, SCHED_OTHER | SCHED_BATCH))
        .map(|scheduling| scheduling.nice)
}

/// The policy of a thread that runs before all threads of normal policies.
pub fn realtime_policy(thread: &ThreadSpan) -> Option<&'static str> {
    match thread.scheduling?.policy {
        SCHED_FIFO => Some("SCHED_FIFO"),
        SCHED_RR => Some("SCHED_RR"),
        SCHED_DEADLINE => Some("SCHED_DEADLINE"),
        _ => None,
    }
}

/// `; it runs at low priority (nice 12)`; empty for other threads.
pub fn priority_clause(thread: &ThreadSpan) -> String {
    match thread.scheduling.map(|scheduling| (scheduling.policy, scheduling.nice)) {
        _ if thread.background => BACKGROUND_CLAUSE.into(),
        Some((SCHED_BATCH, _)) if is_low_priority(thread) => "; it runs at low priority (SCHED_BATCH)".into(),
        Some((_, nice)) if is_low_priority(thread) => format!("; it runs at low priority (nice {nice})"),
        _ => String::new(),
    }
}
