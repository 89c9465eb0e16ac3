//! The holder of a lock that the lock itself names (`interval::lock_holders`), as words.

use std::borrow::Cow;
use std::sync::Arc;

use crate::findings::finding::Evidence;
use crate::findings::formatting::{count, duration, lossy_name, plural};
use crate::findings::rule_context::{evidence_number, evidence_text};
use crate::findings::wait_chain::holder::{describe_halt, syscall_name, wait_location};
use crate::findings::wait_chain::link::{ChainConfidence, ChainLink};
use crate::findings::wait_chain::remote_waits::asked_by;
use crate::findings::wait_chain::stacks;
use crate::findings::wait_chain::user_stacks::user_stack_of;
use crate::interval::Interval;
use crate::interval::blocked_threads::{BlockedThread, LONG_WAIT_NS};
use crate::interval::lock_holders::{ChainStep, ChainedHolder, HolderActivity, LockHolder};
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
        OwnerField::GlibcWriter => "the writer field of the read-write lock (glibc)",
        OwnerField::JavaMonitor => "the owner field of the Java monitor (HotSpot)",
        OwnerField::JavaSynchronizer => "the owner field of the java.util.concurrent lock (exclusiveOwnerThread)",
        OwnerField::PostgresLog => "PostgreSQL's own wait event: it writes the log (WAL)",
        OwnerField::KernelMutex => "the owner field of the kernel's mutex",
        OwnerField::KernelSemaphore => "the field of the kernel's semaphore that names its last holder",
        OwnerField::KernelWriter => "the owner field of the kernel's rw-semaphore",
        OwnerField::KernelReader => {
            "the owner field of the kernel's rw-semaphore: its last reader, which may not be the only one"
        }
    }
}

/// One lock of this kind: `a mutex`, `WALWriteLock`, `a lock inside the kernel`
pub fn lock_words(field: OwnerField) -> &'static str {
    match field {
        OwnerField::PostgresLog => "WALWriteLock",
        OwnerField::GlibcWriter => "a read-write lock",
        OwnerField::JavaMonitor => "a Java monitor",
        OwnerField::JavaSynchronizer => "a java.util.concurrent lock",
        field if field.is_of_kernel() => "a lock inside the kernel",
        _ => "a mutex",
    }
}

/// A lock of this kind: `mutex`, `Java monitor`, `java.util.concurrent lock`
pub fn lock_noun(field: OwnerField) -> &'static str {
    match field {
        OwnerField::GlibcWriter => "read-write lock",
        OwnerField::JavaMonitor => "Java monitor",
        OwnerField::JavaSynchronizer => "java.util.concurrent lock",
        field if field.is_of_kernel() => "lock inside the kernel",
        _ => "mutex",
    }
}

/// A link for each thread of the chain: the first one is `holder`. Each says how it is known.
pub fn holder_links(interval: &Interval, holder: &LockHolder) -> Vec<ChainLink> {
    if holder.chain.is_empty() {
        let what = format!("held by {}", describe_named_holder(interval, holder));
        let held = ChainLink { what, known_by: known_by_checks(holder.field) };
        return std::iter::once(held).chain(remote_end_link(interval, holder)).collect();
    }
    let held_by = format!("held by {}", describe_holders(interval, holder));
    let mut links = vec![link_to_next(interval, holder, 0, held_by, known_by_checks(holder.field))];
    for (at, next) in holder.chain.iter().enumerate() {
        let name = holder_name(interval, &next.thread);
        let (named, known_by) = match next.step {
            ChainStep::Lock(field) => (format!("that lock is held by {name}"), known_by_checks(field)),
            ChainStep::Peer { .. } => (name, peer_known_by(activity_before(holder, at), next.step).into()),
        };
        links.push(link_to_next(interval, holder, at + 1, named, known_by));
    }
    links.extend(remote_end_link(interval, holder));
    links
}

/// The remote end at the end of the chain.
fn remote_end_link(interval: &Interval, holder: &LockHolder) -> Option<ChainLink> {
    let HolderActivity::RemoteHost(remote) = holder.last_activity() else { return None };
    Some(ChainLink::new(format!("{remote} has not answered"), asked_by(interval, holder.last_thread())))
}

