//! Classifies the waits of the sub-samples, and counts threads by wait class. Idle-but-blocked and the microstates of threads are
//! computed from these counts.

use rustc_hash::FxHashMap;

use super::lock_graph::is_believed;
use crate::ids::TaskId;
use crate::sample::Host;
use crate::sample::Name;
use crate::sample::task::{RawSyscall, TaskState};
use crate::sample::waits::class::{HeldOnStorage, KernelLock, strip_compiler_suffix};
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::waits::{
    FutexWait, GroupWait, ObservedWait, OwnerField, Syscall, WaitClass, WaitEvent, WaitEventClass, Waits, class,
};
use crate::units::reaches_threshold;

/// A group, or a thread, that is on storage in this share of the interval counts as on storage for all of it: its other threads may wait
/// for a lock that is held meanwhile. With ten sub-samples that is two, so that one short read does not count.
/// docs/metrics.md, "Idle but blocked".
pub const MIN_ON_STORAGE_SHARE: f64 = 0.2;

/// The sub-samples of one interval by wait class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitCounts {
    /// Groups with at least one thread in each sub-sample, sorted by `group`; parallel to `Waits::sub_samples`
    pub sub_samples: Vec<Vec<GroupWaits>>,
    /// Each hot thread, sorted by task
    pub threads: Vec<ThreadWaits>,
    /// By `ObservedWait::id`
    pub classified: FxHashMap<u32, ClassifiedWait>,
    /// What is known of groups that decides the class of some waits
    pub facts: GroupFacts,
}

/// Groups, by index into `Waits::groups`, in which some waits have another class than they usually have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupFacts {
    /// Wake-ups show that their likely mutexes are mutexes; sorted
    pub with_mutexes: Vec<u16>,
    /// A process of it dumps core: its threads in D in `exit_mm` wait for that
    pub dumping_core: Vec<u16>,
}

/// Numbers of threads of one group, by kind of wait, in one sub-sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupWaits {
    /// Index into `Waits::groups`
    pub group: u16,
    /// R
    pub running: u16,
    /// D in the block or file system layer, or S waiting for a FUSE file system
    pub storage: u16,
    /// Asleep for asynchronous completions (libaio, io_uring)
    pub aio: u16,
    /// In memory reclaim or throttled by it
    pub memory: u16,
    /// In D in any other wait channel, or a hidden one
    pub other_blocked: u16,
    /// D with a hidden wait channel (part of `other_blocked`)
    pub hidden_blocked: u16,
    /// In a wait that is certainly for a held lock: by its futex call, a file lock, a lock of the kernel
    pub lock_contended: u16,
    /// In a futex or semaphore wait that may be for a lock; only active threads
    pub lock_inferred: u16,
    /// Part of `lock_inferred`: several at one address, in the futex call of a contended mutex of Rust
    pub lock_likely: u16,
    /// Asleep in a pipe or socket; only active threads
    pub ipc_peer: u16,
    /// Part of `lock_contended`: in a lock of a file (flock, fcntl)
    pub file_lock: u16,
    /// Part of `lock_contended`: in D in any other lock of the kernel
    pub kernel_lock: u16,
    /// Part of `kernel_lock`: in a lock that a thread on storage holds only while it changes the memory map
    pub mmap_lock: u16,
    /// Part of `kernel_lock`: in a lock that no thread on storage holds
    pub lock_off_storage: u16,
    /// Part of `storage`: in a page fault, or in a call that changes the memory map
    pub storage_in_memory_map: u16,
    /// In a futex call that shows a held mutex, each the only one at its address
    pub lock_alone: u16,
}

/// One hot thread: in how many sub-samples of the interval it was in each wait class.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadWaits {
    pub task: TaskId,
    /// Index into `Waits::groups`
    pub group: u16,
    /// Sub-samples by class, indexed by `WaitClass as usize`
    pub class_counts: [u16; WaitClass::COUNT],
    /// Sub-samples that saw it in D in a function of no class, or of which it is not known
    pub blocked_other: u16,
}

impl ThreadWaits {
    /// Sub-samples that saw it.
    pub fn sub_sample_count(&self) -> u32 {
        self.class_counts.iter().map(|&times| u32::from(times)).sum()
    }

