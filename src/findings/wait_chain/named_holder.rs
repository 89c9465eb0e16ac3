//! The holder of a lock that the lock itself names (`interval::lock_holders`), as words.

use std::borrow::Cow;
use std::sync::Arc;

use crate::findings::finding::Evidence;
use crate::findings::formatting::{duration, lossy_name};
use crate::findings::rule_context::{evidence_number, evidence_text};
use crate::findings::wait_chain::holder::{describe_halt, syscall_name, wait_location};
use crate::findings::wait_chain::link::ChainLink;
use crate::findings::wait_chain::stacks;
use crate::findings::wait_chain::user_stacks::user_stack_of;
use crate::interval::Interval;
use crate::interval::blocked_threads::{BlockedThread, LONG_WAIT_NS};
use crate::interval::lock_holders::{ChainedHolder, HolderActivity, LockHolder};
use crate::interval::runnable::RunnableThread;
use crate::interval::stuck_servers::Halt;
use crate::interval::throttling::Throttling;
use crate::sample::task::Process;
use crate::sample::waits::OwnerField;

/// How the holder is known.
pub fn known_by(field: OwnerField) -> &'static str {
    match field {
        OwnerField::GlibcMutex => "the owner field of the mutex (glibc)",
        OwnerField::FutexWord => "the futex word, which names the owner",
        OwnerField::Waker(_) => "the wake-ups: a thread that is woken there takes the lock, and wakes the next one (eBPF)",
        OwnerField::KernelMutex => "the owner field of the kernel's mutex",
        OwnerField::KernelSemaphore => "the field of the kernel's semaphore that names its last holder",
        OwnerField::KernelWriter => "the owner field of the kernel's rw-semaphore",
        OwnerField::KernelReader => {
            "the owner field of the kernel's rw-semaphore: its last reader, which may not be the only one"
        }
    }
}

/// A link for each lock of the chain: the first one is held by `holder`. Each says how its holder is known.
pub fn holder_links(interval: &Interval, holder: &LockHolder) -> Vec<ChainLink> {
    let Some((last, before)) = holder.chain.split_last() else {
        let what = format!("held by {}", describe_named_holder(interval, holder));
        return vec![ChainLink { what, known_by: known_by_checks(holder.field) }];
    };
    let mut links = vec![ChainLink {
        what: format!("held by {}, which waits for another lock", describe_holders(interval, holder)),
        known_by: known_by_checks(holder.field),
    }];
    links.extend(before.iter().map(|next| ChainLink {
        what: format!("that lock is held by {}, which waits for another lock", holder_name(interval, &next.thread)),
        known_by: known_by_checks(next.field),
    }));
    let does = activity_words(interval, &last.thread, last.activity);
    links.push(ChainLink {
        what: format!("that lock is held by {}, which {does}", holder_name(interval, &last.thread)),
        known_by: known_by_checks(last.field),
    });
    links
}

/// Whether any of the holders is inferred: a hint, or by wake-ups; or whether what the last one waits for is.
pub fn is_inferred(holder: &LockHolder) -> bool {
    let fields = std::iter::once(holder.field).chain(holder.chain.iter().map(|next| next.field));
    let is_inferred = |field: OwnerField| field.is_hint() || matches!(field, OwnerField::Waker(_));
    fields.into_iter().any(is_inferred) || matches!(holder.last_activity(), HolderActivity::RemoteHost(_))
}

/// `known_by`; with wake-ups how many of the checks confirmed it.
fn known_by_checks(field: OwnerField) -> Cow<'static, str> {
    match field {
        OwnerField::Waker(checks) => {
            format!("{}, confirmed by {} of {} checks", known_by(field), checks.confirmed, checks.made).into()
        }
        _ => known_by(field).into(),
    }
}

/// For how many wake-ups it was checked that the thread taken for the holder wakes the next one, and for how many it was so; nothing
/// where the lock names its owner.
pub fn waker_evidence(field: OwnerField) -> Vec<Evidence> {
    match field {
        OwnerField::Waker(checks) => vec![
            evidence_number("holder_checks", f64::from(checks.made)),
            evidence_number("holder_checks_confirmed", f64::from(checks.confirmed)),
        ],
        _ => Vec::new(),
    }
}

/// How the holder is known, and the stacks of the thread that it waits for in the end, or its own.
pub fn named_holder_evidence(interval: &Interval, holder: &LockHolder) -> Vec<Evidence> {
    let thread = holder.last_thread();
    let stack = stacks::stack_of(interval, thread).map(|stack| evidence_text("holder_stack", stack.as_str()));
    let user_stack = user_stack_of(interval, thread).map(|stack| evidence_text("holder_user_stack", stack.as_str()));
    let basis = evidence_text("holder_basis", known_by(holder.field));
    std::iter::once(basis).chain(waker_evidence(holder.field)).chain(stack).chain(user_stack).collect()
}