/// `held by app/4650, which waits for another lock`: the thread before `holder.chain[next]`, or the last one of the chain.
fn link_to_next(
    interval: &Interval,
    holder: &LockHolder,
    next: usize,
    named: String,
    known_by: Cow<'static, str>,
) -> ChainLink {
    let does = match (holder.chain.get(next), holder.chain.last()) {
        (Some(ChainedHolder { step: ChainStep::Lock(_), .. }), _) => {
            format!("waits{} for another lock", with_timeout(thread_before(holder, next)))
        }
        (Some(peer), _) => waits_for(interval, holder, next, peer),
        (None, Some(last)) => end_words(interval, last),
        (None, None) => String::new(),
    };
    // A process at the other end of a socket does it itself.
    let is_peer = next.checked_sub(1).and_then(|at| holder.chain.get(at)).is_some_and(|link| is_peer(link.step));
    ChainLink { what: format!("{named}{} {does}", if is_peer { "" } else { ", which" }), known_by }
}

/// What the thread before `holder.chain[next]` does.
fn activity_before(holder: &LockHolder, next: usize) -> HolderActivity {
    next.checked_sub(1).and_then(|at| holder.chain.get(at)).map_or(holder.activity, |before| before.activity)
}

fn thread_before(holder: &LockHolder, next: usize) -> &BlockedThread {
    next.checked_sub(1).and_then(|at| holder.chain.get(at)).map_or(&holder.thread, |before| &before.thread)
}

/// Of a thread that waits for a lock
fn with_timeout(thread: &BlockedThread) -> &'static str {
    if thread.wait.has_timeout { " with a timeout" } else { "" }
}

fn is_peer(step: ChainStep) -> bool {
    matches!(step, ChainStep::Peer { .. })
}

/// How it is known that a process is waited for, and that it is this one.
fn peer_known_by(waits: HolderActivity, step: ChainStep) -> &'static str {
    match (waits, step) {
        (HolderActivity::FullPipe, _) => "the wait channel, and the descriptors of both processes",
        (HolderActivity::FullSocket, _) => "the wait channel, and the other end of the socket (sock_diag)",
        (HolderActivity::RemoteHost(_), _) => "the other end of the connection (sock_diag), on which its client sent last",
        (_, ChainStep::Peer { is_pipe: true }) => {
            "the descriptors of both processes, and inference: it reads a pipe of the process that waits, too"
        }
        _ => {
            "the other end of the socket (sock_diag), and inference: it did not open the connection, and waits for no request there"
        }
    }
}

/// Whether a link is inferred: by a hint, by wake-ups, or an awaited answer.
pub fn is_inferred(holder: &LockHolder) -> bool {
    let steps = std::iter::once(ChainStep::Lock(holder.field)).chain(holder.chain.iter().map(|next| next.step));
    let activities = std::iter::once(holder.activity).chain(holder.chain.iter().map(|next| next.activity));
    let is_by_inference = |step| matches!(step, ChainStep::Lock(field) if is_inferred_owner(field));
    let awaits_answer = |activity| matches!(activity, HolderActivity::RemoteHost(_) | HolderActivity::LocalProcess);
    steps.into_iter().any(is_by_inference) || activities.into_iter().any(awaits_answer)
}

/// How sure a chain is that ends at this holder.
pub fn holder_confidence(holder: &LockHolder) -> ChainConfidence {
    ChainConfidence::from_inferred_links(usize::from(is_inferred(holder)))
}

/// Whether the owner that this field names is inferred: it is a hint, or known by wake-ups.
fn is_inferred_owner(field: OwnerField) -> bool {
    field.is_hint() || matches!(field, OwnerField::Waker(_))
}

/// `known_by`; with wake-ups how many of the checks confirmed it.
pub fn known_by_checks(field: OwnerField) -> Cow<'static, str> {
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

/// `12 threads behind app/4650, which sleeps for a fixed time (clock_nanosleep); 10 threads behind app/4651, which …; 3 threads behind
/// others`: `most` of these locks of one group have words of their own.
pub fn describe_lock_queues<'a>(
    interval: &Interval,
    holders: impl Iterator<Item = &'a LockHolder> + Clone,
    most: usize,
) -> String {
    let describe = |holder: &LockHolder| {
        let one = LockHolder { waiters: holder.waiters_of_lock, other_locks: Vec::new(), ..holder.clone() };
        format!("{} behind {}", plural(one.waiters, "thread", "threads"), describe_named_holder(interval, &one))
    };
    let mut list: Vec<String> = holders.clone().take(most).map(describe).collect();
    let left_out: f64 = holders.skip(most).map(|other| other.waiters).sum();
    if left_out >= 0.5 {
        list.push(format!("{} behind others", plural(left_out, "thread", "threads")));
    }
    list.join("; ")
}