    /// Sub-samples that saw it in this class.
    pub fn count(&self, class: WaitClass) -> u32 {
        self.class_counts.get(class as usize).map_or(0, |&times| u32::from(times))
    }
}

/// A wait with all that its counts depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassifiedWait {
    pub state: TaskState,
    pub class: WaitClass,
    pub futex: Option<FutexWait>,
    pub has_timeout: bool,
    /// Whether it is a futex call on memory of its process alone
    pub is_private_futex: bool,
    pub is_file_lock: bool,
    /// Whether it may be for the core dump of its process
    pub may_be_core_dump: bool,
    /// Of a wait in D for a lock inside the kernel
    pub held_on_storage: HeldOnStorage,
    /// Whether it is in a page fault, or in a call that changes the memory map
    pub in_memory_map: bool,
    /// `ObservedWait::wait_event`
    pub wait_event: Option<WaitEvent>,
}

impl ClassifiedWait {
    pub(super) fn new(wait: &ObservedWait, host: &Host) -> ClassifiedWait {
        let machine = host.machine.as_bytes();
        let call = wait.call(machine);
        let (class, futex) = (wait.class(machine), call.and_then(Syscall::futex_wait));
        let is_blocked = wait.state == TaskState::Blocked;
        let in_file_lock = || wait.wchan.as_ref().is_some_and(|wchan| class::is_file_lock(wchan.as_bytes()));
        let classified = ClassifiedWait {
            state: wait.state,
            class,
            futex,
            has_timeout: wait.has_timeout,
            is_private_futex: futex.is_some() && wait.syscall.is_some_and(|call| !is_shared_operation(call.arguments[1])),
            is_file_lock: class == WaitClass::Lock && in_file_lock(),
            may_be_core_dump: is_blocked && wait.wchan.as_ref().is_some_and(|wchan| class::may_be_core_dump(wchan.as_bytes())),
            held_on_storage: held_on_storage(wait.wchan.as_ref().filter(|_| is_blocked)),
            in_memory_map: wait.syscall.is_some_and(RawSyscall::is_page_fault) || call.is_some_and(Syscall::is_memory_map_call),
            wait_event: wait.wait_event,
        };
        match futex {
            Some(futex) if let Some(event) = wait.wait_event => classified.for_wait_event(futex.address(), event),
            Some(futex) if let Some(kind) = wait.java_lock => {
                let futex = Some(FutexWait::JavaLock { kind, address: futex.address() });
                ClassifiedWait { class: WaitClass::Lock, futex, ..classified }
            }
            Some(FutexWait::LikelyMutex { address }) if wait.is_behind_named_owner => classified.for_mutex(address),
            Some(FutexWait::LikelyRwLock { address }) if wait.is_behind_named_owner => {
                ClassifiedWait { class: WaitClass::Lock, futex: Some(FutexWait::RwLock { address }), ..classified }
            }
            _ => classified,
        }
    }

    /// The same, where its process says what it waits for. The holder of WALWriteLock can be known; whether the holder of another light-weight
    /// lock is on storage is inferred. Where it says that it does not wait it was woken in between.
    fn for_wait_event(self, address: u64, event: WaitEvent) -> ClassifiedWait {
        match event.class() {
            WaitEventClass::LightweightLock if event == WaitEvent::WAL_WRITE_LOCK => {
                ClassifiedWait { class: WaitClass::Lock, futex: Some(FutexWait::LightweightLock { address }), ..self }
            }
            WaitEventClass::Idle => ClassifiedWait { class: WaitClass::Other, ..self },
            WaitEventClass::LightweightLock | WaitEventClass::InputOutput | WaitEventClass::Other => self,
        }
    }

    /// The same, where more is known than its futex call says: it is for a mutex that another thread holds.
    fn for_mutex(self, address: u64) -> ClassifiedWait {
        ClassifiedWait { class: WaitClass::Lock, futex: Some(FutexWait::ContendedMutex { address }), ..self }
    }
}

impl WaitCounts {
    /// The class of the wait with this `ObservedWait::id` of a thread of this group: a likely mutex whose holders are known by the
    /// wake-ups there is a contended one, and where a process of the group dumps core, threads in `exit_mm` wait for that.
    pub fn class_in_group(&self, group: u16, wait: u32) -> Option<ClassifiedWait> {
        Some(self.facts.class_in_group(group, self.class_of(wait)?))
    }

