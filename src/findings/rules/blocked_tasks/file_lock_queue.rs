//! Rule file-lock-queue: threads wait for the lock of a file that a process holds which neither runs nor is on storage.
//! `interval::file_lock_queues` finds them.

use super::lock_holder::describe_lock_holder;
use super::stuck_server::file_lock;
use crate::findings::finding::{Kind, Severity, Subject};
use crate::findings::formatting::{count, lossy_name, plural, singular_or_plural};
use crate::findings::rule::{Hysteresis, Rule};
use crate::findings::rule_context::{
    Candidate, RuleContext, evidence_lock_chain, evidence_number, evidence_optional, evidence_text,
};
use crate::findings::wait_chain::holder::describe_process_group;
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::findings::wait_chain::stacks::stack_of_process;
use crate::findings::wait_chain::user_stacks::user_stack_of_process;
use crate::interval::file_lock_queues::{FileLockHolderActivity, FileLockQueue};
use crate::interval::stuck_servers::StuckCause;
use crate::sample::Name;
use crate::units::reaches_threshold;

pub const FILE_LOCK_QUEUE: Rule = Rule {
    kind: Kind::FileLockQueue,
    title: "Queue for a file lock",
    meaning: "Threads wait for the lock of a file (flock, fcntl) whose holder neither runs nor is on storage: it sleeps, waits for \
              something else, or is stopped. No thread in the queue proceeds before it releases the lock.",
    computed: "Threads in the kernel's wait for a file lock, by wait channel, as a mean over the sub-samples, and the process that \
               /proc/locks names as holder. Reported from two threads; a warning from three. Not while the holder is on storage (that \
               is idle-but-blocked), runs, or waits for locks itself and has run in the last 2 s, which passes the lock on. If it has not \
               run, no lock is passed on, which is a warning; if it waits for a lock that a process of the queue holds, it is a \
               deadlock, which is critical, and reported from one thread.",
    caveats: "Processes of which only one may be active use such locks, and wait on purpose: two of them are a note. The kernel does \
              not name the holder of a lock of an open file description (OFD), nor one in another pid namespace.",
    next_steps: &["what the holder waits for: screen 5, Enter; /proc/PID/stack", "all locks and their holders: lslocks"],
    reference: "File lock queues",
    hysteresis: Hysteresis::TwoOfThree,
    evaluate: file_lock_queue,
};

fn file_lock_queue(context: &RuleContext) -> Vec<Candidate> {
    let is_reported = |queue: &&FileLockQueue| match queue.activity {
        FileLockHolderActivity::InStandingQueue if is_deadlock(context, queue) => is_first_of_deadlock(context, queue),
        FileLockHolderActivity::Asleep | FileLockHolderActivity::InStandingQueue => {
            reaches_threshold(queue.queue.threads, context.thresholds.file_lock_threads) && !is_of_stuck_server(context, queue)
        }
        _ => false,
    };
    context.interval.locks.file_lock_queues.iter().filter(is_reported).map(|queue| candidate(context, queue)).collect()
}

/// Whether the holder waits for a lock that a process of the queue holds.
fn is_deadlock(context: &RuleContext, found: &FileLockQueue) -> bool {
    let is_standing =
        |pid: u32, queue: &FileLockQueue| queue.holder == pid && queue.activity == FileLockHolderActivity::InStandingQueue;
    let Some(next) = found.next.as_ref().map(|&(_, holder)| holder) else { return false };
    // A holder of the same group that waits for no lock itself lets the others proceed in the end.
    is_standing(found.holder, found)
        && context.process(next).is_some_and(|holder| holder.group() == found.group)
        && context.interval.locks.file_lock_queues.iter().any(|queue| is_standing(next, queue))
}

/// A deadlock is a queue of each of its groups, and one finding.
fn is_first_of_deadlock(context: &RuleContext, found: &FileLockQueue) -> bool {
    context.process(found.holder).is_none_or(|holder| found.group <= holder.group())
}

/// Whether connections wait behind the queue: then `stuck-server` says it.
fn is_of_stuck_server(context: &RuleContext, queue: &FileLockQueue) -> bool {
    let is_same = |cause: &StuckCause| matches!(cause, StuckCause::Lock(_));
    context.interval.stuck_servers.iter().any(|server| server.group == queue.group && is_same(&server.cause))
}

