//! First links of a wait chain: the threads that wait for a lock, a pipe or a socket, and how that is known.

use crate::findings::formatting::{count, lossy_name, plural};
use crate::findings::wait_chain::reported_threads::{MIN_REPORTED_THREADS, ReportedWaiters};
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::wait_queues::{WaitQueueKind, WaitQueueSpan};

/// One link per wait queue of the group: text, how it is known, whether that is inferred.
pub fn queue_links(group: &BlockedGroup) -> Vec<(String, &'static str, bool)> {
    let mut list = Vec::new();
    let reported = ReportedWaiters::new(group);
    let is_reported = |queue: &&WaitQueueSpan| match queue.kind {
        WaitQueueKind::Pipe | WaitQueueKind::Socket => reported.ipc_peer,
        _ => reported.lock,
    };
    for queue in group.wait_queues.iter().filter(is_reported).filter(|queue| is_counted_as_blocked(group, queue)) {
        let what = format!("{} for {}", plural(queue.threads, "waits", "wait"), lock_description(queue));
        let (known_by, inferred) = match queue.kind {
            WaitQueueKind::Mutex if is_one_address(queue) => ("the futex call: one address", false),
            WaitQueueKind::Mutex => ("the futex call", false),
            WaitQueueKind::RwLock => (BY_RW_LOCK_WORDS, false),
            WaitQueueKind::DatabaseLock => (BY_WAIT_EVENT, false),
            WaitQueueKind::JavaMonitor => (BY_PENDING_MONITOR, false),
            WaitQueueKind::JavaSynchronizer => (BY_PARK_BLOCKER, false),
            WaitQueueKind::Futex if database_lock(queue).is_some() => {
                ("PostgreSQL's own wait event, and inference: one of them is on storage", true)
            }
            WaitQueueKind::Futex => ("inference: they are active, and one of them is on storage", true),
            WaitQueueKind::FileLock if queue.holder.is_some() => ("the wait channel and /proc/locks", false),
            WaitQueueKind::FileLock | WaitQueueKind::KernelLock => ("the wait channel", false),
            WaitQueueKind::Pipe | WaitQueueKind::Socket => ("the processes at the other end", false),
        };
        list.push((what, known_by, inferred));
    }
    if list.is_empty() && reported.lock {
        let (known_by, inferred) = match group.lock_inferred >= MIN_REPORTED_THREADS {
            true => ("inference: they are active, and one of them is on storage", true),
            false => ("the futex call", false),
        };
        list.push((format!("{} wait for a lock", count(group.behind_lock())), known_by, inferred));
    }
    list
}

/// Whether the threads of that queue count as blocked.
fn is_counted_as_blocked(group: &BlockedGroup, queue: &WaitQueueSpan) -> bool {
    let counted = match queue.kind {
        WaitQueueKind::Futex => group.lock_inferred,
        WaitQueueKind::Mutex
        | WaitQueueKind::RwLock
        | WaitQueueKind::DatabaseLock
        | WaitQueueKind::JavaMonitor
        | WaitQueueKind::JavaSynchronizer
        | WaitQueueKind::FileLock
        | WaitQueueKind::KernelLock => group.lock_contended,
        WaitQueueKind::Pipe | WaitQueueKind::Socket => group.behind_ipc_peer,
    };
    counted >= MIN_REPORTED_THREADS && queue.threads >= MIN_REPORTED_THREADS
}

/// How it is known that processes of PostgreSQL wait for a light-weight lock.
pub const BY_WAIT_EVENT: &str = "PostgreSQL's own wait event (my_wait_event_info)";

/// How it is known that threads wait for a read-write lock.
pub const BY_RW_LOCK_WORDS: &str = "the futex call, and the words of the lock (glibc)";

/// How it is known that threads of a Java virtual machine wait for a monitor.
pub const BY_PENDING_MONITOR: &str = "the Java virtual machine says so (JavaThread::_current_pending_monitor)";

/// How it is known that they wait for a lock of java.util.concurrent.
pub const BY_PARK_BLOCKER: &str = "the threads of the Java virtual machine say so (Thread.parkBlocker)";

/// Share of a queue's threads at one futex address, or for one lock of a database, from which it is one lock. docs/metrics.md, "Fixed thresholds".
const MIN_ONE_ADDRESS_SHARE: f64 = 0.8;

/// Whether (nearly) all of them wait at one futex address, or for one lock of a database.
fn is_one_address(queue: &WaitQueueSpan) -> bool {
    queue.one_address_share >= MIN_ONE_ADDRESS_SHARE
}

/// The lock of PostgreSQL for which (nearly) all of them wait
fn database_lock(queue: &WaitQueueSpan) -> Option<&'static str> {
    queue.lock_name.filter(|_| is_one_address(queue))
}

