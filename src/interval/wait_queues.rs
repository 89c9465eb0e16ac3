//! Wait queues: what the threads of a group wait for (a mutex, a file lock, a pipe …), their number, and its holder.
//!
//! The numbers of threads are those of the sub-samples (`SubSample::waits`). `Waits::wait_queues` adds the futex addresses and the
//! files of the locks, of the longest queues only.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::ipc_peers::IpcPeers;
use super::wait_counts::{ClassifiedWait, WaitCounts};
use crate::sample::Name;
use crate::sample::task::TaskState;
use crate::sample::waits::{FutexWait, GroupWait, JavaLockKind, WaitClass, WaitEvent, WaitQueue, Waits};
use crate::units::SmallSort;

/// What threads of a group wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitQueueKind {
    /// A mutex of the program, held by another thread as the futex call shows
    Mutex,
    /// A read-write lock of the program, held by a writer as its words show
    RwLock,
    /// WALWriteLock of PostgreSQL, as its processes say themselves
    DatabaseLock,
    /// Java monitors, as the virtual machine says itself
    JavaMonitor,
    /// Locks of java.util.concurrent, as the virtual machine says itself
    JavaSynchronizer,
    /// Another futex or semop: a condition variable, a semaphore, a read-write lock; may also be idle
    Futex,
    /// flock, fcntl
    FileLock,
    /// A lock of the kernel (of an inode, of an address space)
    KernelLock,
    /// The other end of a pipe
    Pipe,
    /// The other end of a socket
    Socket,
}

/// One kind of wait queue of a group, as a mean over the interval.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitQueueSpan {
    pub kind: WaitQueueKind,
    /// Mean number of threads in it
    pub threads: f64,
    /// Share of them at one futex address, or for one lock of Java; of locks of a database those for one lock
    pub one_address_share: f64,
    /// The lock of a database that most of them wait for
    pub lock_name: Option<&'static str>,
    pub wchan: Option<Name>,
    /// The file whose lock they wait for
    pub file: Option<Name>,
    /// Pid of the holder, where the kernel names it
    pub holder: Option<u32>,
}

impl WaitQueueKind {
    /// The kind of a row of a sub-sample, or of a queue, and how many of its threads count. Contended mutexes are those at a shared
    /// address: the others may be condition variables of musl, which have an address for each waiter.
    fn classify(wait: ClassifiedWait, row: &GroupWait) -> [Option<(WaitQueueKind, u16)>; 2] {
        let alone = row.threads.saturating_sub(row.at_shared_address);
        match (wait.state, wait.class, wait.futex) {
            (TaskState::Blocked | TaskState::Sleeping, WaitClass::Lock, Some(FutexWait::ContendedMutex { .. })) => {
                let may_be_lock = row.active && !wait.has_timeout;
                [Some((WaitQueueKind::Mutex, row.at_shared_address)), may_be_lock.then_some((WaitQueueKind::Futex, alone))]
            }
            (_, WaitClass::Lock, Some(FutexWait::JavaLock { kind, .. })) => [Some((java_queue(kind), row.threads)), None],
            (_, WaitClass::Lock, Some(FutexWait::RwLock { .. })) => [Some((WaitQueueKind::RwLock, row.threads)), None],
            (_, WaitClass::Lock, Some(FutexWait::LightweightLock { .. })) => {
                [Some((WaitQueueKind::DatabaseLock, row.threads)), None]
            }
            (
                TaskState::Blocked | TaskState::Sleeping,
                WaitClass::Lock,
                Some(FutexWait::PiLock { .. } | FutexWait::OwnerWord { .. }),
            ) => [Some((WaitQueueKind::Mutex, row.threads)), None],
            (TaskState::Blocked | TaskState::Sleeping, WaitClass::Lock, _) => {
                let kind = if wait.is_file_lock { WaitQueueKind::FileLock } else { WaitQueueKind::KernelLock };
                [Some((kind, row.threads)), None]
            }
            (TaskState::Sleeping, WaitClass::Futex, _) if row.active => [Some((WaitQueueKind::Futex, row.threads)), None],
            _ => [None, None],
        }
    }
}