fn candidate(context: &RuleContext, found: &FileLockQueue) -> Candidate {
    let threads = plural(found.queue.threads, "thread", "threads");
    let waits = singular_or_plural(count(found.queue.threads), "waits", "wait");
    let label = describe_process_group(&found.group, &found.label);
    let holder = describe_holder(context, found);
    let lock = file_lock(&found.queue);
    let deadlock = is_deadlock(context, found);
    let is_standing = found.activity == FileLockHolderActivity::InStandingQueue;
    let available = context.interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.available * context.cpu_count());
    Candidate {
        severity: match is_standing || reaches_threshold(found.queue.threads, context.thresholds.file_lock_warning_threads) {
            _ if deadlock => Severity::Critical,
            true => Severity::Warning,
            false => Severity::Note,
        },
        subject: Subject::Group { id: found.group.clone(), name: found.label.name.clone() },
        value: found.queue.threads,
        threshold: context.thresholds.file_lock_threads,
        unit: "threads",
        sentence: match deadlock {
            true => format!("deadlock: {threads} of {label} {waits} for {lock}, held by {holder}"),
            false => format!("{threads} of {label} {waits} for {lock}, held by {holder}"),
        },
        evidence: vec![
            evidence_text("group", found.label.name.clone()),
            evidence_number("waiting_threads", found.queue.threads),
            found.queue.file.as_ref().map_or(evidence_optional("file", None), |file| evidence_text("file", file.clone())),
            evidence_number("holder_pid", f64::from(found.holder)),
            context
                .process(found.holder)
                .map_or(evidence_optional("holder", None), |process| evidence_text("holder", process.comm.clone())),
        ]
        .into_iter()
        .chain(evidence_lock_chain(
            [ChainLink::new(format!("{label}: {threads} {waits}"), "the wait channel"), ChainLink::new(lock, "/proc/locks")]
                .into_iter()
                .chain(holder_links(context, found)),
            ChainConfidence::High,
        ))
        .chain(stack_of_process(context.interval, found.holder).map(|stack| evidence_text("holder_stack", stack.as_str())))
        .chain(
            user_stack_of_process(context.interval, found.holder)
                .map(|stack| evidence_text("holder_user_stack", stack.as_str())),
        )
        .collect(),
        explained_share: available.min(found.queue.threads) / context.cpu_count(),
    }
}

/// The holder, and what it does: of one in a queue for another lock, which one.
fn describe_holder(context: &RuleContext, found: &FileLockQueue) -> String {
    if found.activity != FileLockHolderActivity::InStandingQueue {
        return describe_lock_holder(context, found.holder);
    }
    let holder = describe_process(context, found.holder);
    match &found.next {
        Some((file, next)) => {
            format!("{holder}, which waits for {}, held by {}", other_lock(file.as_ref()), describe_process(context, *next))
        }
        None => format!("{holder}, which waits for the lock of a file itself: none of them proceeds, as in a deadlock"),
    }
}

/// Each lock and each holder is a link.
fn holder_links(context: &RuleContext, found: &FileLockQueue) -> Vec<ChainLink> {
    let link = |what: String| ChainLink::new(what, "/proc/locks");
    match &found.next {
        Some((file, next)) if found.activity == FileLockHolderActivity::InStandingQueue => {
            let holder = describe_process(context, found.holder);
            vec![
                link(format!("held by {holder}, which waits for {}", other_lock(file.as_ref()))),
                link(format!("held by {}", describe_process(context, *next))),
            ]
        }
        _ => vec![link(format!("held by {}", describe_holder(context, found)))],
    }
}

fn other_lock(file: Option<&Name>) -> String {
    file.map_or_else(|| "the lock of a file".into(), |file| format!("the lock of {}", lossy_name(file)))
}

fn describe_process(context: &RuleContext, pid: u32) -> String {
    match context.process(pid) {
        Some(process) => format!("{} ({pid})", lossy_name(&process.comm)),
        None => format!("process {pid}"),
    }
}
