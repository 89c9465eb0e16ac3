//! Threads in D that wait inside the kernel and not for storage: for a lock of the kernel (mmap_lock, the lock of a directory, …), or
//! in a function whose purpose is not known.
//!
//! A thread counts here or in idle-but-blocked, never in both: threads whose lock a thread on storage holds, or may hold, count there; those of a
//! group with a thread in memory reclaim count in neither. The same idle CPU may be explained by both: each figure is an upper
//! bound, and neither fault hides the other.

use rustc_hash::FxHashMap;

use crate::ids::GroupId;
use crate::interval::group_label::{GroupLabel, group_label};
use crate::interval::lock_holders::{LockHolder, holder_of_group};
use crate::interval::server_connections::connections_behind_kernel_locks;
use crate::interval::wait_counts::WaitCounts;
use crate::sample::task::{RawSyscall, TaskState};
use crate::sample::waits::class::{self, HeldOnStorage, KernelLock};
use crate::sample::waits::{ObservedWait, SubSample, Syscall, WaitClass};
use crate::sample::{Host, Name, Sample};
use crate::units::SmallSort;

/// Threads that wait for locks inside the kernel, as means over the sub-samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelLocks {
    /// Mean number of them
    pub threads: f64,
    /// CPUs that were available while one of them could have used them
    pub cpus: f64,
    /// `cpus` as a share of all CPUs
    pub ratio: f64,
    /// The same if each connection that waits for a group were a thread of it; at least `ratio`
    pub ratio_with_connections: f64,
    /// Groups with such threads, most threads first
    pub groups: Vec<KernelLockGroup>,
}

/// A process, or sibling processes, with threads that wait for locks inside the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLockGroup {
    pub group: GroupId,
    pub label: GroupLabel,
    /// Mean number of its threads
    pub threads: f64,
    /// Connections of clients that wait for its processes, at the sample
    pub connections: u32,
    /// The holder of the lock that most of them wait for, where the lock names it
    pub holder: Option<LockHolder>,
    /// By wait channel and system call, most threads first
    pub waits: Vec<KernelLockWait>,
}

impl KernelLocks {
    /// Mean number of the threads, and of the connections beyond them
    pub fn waiting(&self) -> f64 {
        self.groups.iter().map(|group| group.threads + group.connections_behind()).sum()
    }
}

impl KernelLockGroup {
    /// Connections beyond its threads
    pub fn connections_behind(&self) -> f64 {
        (f64::from(self.connections) - self.threads).max(0.0)
    }
}

/// Threads of a group in one function of the kernel and one system call.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelLockWait {
    pub threads: f64,
    pub wchan: Name,
    /// `None` if it could not be read
    pub syscall: Option<RawSyscall>,
    /// Whether the function waits for a lock; otherwise its purpose is not known
    pub is_lock: bool,
    /// `None` if it is not known which
    pub lock: Option<KernelLock>,
}

impl KernelLockWait {
    /// In which calls a thread on storage may hold the lock
    pub fn held_on_storage(&self) -> HeldOnStorage {
        self.lock.map_or(HeldOnStorage::Any, KernelLock::held_on_storage)
    }
}

/// Counts the threads sub-sample by sub-sample.
pub struct KernelLockCounter<'a> {
    /// The waits that count, by `ObservedWait::id`
    waits: FxHashMap<u32, KernelLockWait>,
    counts: &'a WaitCounts,
    /// By group and wait
    threads: FxHashMap<(u16, u32), f64>,
    /// By index into `Waits::groups`
    connections: Vec<u32>,
    result: KernelLocks,
    older: &'a Sample,
    newer: &'a Sample,
}

