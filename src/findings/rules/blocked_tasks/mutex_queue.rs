//! Rule mutex-queue: threads wait for a mutex of their program whose holder sleeps for a fixed time. `interval::mutex_queues` finds
//! them.

use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::plural;
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_text};
use crate::findings::rules::blocked_tasks::idle_but_blocked;
use crate::findings::wait_chain::holder::describe_process_group;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::findings::wait_chain::named_holder::{
    describe_lock_queues, describe_named_holder, holder_confidence, holder_links, lock_words, named_holder_evidence,
};
use crate::findings::wait_chain::queues::{BY_PARK_BLOCKER, BY_PENDING_MONITOR, BY_RW_LOCK_WORDS, BY_WAIT_EVENT};
use crate::interval::Interval;
use crate::interval::lock_holders::{HolderActivity, LockHolder};
use crate::interval::mutex_queues::MutexQueue;
use crate::interval::stuck_servers::StuckCause;
use crate::sample::task::TaskState;
use crate::sample::waits::OwnerField;
use crate::units::reaches_threshold;

pub const MUTEX_QUEUE: Rule = Rule {
    kind: Kind::MutexQueue,
    title: "Queue for a mutex",
    meaning: "Threads of a program wait for a mutex, and the thread that holds it uses no CPU meanwhile: it sleeps for a fixed time \
              (nanosleep, a poll interval, a back-off), waits for an answer of another host or process, or for a child process, or is stopped. One \
              thread at a time proceeds, CPUs and disks are idle, and neither more CPUs nor a faster disk helps.",
    computed: "Threads in a futex call that shows a held mutex, as a mean over the sub-samples. Where the mutex names its owner \
               (glibc, also the writer of a read-write lock; priority inheritance, a lock of Java), or wake-ups show the holder (Rust, as root), or PostgreSQL's wait events say it (WALWrite), that thread is the holder, and what it does is read with it; threads that wait while it runs do not count. Otherwise: several \
               threads at one address; threads that were seen in that queue were also seen asleep for a fixed time, one at a time (0.5 to 1.25 on average, at least two different \
               ones), while at most 0.2 threads of the process ran. That the sleeping thread holds the mutex is inferred from this. Not while \
               a thread of it is on storage (that is idle-but-blocked), nor if connections wait for it (that is stuck-server).",
    caveats: "A program that limits its own rate under a lock works like this by design. An idle pool of Java looks the same if its leader \
              waits for work with a timeout while it owns a monitor that the others wait for.",
    next_steps: &[
        "what sleeps under the lock: gdb -p PID, thread apply all bt",
        "what it does while it holds the lock, for how long, and what it waits for in turn: stalltop trace PID",
    ],
    reference: "Mutex queues",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: mutex_queue,
};

fn mutex_queue(context: &RuleContext) -> Vec<Candidate> {
    let is_reported = |queue: &&MutexQueue| {
        reaches_threshold(queue.threads, context.thresholds.mutex_queue_threads)
            && !is_of_stuck_server(context, queue)
            && !is_idle_but_blocked(context, queue)
    };
    context.interval.locks.mutex_queues.iter().filter(is_reported).map(|queue| candidate(context, queue)).collect()
}

/// Whether connections wait behind the queue: then `stuck-server` says it.
fn is_of_stuck_server(context: &RuleContext, queue: &MutexQueue) -> bool {
    let is_lock = |cause: &StuckCause| matches!(cause, StuckCause::Lock(_));
    context.interval.stuck_servers.iter().any(|server| server.group == queue.group && is_lock(&server.cause))
}

/// Whether idle-but-blocked reports the queue.
fn is_idle_but_blocked(context: &RuleContext, queue: &MutexQueue) -> bool {
    context.interval.idle_blocked.as_ref().is_some_and(|blocked| {
        idle_but_blocked::is_reported(context, blocked)
            && blocked.groups.first().is_some_and(|group| group.group == queue.group)
    })
}