    /// Classifies the waits of a sample. Rows whose wait is missing (of a damaged recording) count as nothing.
    pub fn new(host: &Host, waits: &Waits) -> WaitCounts {
        let classified: FxHashMap<u32, ClassifiedWait> =
            waits.observed.iter().map(|wait| (wait.id, ClassifiedWait::new(wait, host))).collect();
        let by_wake_ups =
            waits.lock_owners.iter().filter(|row| matches!(row.field, OwnerField::Waker(_)) && is_believed(row.field));
        let mut with_mutexes: Vec<u16> = by_wake_ups.map(|row| row.group).collect();
        with_mutexes.dedup();
        let of_dumps = waits.threads.iter().filter(|row| !waits.core_dumps.is_empty() && waits.dumps_core(row.task.pid));
        let mut dumping_core: Vec<u16> = of_dumps.map(|row| row.group).collect();
        dumping_core.dedup();
        let facts = GroupFacts { with_mutexes, dumping_core };
        let class = |group: u16, wait: u32| Some(facts.class_in_group(group, *classified.get(&wait)?));
        let sub_samples = waits.sub_samples.iter().map(|sub| group_waits(&sub.waits, class)).collect();
        let mut threads: Vec<ThreadWaits> = Vec::with_capacity(waits.threads.len());
        for row in &waits.threads {
            let Some(wait) = class(row.group, row.wait) else { continue };
            if threads.last().is_none_or(|last| last.task != row.task) {
                let class_counts = [0; WaitClass::COUNT];
                threads.push(ThreadWaits { task: row.task, group: row.group, class_counts, blocked_other: 0 });
            }
            let Some(thread) = threads.last_mut() else { continue };
            if let Some(count) = thread.class_counts.get_mut(wait.class as usize) {
                *count = count.saturating_add(row.seen_count);
            }
            if wait.state == TaskState::Blocked && matches!(wait.class, WaitClass::Other | WaitClass::Hidden) {
                thread.blocked_other = thread.blocked_other.saturating_add(row.seen_count);
            }
        }
        WaitCounts { sub_samples, threads, classified, facts }
    }

    /// The class of the wait with this `ObservedWait::id`; `None` if it is missing (of a damaged recording).
    pub fn class_of(&self, wait: u32) -> Option<ClassifiedWait> {
        self.classified.get(&wait).copied()
    }

    /// By index into `Waits::groups`: whether the group has a thread on storage for enough of the interval. `weights`: how long
    /// each sub-sample counts for.
    pub fn groups_on_storage(&self, groups: usize, weights: impl Iterator<Item = f64>) -> Vec<bool> {
        self.groups_seen(groups, weights, |row| row.storage > 0)
    }

    /// By index into `Waits::groups`: whether a row of the group satisfies `is_there` for at least `MIN_ON_STORAGE_SHARE` of the interval.
    pub fn groups_seen(
        &self,
        groups: usize,
        weights: impl Iterator<Item = f64>,
        is_there: impl Fn(&GroupWaits) -> bool,
    ) -> Vec<bool> {
        let (mut seconds, mut whole) = (vec![0.0; groups], 0.0);
        for (rows, weight) in self.sub_samples.iter().zip(weights) {
            whole += weight;
            for row in rows.iter().filter(|row| is_there(row)) {
                if let Some(time) = seconds.get_mut(usize::from(row.group)) {
                    *time += weight;
                }
            }
        }
        let is_enough = |time: f64| time > 0.0 && reaches_threshold(time, whole * MIN_ON_STORAGE_SHARE);
        seconds.into_iter().map(is_enough).collect()
    }

    /// The threads of a process.
    pub fn process_threads(&self, pid: u32) -> &[ThreadWaits] {
        let from = self.threads.partition_point(|thread| thread.task.pid < pid);
        let to = self.threads.partition_point(|thread| thread.task.pid <= pid);
        self.threads.get(from..to).unwrap_or_default()
    }
}

/// In which calls a thread on storage may hold the lock inside the kernel for which threads wait in that wait channel.
fn held_on_storage(wchan: Option<&Name>) -> HeldOnStorage {
    let lock = wchan.and_then(|wchan| KernelLock::of_function(strip_compiler_suffix(wchan.as_bytes())));
    lock.map_or(HeldOnStorage::Any, KernelLock::held_on_storage)
}