impl<'a> KernelLockCounter<'a> {
    /// `None` if no thread was seen in such a wait.
    pub fn new(host: &Host, older: &'a Sample, newer: &'a Sample, counts: &'a WaitCounts) -> Option<KernelLockCounter<'a>> {
        let of_wait = |wait: &ObservedWait| Some((wait.id, kernel_lock_wait(host, wait)?));
        let waits: FxHashMap<u32, KernelLockWait> = newer.waits.observed.iter().filter_map(of_wait).collect();
        let empty = waits.is_empty();
        (!empty).then(|| KernelLockCounter {
            connections: connections_behind_kernel_locks(&newer.waits, counts, |wait| {
                waits.get(&wait).is_some_and(|wait| wait.is_lock)
            }),
            waits,
            counts,
            threads: FxHashMap::default(),
            result: KernelLocks::default(),
            older,
            newer,
        })
    }

    /// Adds a sub-sample, which is `part` of the interval. `is_behind`: the threads of that group in that wait may wait for
    /// storage or for memory.
    pub fn add(
        &mut self,
        sub_sample: &SubSample,
        part: f64,
        available_cpus: f64,
        is_behind: impl Fn(u16, &KernelLockWait) -> bool,
    ) {
        let mut waiting = 0.0;
        let mut groups: FxHashMap<u16, f64> = FxHashMap::default();
        for row in &sub_sample.waits {
            let Some(wait) = self.waits.get(&row.wait) else { continue };
            // A function that is not known may wait for storage, if there are requests in flight.
            let may_be_storage = !wait.is_lock && sub_sample.in_flight != Some(0);
            let for_core_dump =
                || self.counts.class_in_group(row.group, row.wait).is_some_and(|wait| wait.class == WaitClass::CoreDump);
            if may_be_storage || is_behind(row.group, wait) || for_core_dump() {
                continue;
            }
            let threads = f64::from(row.threads);
            waiting += threads;
            *groups.entry(row.group).or_default() += threads;
            *self.threads.entry((row.group, row.wait)).or_default() += threads * part;
        }
        self.result.threads += waiting * part;
        self.result.cpus += available_cpus.min(waiting) * part;
        let connections = |group: u16| self.connections.get(usize::from(group)).map_or(0.0, |&known| f64::from(known));
        let with_connections: f64 = groups.iter().map(|(&group, threads)| threads.max(connections(group))).sum();
        self.result.ratio_with_connections += available_cpus.min(with_connections) * part;
    }

    /// `None` if no thread counted. `holders`: of locks inside the kernel.
    pub fn finish(self, cpus: f64, holders: &[LockHolder]) -> Option<KernelLocks> {
        let KernelLockCounter { waits, threads, connections, mut result, older, newer, .. } = self;
        let mut groups: FxHashMap<u16, Vec<KernelLockWait>> = FxHashMap::default();
        for ((group, wait), threads) in threads {
            let Some(wait) = waits.get(&wait) else { continue };
            groups.entry(group).or_default().push(KernelLockWait { threads, ..wait.clone() });
        }
        for (number, mut waits) in groups {
            let Some(id) = newer.waits.groups.get(usize::from(number)) else { continue };
            waits.small_sort_by(|a, b| b.threads.total_cmp(&a.threads).then_with(|| a.wchan.cmp(&b.wchan)));
            result.groups.push(KernelLockGroup {
                group: id.clone(),
                label: group_label(id, older, newer),
                threads: waits.iter().map(|wait| wait.threads).sum(),
                connections: connections.get(usize::from(number)).copied().unwrap_or(0),
                holder: holder_of_group(holders, usize::from(number)).cloned(),
                waits,
            });
        }
        result.groups.small_sort_by(|a, b| b.threads.total_cmp(&a.threads).then_with(|| a.group.cmp(&b.group)));
        result.ratio = result.cpus / cpus;
        result.ratio_with_connections /= cpus;
        (!result.groups.is_empty()).then_some(result)
    }
}

/// The wait, if it is one in D for a lock of the kernel, or in a function whose purpose is not known.
fn kernel_lock_wait(host: &Host, wait: &ObservedWait) -> Option<KernelLockWait> {
    let wchan = wait.wchan.as_ref().filter(|_| wait.state == TaskState::Blocked)?;
    let channel = wchan.as_bytes();
    let machine = host.machine.as_bytes();
    let is_lock = match wait.class(machine) {
        WaitClass::Lock if class::is_file_lock(channel) => return None,
        WaitClass::Lock => true,
        WaitClass::Other if class::is_kernel_delay(channel) => return None,
        WaitClass::Other => false,
        _ => return None,
    };
    let lock = match is_frozen_file_system(channel, wait.call(machine)) {
        true => Some(KernelLock::FrozenFileSystem),
        false => KernelLock::of_function(class::strip_compiler_suffix(channel)),
    };
    Some(KernelLockWait { threads: 0.0, wchan: wchan.clone(), syscall: wait.syscall, is_lock, lock })
}

/// A per-CPU rw-semaphore: that of a frozen file system, unless the call makes or ends a task (cgroup_threadgroup_rwsem), or may wait for
/// a change of the CPUs that are online (cpu_hotplug_lock).
pub fn is_frozen_file_system(channel: &[u8], call: Option<Syscall>) -> bool {
    let is_other = || {
        let tasks = ["clone", "clone3", "fork", "vfork", "execve", "exit", "exit_group", "unshare"];
        let cpus =
            ["bpf", "perf_event_open", "init_module", "finit_module", "delete_module", "membarrier", "sched_setaffinity"];
        call.is_some_and(|call| tasks.contains(&call.name) || cpus.contains(&call.name))
    };
    (channel.starts_with(b"percpu_rwsem") || channel.starts_with(b"__percpu_down")) && !is_other()
}