fn lock_description(queue: &WaitQueueSpan) -> String {
    match (queue.kind, &queue.file, &queue.wchan) {
        (WaitQueueKind::Mutex, ..) if is_one_address(queue) => "one mutex".into(),
        (WaitQueueKind::Mutex, ..) => "mutexes".into(),
        (WaitQueueKind::RwLock, ..) if is_one_address(queue) => "one read-write lock".into(),
        (WaitQueueKind::RwLock, ..) => "read-write locks".into(),
        (WaitQueueKind::JavaMonitor, ..) if is_one_address(queue) => "one Java monitor".into(),
        (WaitQueueKind::JavaMonitor, ..) => "Java monitors".into(),
        (WaitQueueKind::JavaSynchronizer, ..) if is_one_address(queue) => "one java.util.concurrent lock".into(),
        (WaitQueueKind::JavaSynchronizer, ..) => "java.util.concurrent locks".into(),
        (WaitQueueKind::DatabaseLock | WaitQueueKind::Futex, ..) if let Some(name) = database_lock(queue) => {
            format!("the lock {name} of PostgreSQL")
        }
        (WaitQueueKind::DatabaseLock, ..) => "light-weight locks of PostgreSQL".into(),
        (WaitQueueKind::Futex, _, Some(channel)) => {
            format!("a lock, a semaphore or a condition variable ({})", lossy_name(channel))
        }
        (WaitQueueKind::Futex, ..) => "a lock, a semaphore or a condition variable".into(),
        (WaitQueueKind::FileLock, Some(file), _) => format!("the lock of {}", lossy_name(file)),
        (WaitQueueKind::FileLock, ..) => "the lock of a file".into(),
        (WaitQueueKind::KernelLock, file, channel) => {
            let of = file.as_ref().map_or_else(String::new, |file| format!(" of {}", lossy_name(file)));
            let at = channel.as_ref().map_or_else(String::new, |channel| format!(" ({})", lossy_name(channel)));
            format!("a lock inside the kernel{of}{at}")
        }
        (WaitQueueKind::Pipe, ..) => "the other end of a pipe".into(),
        (WaitQueueKind::Socket, ..) => "the other end of a socket".into(),
    }
}

/// How it is known that threads of the group wait for a lock, for a sentence.
pub fn lock_basis(group: &BlockedGroup) -> String {
    let (call, guessed) = (group.lock_contended >= MIN_REPORTED_THREADS, group.lock_inferred >= MIN_REPORTED_THREADS);
    let most = group.wait_queues.iter().find(|queue| is_counted_as_blocked(group, queue) && queue.kind != WaitQueueKind::Futex);
    let by_call = match most.map(|queue| (queue.kind, queue)) {
        Some((WaitQueueKind::Mutex, queue)) if is_one_address(queue) => "one mutex, by the futex call".to_owned(),
        Some((WaitQueueKind::RwLock, queue)) if is_one_address(queue) => "one read-write lock".into(),
        Some((WaitQueueKind::RwLock, _)) => "read-write locks".into(),
        Some((WaitQueueKind::JavaMonitor, queue)) if is_one_address(queue) => "one Java monitor".into(),
        Some((WaitQueueKind::JavaMonitor, _)) => "Java monitors".into(),
        Some((WaitQueueKind::JavaSynchronizer, queue)) if is_one_address(queue) => "one java.util.concurrent lock".into(),
        Some((WaitQueueKind::JavaSynchronizer, _)) => "java.util.concurrent locks".into(),
        Some((WaitQueueKind::FileLock, queue)) => match &queue.file {
            Some(file) => format!("of {}, by the wait channel", lossy_name(file)),
            None => "of a file, by the wait channel".into(),
        },
        Some((WaitQueueKind::DatabaseLock, queue)) => match database_lock(queue) {
            Some(name) => format!("{name}, by PostgreSQL's wait event"),
            None => "by PostgreSQL's wait event".into(),
        },
        Some((WaitQueueKind::KernelLock, _)) => "inside the kernel, by the wait channel".into(),
        _ => "by the futex call".into(),
    };
    match (call, guessed) {
        (true, false) => by_call,
        // As many as the sentence says, rounded
        (true, true) if count(group.lock_contended) == count(group.lock_contended + group.lock_inferred) => by_call,
        (true, true) => format!("{} {by_call}, the others by inference", count(group.lock_contended)),
        _ => match group.wait_queues.iter().find(|queue| is_counted_as_blocked(group, queue)).and_then(database_lock) {
            Some(name) => format!("{name}, by PostgreSQL's wait event; its holder by inference"),
            None => "by inference".into(),
        },
    }
}