fn java_queue(kind: JavaLockKind) -> WaitQueueKind {
    match kind {
        JavaLockKind::Monitor => WaitQueueKind::JavaMonitor,
        JavaLockKind::Synchronizer => WaitQueueKind::JavaSynchronizer,
    }
}

/// Sightings of one kind of queue.
#[derive(Default)]
struct QueueCount {
    seen_count: u32,
    /// Most threads in one sub-sample
    most_at_once: u32,
    /// Sightings by `ObservedWait::id`
    waits: FxHashMap<u32, u32>,
}

/// The queues of a group, longest first. Of those in pipes and sockets only threads count that wait for a process on storage.
pub fn wait_queues(
    waits: &Waits,
    counts: &WaitCounts,
    ipc_peers: &IpcPeers,
    group: u16,
    sub_samples: u32,
) -> Vec<WaitQueueSpan> {
    let mean = |seen_count: u32| f64::from(seen_count) / f64::from(sub_samples.max(1));
    let mut list: Vec<WaitQueueSpan> = Vec::new();
    for (kind, count) in count_queues(waits, counts, group) {
        let most_seen = count.waits.iter().max_by_key(|&(id, seen_count)| (seen_count, id)).map(|(&id, _)| id);
        let lock = lock_queues(waits, counts, group, kind).max_by_key(|queue| (queue.file.is_some(), queue.seen_count));
        let (event_share, lock_name) = most_awaited_event(counts, &count);
        list.push(WaitQueueSpan {
            kind,
            threads: mean(count.seen_count),
            one_address_share: match kind {
                WaitQueueKind::Mutex | WaitQueueKind::RwLock | WaitQueueKind::JavaMonitor | WaitQueueKind::JavaSynchronizer => {
                    one_address_share(waits, counts, group, &count)
                }
                _ => event_share,
            },
            lock_name,
            wchan: lock.map(|queue| queue.wait).or(most_seen).and_then(|id| waits.observed_wait(id)?.wchan.clone()),
            file: lock.and_then(|queue| queue.file.clone()),
            holder: lock.and_then(|queue| queue.lock_holder).filter(|_| kind == WaitQueueKind::FileLock),
        });
    }
    for (kind, class) in [(WaitQueueKind::Pipe, WaitClass::Pipe), (WaitQueueKind::Socket, WaitClass::Net)] {
        list.extend(ipc_peers.blocked(group, class).map(|blocked| WaitQueueSpan {
            kind,
            threads: mean(blocked.seen_count),
            one_address_share: 0.0,
            lock_name: None,
            wchan: None,
            file: None,
            holder: Some(blocked.holder),
        }));
    }
    list.small_sort_by(|a, b| b.threads.total_cmp(&a.threads));
    list
}

/// The queues for file locks whose holder /proc/locks names: group, and pid of the holder.
pub fn file_lock_holders<'a>(waits: &'a Waits, counts: &'a WaitCounts) -> impl Iterator<Item = (u16, u32)> + 'a {
    let is_file_lock = |queue: &&WaitQueue| counts.class_of(queue.wait).is_some_and(|wait| wait.is_file_lock);
    waits.wait_queues.iter().filter(is_file_lock).filter_map(|queue| Some((queue.group, queue.lock_holder?)))
}