/// `worker/4650, which sleeps for a fixed time (clock_nanosleep)`, `worker/4650 (one of 9 in turn), which computes`
pub fn describe_named_holder(interval: &Interval, holder: &LockHolder) -> String {
    let does = match holder.chain.last() {
        Some(ChainedHolder { thread, activity, .. }) => {
            let end_does = activity_words(interval, thread, *activity);
            format!("waits for a lock that {} holds, which {end_does}", holder_name(interval, thread))
        }
        None if holder.field.is_of_kernel() && holder.activity == HolderActivity::Running => {
            runnable_words(interval, &holder.thread, "runs with the lock held")
        }
        None => activity_words(interval, &holder.thread, holder.activity),
    };
    format!("{}, which {does}", describe_holders(interval, holder))
}

/// `worker/4650 (one of 9 in turn)`
fn describe_holders(interval: &Interval, holder: &LockHolder) -> String {
    let turns = if holder.holders > 1 { format!(" (one of {} in turn)", holder.holders) } else { String::new() };
    let kind = if holder.field == OwnerField::KernelReader { "a reader of the lock, " } else { "" };
    format!("{kind}{}{turns}", holder_name(interval, &holder.thread))
}

/// `worker/4650`, `kernel thread kworker/0:1/50`
fn holder_name(interval: &Interval, thread: &BlockedThread) -> String {
    let is_of_kernel = interval.process(thread.task.pid).is_some_and(|process| process.kernel_thread);
    format!("{}{}", if is_of_kernel { "kernel thread " } else { "" }, thread_name(thread))
}

/// `worker/4650`
pub fn thread_name(thread: &BlockedThread) -> String {
    format!("{}/{}", lossy_name(&thread.comm), thread.task.tid)
}

fn activity_words(interval: &Interval, thread: &BlockedThread, activity: HolderActivity) -> String {
    let call = || syscall_name(interval, thread).map_or_else(String::new, |call| format!(" ({call})"));
    let since = || waiting_seconds(interval, thread).map_or_else(String::new, |seconds| format!(" for {}", duration(seconds)));
    match activity {
        HolderActivity::Storage | HolderActivity::Uninterruptible => {
            format!("is {}{}", wait_location(interval, thread), since())
        }
        HolderActivity::Memory => "is in memory reclaim".into(),
        HolderActivity::Timer => format!("sleeps for a fixed time{}{}", call(), since()),
        HolderActivity::RemoteHost(remote) => format!("waits for an answer of {remote}{}{}", call(), since()),
        HolderActivity::Child => format!("waits for a child process{}{}", call(), since()),
        HolderActivity::FullPipe => {
            let readers = pipe_readers(interval, thread.task.pid);
            let by = if readers.is_empty() { String::new() } else { format!(" that {readers}") };
            format!("waits for room in a pipe{by}{}", since())
        }
        HolderActivity::FullSocket => format!("waits until the other end of a socket reads{}{}", call(), since()),
        HolderActivity::Lock => format!("waits for another lock{}", since()),
        HolderActivity::Deadlock => "is in a deadlock".into(),
        HolderActivity::Stopped => format!("is stopped{}", since()),
        HolderActivity::Running => runnable_words(interval, thread, "computes while it holds the lock"),
        HolderActivity::Event => format!("waits for an event{}{}", call(), since()),
    }
}

/// What a runnable holder does: `computes while it holds the lock`, `waits for a CPU with the lock held`
fn runnable_words(interval: &Interval, thread: &BlockedThread, runs: &str) -> String {
    match RunnableThread::new(interval, thread.task) {
        RunnableThread::Runs => runs.to_owned(),
        RunnableThread::WaitsForCpu => "waits for a CPU with the lock held".to_owned(),
        RunnableThread::Throttled(Throttling { quota_cpus: Some(quota), .. }) => {
            format!("is throttled by its CPU quota of {quota:.2} with the lock held")
        }
        RunnableThread::Throttled(_) => "is throttled by its CPU quota with the lock held".to_owned(),
    }
}

/// `gzip (4711) reads`, `gzip (4711) reads, which is stopped (SIGSTOP)`; empty if the reader of a process's full pipe is not known.
fn pipe_readers(interval: &Interval, writer: u32) -> String {
    let links = interval.newer.waits.pipe_links.iter().filter(|link| link.writer == writer);
    let reader = |pid: u32| interval.process(pid);
    let mut known: Vec<&Arc<Process>> = links.filter_map(|link| reader(link.reader)).collect();
    known.dedup_by_key(|process| process.pid);
    // With several readers it is not known which of them should read.
    let [process] = known.as_slice() else { return String::new() };
    let halt = Halt::of_process(process).map_or_else(String::new, |halt| format!(", which is {}", describe_halt(halt)));
    format!("{} ({}) reads{halt}", lossy_name(&process.comm), process.pid)
}

/// Seconds since the thread last had a CPU, from one second on.
fn waiting_seconds(interval: &Interval, thread: &BlockedThread) -> Option<f64> {
    let now = interval.newer.tasks.as_ref().ok()?.thread(thread.task)?.1;
    let length_ns = interval.at().boottime_ns.saturating_sub(now.last_timeslice_ns?);
    (length_ns >= LONG_WAIT_NS).then_some(length_ns as f64 / 1e9)
}