/// Locks beside the first whose holders evidence names.
const MAX_OTHER_LOCKS: usize = 4;

/// How the holder is known, and the stacks of the thread that it waits for in the end, or its own.
pub fn named_holder_evidence(interval: &Interval, holder: &LockHolder) -> Vec<Evidence> {
    let thread = holder.last_thread();
    let stack = stacks::stack_of(interval, thread).map(|stack| evidence_text("holder_stack", stack.as_str()));
    let user_stack = user_stack_of(interval, thread).map(|stack| evidence_text("holder_user_stack", stack.as_str()));
    let basis = evidence_text("holder_basis", known_by(holder.field));
    let basis = std::iter::once(basis).chain(waker_evidence(holder.field));
    basis.chain(other_locks_evidence(interval, holder)).chain(stack).chain(user_stack).collect()
}

/// The holders of the group's other locks; `None` where most threads wait for one.
pub fn other_locks_evidence(interval: &Interval, holder: &LockHolder) -> Option<Evidence> {
    let others = || describe_lock_queues(interval, holder.other_locks.iter(), MAX_OTHER_LOCKS);
    (!holder.has_one_lock()).then(|| evidence_text("other_locks", others().as_str()))
}

/// `worker/4650, which sleeps for a fixed time (clock_nanosleep)`, `worker/4650 (one of 9 in turn), which computes`. Of locks that are held one
/// behind the other only the last holder is named.
pub fn describe_named_holder(interval: &Interval, holder: &LockHolder) -> String {
    let mut words = describe_holders(interval, holder);
    for (at, next) in holder.chain.iter().enumerate() {
        let is_last_lock = holder.chain.get(at + 1).is_none_or(|after| is_peer(after.step));
        if is_peer(next.step) || is_last_lock {
            words.push_str(&format!(", which {}", waits_for(interval, holder, at, next)));
        }
    }
    let does = match holder.chain.last() {
        Some(last) => end_words(interval, last),
        None if holder.field.is_of_kernel() && holder.activity == HolderActivity::Running => {
            runnable_words(interval, &holder.thread, "runs with the lock held", WITH_LOCK)
        }
        None => activity_words(interval, &holder.thread, holder.activity),
    };
    format!("{words}, which {does}")
}

/// What the thread before `holder.chain[at]` does: `waits for a lock that app/4651 holds`, `waits over a socket for an answer of server (4711)`
fn waits_for(interval: &Interval, holder: &LockHolder, at: usize, next: &ChainedHolder) -> String {
    let activity = activity_before(holder, at);
    let is_pipe = match next.step {
        ChainStep::Lock(_) => {
            let waits = with_timeout(thread_before(holder, at));
            return format!("waits{waits} for a lock that {} holds", holder_name(interval, &next.thread));
        }
        ChainStep::Peer { is_pipe } => is_pipe,
    };
    let process = match interval.process(next.thread.wait.task.pid) {
        Some(process) => format!("{} ({})", lossy_name(&process.comm), process.pid),
        None => format!("process {}", next.thread.wait.task.pid),
    };
    match (activity, is_pipe) {
        (HolderActivity::FullPipe, _) => format!("waits for room in a pipe that {process} reads"),
        (HolderActivity::FullSocket, _) => format!("waits for room in a socket that {process} reads"),
        (HolderActivity::RemoteHost(address), _) => format!("waits for an answer of {address}, that is of {process}"),
        (_, true) => format!("waits over a pipe for an answer of {process}"),
        (_, false) => format!("waits over a socket for an answer of {process}"),
    }
}

/// What the last thread of a chain does. A process at the other end of a pipe or socket need not hold a lock.
fn end_words(interval: &Interval, last: &ChainedHolder) -> String {
    match (last.step, last.activity) {
        (ChainStep::Peer { .. }, HolderActivity::Running) => runnable_words(interval, &last.thread, "computes", ""),
        (ChainStep::Peer { .. }, HolderActivity::Stopped) => {
            let halt = interval.process(last.thread.wait.task.pid).and_then(|process| Halt::from_process(process));
            format!("is {}", halt.map_or("stopped", describe_halt))
        }
        (_, activity) => activity_words(interval, &last.thread, activity),
    }
}