impl GroupFacts {
    fn class_in_group(&self, group: u16, wait: ClassifiedWait) -> ClassifiedWait {
        match wait.futex {
            Some(FutexWait::LikelyMutex { address }) if !wait.has_timeout && self.with_mutexes.contains(&group) => {
                wait.for_mutex(address)
            }
            None if wait.may_be_core_dump && self.dumping_core.contains(&group) => {
                ClassifiedWait { class: WaitClass::CoreDump, ..wait }
            }
            _ => wait,
        }
    }
}

/// The groups of one sub-sample; `rows` are sorted by group.
fn group_waits(rows: &[GroupWait], class: impl Fn(u16, u32) -> Option<ClassifiedWait>) -> Vec<GroupWaits> {
    let groups = rows.chunk_by(|a, b| a.group == b.group).map(|rows| {
        let group = rows.first().map_or(0, |row| row.group);
        let mut counts = GroupWaits { group, ..GroupWaits::default() };
        for row in rows {
            if let Some(wait) = class(group, row.wait) {
                counts.add(wait, row);
            }
        }
        counts
    });
    groups.filter(|counts| GroupWaits { group: 0, ..*counts } != GroupWaits::default()).collect()
}

impl GroupWaits {
    fn add(&mut self, wait: ClassifiedWait, row: &GroupWait) {
        let count = match (wait.state, wait.class) {
            (TaskState::Running, _) => &mut self.running,
            (TaskState::Blocked, WaitClass::Vfork | WaitClass::Frozen | WaitClass::CoreDump) => return,
            (TaskState::Blocked | TaskState::Sleeping, WaitClass::Disk) => {
                if wait.in_memory_map {
                    self.storage_in_memory_map = self.storage_in_memory_map.saturating_add(row.threads);
                }
                &mut self.storage
            }
            (TaskState::Blocked | TaskState::Sleeping, WaitClass::Memory) => &mut self.memory,
            (TaskState::Blocked, WaitClass::Hidden) => {
                self.hidden_blocked = self.hidden_blocked.saturating_add(row.threads);
                &mut self.other_blocked
            }
            (TaskState::Blocked | TaskState::Sleeping, WaitClass::Lock) => {
                if let Some(FutexWait::ContendedMutex { .. }) = wait.futex {
                    return self.add_contended_mutex(wait, row);
                }
                if wait.is_file_lock {
                    self.file_lock = self.file_lock.saturating_add(row.threads);
                } else if wait.state == TaskState::Blocked {
                    self.kernel_lock = self.kernel_lock.saturating_add(row.threads);
                    match wait.held_on_storage {
                        HeldOnStorage::Any => {}
                        HeldOnStorage::MemoryMapCalls => self.mmap_lock = self.mmap_lock.saturating_add(row.threads),
                        HeldOnStorage::Never => self.lock_off_storage = self.lock_off_storage.saturating_add(row.threads),
                    }
                }
                &mut self.lock_contended
            }
            (TaskState::Blocked, _) => &mut self.other_blocked,
            (TaskState::Sleeping, WaitClass::Aio) => &mut self.aio,
            (TaskState::Sleeping, WaitClass::Futex) if row.active => {
                if let Some(FutexWait::LikelyMutex { .. }) = wait.futex {
                    self.lock_likely = self.lock_likely.saturating_add(row.at_shared_address);
                }
                &mut self.lock_inferred
            }
            (TaskState::Sleeping, WaitClass::Pipe | WaitClass::Net) if row.active => &mut self.ipc_peer,
            _ => return,
        };
        *count = count.saturating_add(row.threads);
    }

    /// Waiters of a contended mutex share one address. A single waiter at an address proves nothing: each waiter of a
    /// condition variable of musl has such a futex of its own.
    fn add_contended_mutex(&mut self, wait: ClassifiedWait, row: &GroupWait) {
        self.lock_contended = self.lock_contended.saturating_add(row.at_shared_address);
        let alone = row.threads.saturating_sub(row.at_shared_address);
        self.lock_alone = self.lock_alone.saturating_add(alone);
        if row.active && !wait.has_timeout {
            self.lock_inferred = self.lock_inferred.saturating_add(alone);
        }
    }
}