fn candidate(context: &RuleContext, queue: &MutexQueue) -> Candidate {
    let label = describe_process_group(&queue.group, &queue.label);
    let field = queue.named.as_ref().map(|named| named.field);
    let lock = match &queue.named {
        Some(named) if !named.has_one_lock() => "several locks",
        _ => field.map_or("a mutex", lock_words),
    };
    let behind = match &queue.named {
        Some(named) if !named.has_one_lock() => {
            format!("{lock}: {}", describe_lock_queues(context.interval, all_locks(named), MAX_NAMED_LOCKS))
        }
        Some(named) => format!("{lock}, whose holder is {}", describe_named_holder(context.interval, named)),
        None => format!("{lock}, whose holder sleeps for a fixed time"),
    };
    let holder_evidence = match &queue.named {
        Some(named) => named_holder_evidence(context.interval, named),
        None => vec![evidence_text("holder_basis", "inference: threads of the queue sleep one at a time")],
    };
    let proceeds = match &queue.named {
        Some(named) if all_locks(named).all(|holder| holds_it_for_long(context.interval, holder)) => "none of them proceeds",
        Some(named) if !named.has_one_lock() => "at each lock one thread at a time proceeds",
        _ => "one thread at a time proceeds",
    };
    let available = context.interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.available * context.cpu_count());
    let waiting = plural(queue.threads, "thread waits", "threads wait");
    let waits_known_by = match field {
        Some(OwnerField::PostgresLog) => BY_WAIT_EVENT,
        Some(OwnerField::GlibcWriter) => BY_RW_LOCK_WORDS,
        Some(OwnerField::JavaMonitor) => BY_PENDING_MONITOR,
        Some(OwnerField::JavaSynchronizer) => BY_PARK_BLOCKER,
        _ => "the futex call of its threads",
    };
    let waiting = ChainLink::new(format!("{label}: {waiting} for {lock}"), waits_known_by);
    let holder_links = match &queue.named {
        Some(named) => holder_links(context.interval, named),
        None => {
            vec![ChainLink::new("its holder sleeps for a fixed time", "inference: threads of the queue sleep one at a time")]
        }
    };
    Candidate {
        severity: Severity::Warning,
        subject: Subject::Group { id: queue.group.clone(), name: queue.label.name.clone() },
        value: queue.threads,
        threshold: context.thresholds.mutex_queue_threads,
        unit: "threads",
        sentence: format!(
            "{} of {label} wait for {behind}: {proceeds}{}",
            plural(queue.threads, "thread", "threads"),
            idle_clause(context, available),
        ),
        evidence: vec![
            evidence_text("group", queue.label.name.clone()),
            evidence_number("waiting_threads", queue.threads),
            evidence_number("holders_seen", f64::from(queue.holders)),
        ]
        .into_iter()
        .chain(holder_evidence)
        .chain(evidence_lock_chain(std::iter::once(waiting).chain(holder_links), confidence(queue)))
        .collect(),
        explained_share: available.min(queue.threads) / context.cpu_count(),
    }
}

/// That the sleeping thread of a mutex that names no holder holds it is inferred.
fn confidence(queue: &MutexQueue) -> ChainConfidence {
    let of_holders = queue.named.as_ref().and_then(|named| all_locks(named).map(holder_confidence).min());
    of_holders.unwrap_or(ChainConfidence::Medium)
}

/// The holder of the first lock, and those of the others if most threads do not wait for it.
fn all_locks(named: &LockHolder) -> impl Iterator<Item = &LockHolder> + Clone {
    std::iter::once(named).chain(named.other_locks.iter().filter(|_| !named.has_one_lock()))
}

/// Whether the lock had one holder, which is stopped, or has not run for `LONG_HOLD_NS`.
fn holds_it_for_long(interval: &Interval, holder: &LockHolder) -> bool {
    // One that is traced runs between its stops.
    let is_stopped = holder.last_activity() == HolderActivity::Stopped && holder.last_thread().wait.state != TaskState::Traced;
    let sampled = interval.newer.tasks.as_ref().ok().and_then(|tasks| tasks.thread(holder.thread.wait.task));
    let has_slept = sampled.is_some_and(|(_, thread)| {
        // `None`: not since the first sample; a finding takes two.
        let since = thread.last_timeslice_ns.map(|ns| interval.newer.at.boottime_ns.saturating_sub(ns));
        since.is_none_or(|since| since >= LONG_HOLD_NS)
    });
    is_stopped || (holder.holders == 1 && has_slept)
}

/// Locks whose holders the sentence names.
const MAX_NAMED_LOCKS: usize = 2;

/// A holder that has not run for so long lets no thread proceed meanwhile. docs/metrics.md, "Fixed thresholds".
const LONG_HOLD_NS: u64 = 2_000_000_000;

/// `, while 1.97 of 2 CPUs are idle`; empty on a busy host.
fn idle_clause(context: &RuleContext, cpus: f64) -> String {
    match cpus >= MIN_REPORTED_IDLE_CPUS {
        true => format!(", while {} {} idle", context.of_all_cpus(cpus), if cpus < 1.005 { "is" } else { "are" }),
        false => String::new(),
    }
}

/// Idle CPUs from which the sentence says them.
const MIN_REPORTED_IDLE_CPUS: f64 = 0.1;