/// `worker/4650 (one of 9 in turn)`, `worker/4650 (with 12 of them behind it)`
fn describe_holders(interval: &Interval, holder: &LockHolder) -> String {
    let lock = match holder.has_one_lock() {
        true => String::new(),
        false => format!("with {} of them behind it", count(holder.waiters_of_lock)),
    };
    let turns = if holder.holders > 1 { format!("one of {} in turn", holder.holders) } else { String::new() };
    let notes: Vec<String> = [lock, turns].into_iter().filter(|note| !note.is_empty()).collect();
    let turns = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let kind = if holder.field == OwnerField::KernelReader { "a reader of the lock, " } else { "" };
    format!("{kind}{}{turns}", holder_name(interval, &holder.thread))
}

/// `worker/4650`, `kernel thread kworker/0:1/50`
fn holder_name(interval: &Interval, thread: &BlockedThread) -> String {
    let is_of_kernel = interval.process(thread.wait.task.pid).is_some_and(|process| process.kernel_thread);
    format!("{}{}", if is_of_kernel { "kernel thread " } else { "" }, thread_name(thread))
}

/// `worker/4650`
pub fn thread_name(thread: &BlockedThread) -> String {
    match thread.wait.comm.as_bytes().is_empty() {
        // It ended before its name was read.
        true => format!("thread {}", thread.wait.task.tid),
        false => format!("{}/{}", lossy_name(&thread.wait.comm), thread.wait.task.tid),
    }
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
        HolderActivity::TimedWait => format!("sleeps or waits for another thread, with a timeout{}{}", call(), since()),
        HolderActivity::RemoteHost(remote) => format!("waits for an answer of {remote}{}{}", call(), since()),
        HolderActivity::LocalProcess => format!("waits for an answer of a process of this host{}{}", call(), since()),
        HolderActivity::Child => format!("waits for a child process{}{}", call(), since()),
        HolderActivity::FullPipe => {
            let readers = pipe_readers(interval, thread.wait.task.pid);
            let by = if readers.is_empty() { String::new() } else { format!(" that {readers}") };
            format!("waits for room in a pipe{by}{}", since())
        }
        HolderActivity::FullSocket => {
            let does = if syscall_name(interval, thread) == Some("connect") { "accepts" } else { "reads" };
            format!("waits until the other end of a socket {does}{}{}", call(), since())
        }
        HolderActivity::Lock => format!("waits for another lock{}", since()),
        HolderActivity::Deadlock => "is in a deadlock".into(),
        HolderActivity::TimedCycle => {
            "is in a cycle of threads that wait for each other's locks, one of them with a timeout: no deadlock".into()
        }
        HolderActivity::Stopped => format!("is {}{}", describe_halt(Halt::from_state(thread.wait.state)), since()),
        HolderActivity::Ended => "has ended".into(),
        HolderActivity::Running => runnable_words(interval, thread, "computes while it holds the lock", WITH_LOCK),
        HolderActivity::Event => format!("waits for an event{}{}", call(), since()),
    }
}

/// What a runnable holder waits for a CPU with.
const WITH_LOCK: &str = " with the lock held";

/// What a runnable thread does: `computes while it holds the lock`, `waits for a CPU with the lock held`
fn runnable_words(interval: &Interval, thread: &BlockedThread, runs: &str, with_lock: &str) -> String {
    match RunnableThread::new(interval, thread.wait.task) {
        RunnableThread::Runs => runs.to_owned(),
        RunnableThread::WaitsForCpu => format!("waits for a CPU{with_lock}"),
        RunnableThread::Throttled(Throttling { quota_cpus: Some(quota), .. }) => {
            format!("is throttled by its CPU quota of {quota:.2}{with_lock}")
        }
        RunnableThread::Throttled(_) => format!("is throttled by its CPU quota{with_lock}"),
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
    let halt = Halt::from_process(process).map_or_else(String::new, |halt| format!(", which is {}", describe_halt(halt)));
    format!("{} ({}) reads{halt}", lossy_name(&process.comm), process.pid)
}

/// Seconds since the thread last had a CPU, from one second on.
fn waiting_seconds(interval: &Interval, thread: &BlockedThread) -> Option<f64> {
    let now = interval.newer.tasks.as_ref().ok()?.thread(thread.wait.task)?.1;
    let length_ns = interval.at().boottime_ns.saturating_sub(now.last_timeslice_ns?);
    (length_ns >= LONG_WAIT_NS).then_some(length_ns as f64 / 1e9)
}