/// Sorted by kind
fn count_queues(waits: &Waits, counts: &WaitCounts, group: u16) -> Vec<(WaitQueueKind, QueueCount)> {
    let mut queues: FxHashMap<WaitQueueKind, QueueCount> = FxHashMap::default();
    for sub_sample in &waits.sub_samples {
        let mut now: FxHashMap<WaitQueueKind, u32> = FxHashMap::default();
        for row in sub_sample.waits.iter().filter(|row| row.group == group) {
            let Some(wait) = counts.class_in_group(group, row.wait) else { continue };
            for (kind, threads) in WaitQueueKind::classify(wait, row).into_iter().flatten().filter(|&(_, threads)| threads > 0)
            {
                let threads = u32::from(threads);
                let count = queues.entry(kind).or_default();
                let at_once = now.entry(kind).or_default();
                for sum in [at_once, &mut count.seen_count, count.waits.entry(row.wait).or_default()] {
                    *sum = sum.saturating_add(threads);
                }
            }
        }
        for (kind, threads) in now {
            let count = queues.entry(kind).or_default();
            count.most_at_once = count.most_at_once.max(threads);
        }
    }
    let mut list: Vec<(WaitQueueKind, QueueCount)> = queues.into_iter().collect();
    list.small_sort_by_key(|&(kind, _)| kind);
    list
}

/// The queues of a group for locks of files, or of the kernel.
fn lock_queues<'a>(
    waits: &'a Waits,
    counts: &'a WaitCounts,
    group: u16,
    kind: WaitQueueKind,
) -> impl Iterator<Item = &'a WaitQueue> {
    let of_kind = move |queue: &&WaitQueue| {
        let is_file_lock =
            counts.class_of(queue.wait).filter(|wait| wait.class == WaitClass::Lock).map(|wait| wait.is_file_lock);
        match kind {
            WaitQueueKind::FileLock => is_file_lock == Some(true),
            WaitQueueKind::KernelLock => is_file_lock == Some(false),
            _ => false,
        }
    };
    waits.wait_queues.iter().filter(move |queue| queue.group == group && queue.futex_address.is_none()).filter(of_kind)
}

/// Of the wait event with most sightings its share of them, and the name of that lock.
fn most_awaited_event(counts: &WaitCounts, count: &QueueCount) -> (f64, Option<&'static str>) {
    let mut events: FxHashMap<WaitEvent, u32> = FxHashMap::default();
    for (&id, &seen_count) in &count.waits {
        if let Some(event) = counts.class_of(id).and_then(|wait| wait.wait_event) {
            *events.entry(event).or_default() += seen_count;
        }
    }
    let Some((event, most)) = events.into_iter().max_by_key(|&(event, seen_count)| (seen_count, event)) else {
        return (0.0, None);
    };
    (f64::from(most) / f64::from(count.seen_count.max(1)), event.lock_name())
}

/// Share of the sightings in mutexes that were at the futex address with the most of them.
fn one_address_share(waits: &Waits, counts: &WaitCounts, group: u16, count: &QueueCount) -> f64 {
    // A single waiter at a time waits at one address.
    if count.most_at_once <= 1 {
        return 1.0;
    }
    let mut addresses: FxHashMap<u64, u32> = FxHashMap::default();
    for queue in waits.wait_queues.iter().filter(|queue| queue.group == group) {
        let is_mutex = counts.class_in_group(group, queue.wait).is_some_and(|wait| wait.class == WaitClass::Lock);
        if let (Some(address), true) = (queue.futex_address, is_mutex) {
            let seen_count = addresses.entry(address).or_default();
            *seen_count = seen_count.saturating_add(queue.seen_count);
        }
    }
    let most = addresses.into_values().max().unwrap_or(0);
    (f64::from(most) / f64::from(count.seen_count.max(1))).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::task::RawSyscall;
    use crate::sample::waits::{ObservedWait, SubSample};
    use crate::synthetic;

    const MUTEX: u32 = 1;
    const PI_LOCK: u32 = 2;
    const CONDITION: u32 = 3;
    const FILE_LOCK: u32 = 4;
    const KERNEL_LOCK: u32 = 5;

    fn observed() -> Vec<ObservedWait> {
        let wait = |id, state, wchan: &str, call: Option<(i64, u64, u64)>| ObservedWait {
            id,
            state,
            wchan: Some(Name::from(wchan)),
            syscall: call.map(|(number, operation, value)| RawSyscall { number, arguments: [0, operation, value] }),
            has_timeout: false,
            is_behind_named_owner: false,
            java_lock: None,
            wait_event: None,
        };
        vec![
            wait(MUTEX, TaskState::Sleeping, "futex_do_wait", Some((202, 0x80, 2))),
            wait(PI_LOCK, TaskState::Sleeping, "futex_do_wait", Some((202, 0x86, 0))),
            wait(CONDITION, TaskState::Sleeping, "futex_do_wait", Some((202, 0x189, 0))),
            wait(FILE_LOCK, TaskState::Sleeping, "locks_lock_inode_wait", Some((73, 0, 0))),
            wait(KERNEL_LOCK, TaskState::Blocked, "rwsem_down_write_slowpath", None),
        ]
    }

    fn row(wait: u32, threads: u16, at_shared_address: u16) -> GroupWait {
        GroupWait { group: 0, wait, active: true, threads, at_shared_address }
    }

    fn queue(wait: u32, futex_address: Option<u64>, seen_count: u32) -> WaitQueue {
        WaitQueue { group: 0, wait, futex_address, seen_count, file: None, lock_holder: None }
    }

    /// The queues of two sub-samples with these rows.
    fn queues(rows: &[GroupWait], list: Vec<WaitQueue>) -> Vec<WaitQueueSpan> {
        let sub_sample = SubSample { waits: rows.to_vec(), ..SubSample::default() };
        let waits = Waits { observed: observed(), sub_samples: vec![sub_sample; 2], wait_queues: list, ..Waits::default() };
        wait_queues(&waits, &WaitCounts::new(&synthetic::host(), &waits), &IpcPeers::default(), 0, 2)
    }

    #[test]
    fn several_at_one_address_are_a_mutex_and_one_alone_is_a_guess() {
        let found = queues(&[row(MUTEX, 4, 3)], vec![queue(MUTEX, Some(16), 4), queue(MUTEX, Some(32), 2)]);
        let short: Vec<_> = found.iter().map(|queue| (queue.kind, queue.threads, queue.one_address_share)).collect();
        assert_eq!(short, [(WaitQueueKind::Mutex, 3.0, 4.0 / 6.0), (WaitQueueKind::Futex, 1.0, 0.0)]);
    }

    #[test]
    fn an_address_counts_for_mutexes_only_where_the_call_shows_one() {
        let found =
            queues(&[row(MUTEX, 2, 2), row(CONDITION, 8, 8)], vec![queue(MUTEX, Some(16), 4), queue(CONDITION, Some(32), 16)]);
        let short: Vec<_> = found.iter().map(|queue| (queue.kind, queue.threads, queue.one_address_share)).collect();
        assert_eq!(short, [(WaitQueueKind::Futex, 8.0, 0.0), (WaitQueueKind::Mutex, 2.0, 1.0)]);
    }

    #[test]
    fn a_single_waiter_of_a_priority_inheritance_lock_waits_at_one_address() {
        assert_eq!(queues(&[row(PI_LOCK, 1, 0)], Vec::new())[0].one_address_share, 1.0);
        assert_eq!(queues(&[row(PI_LOCK, 2, 0)], Vec::new())[0].one_address_share, 0.0, "each at its own");
    }

    #[test]
    fn locks_have_file_and_holder_of_their_own_kind() {
        let named =
            |wait, file: &str, holder| WaitQueue { file: Some(file.into()), lock_holder: Some(holder), ..queue(wait, None, 1) };
        let found = queues(
            &[row(FILE_LOCK, 3, 0), row(KERNEL_LOCK, 1, 0)],
            vec![named(FILE_LOCK, "/srv/lock", 7), named(KERNEL_LOCK, "/srv/grows", 8)],
        );
        let short: Vec<_> = found.iter().map(|queue| (queue.kind, queue.file.clone().unwrap(), queue.holder)).collect();
        let expected =
            [(WaitQueueKind::FileLock, "/srv/lock".into(), Some(7)), (WaitQueueKind::KernelLock, "/srv/grows".into(), None)];
        assert_eq!(short, expected);
    }
}
