//! Counts the hot threads of each sub-sample by group and wait (state, wait channel and system call), see `sample/waits.rs`.
//!
//! `scan/thread/wait.rs` reads the waits; `scan/thread/activity.rs` decides which threads are hot. The class of a wait is used here only to
//! decide which threads are kept one by one, and which files are read; `interval::wait_counts` classifies the counts.

mod asked_connections;
pub mod blocked;
pub mod budget;
mod core_dumps;
mod cost_limit;
pub mod file_locks;
mod full_pipes;
mod futex_words;
mod group_waiters;
mod holder_wait;
mod ipc_peers;
mod java_locks;
mod kernel_lock_owners;
mod lock_owners;
mod lock_wakers;
mod look_up;
pub mod namespace_tids;
mod observed;
pub mod owner_namespaces;
pub mod owner_peers;
mod peer_waits;
mod pipelines;
mod reading_turns;
pub mod remote_waits;
mod server_sockets;
pub mod sleeping_pipe_readers;
pub mod tcp_files;
mod tracers;
pub mod unix_sockets;
mod wait_events;
mod wait_queues;

use std::path::PathBuf;

use rustc_hash::FxHashMap;

use self::blocked::ClassifiedWait;
use self::java_locks::JavaLocks;
use self::kernel_lock_owners::KernelLockOwners;
use self::lock_owners::{FutexCall, LockOwners};
use self::lock_wakers::LockWakers;
use self::observed::{GroupWaitCounts, ObservedWaits};
use self::wait_events::WaitEvents;
use self::wait_queues::{WaitQueues, Waiter};
use super::root::Root;
use super::scan::{KnownProcess, KnownThread, TaskScanner};
use super::stacks::{MAX_STUCK_THREADS, StuckThread};
use super::task::files::TaskFiles;
use crate::ids::{GroupId, TaskId};
use crate::sample::Name;
use crate::sample::cpu::CpuTimes;
use crate::sample::task::{Process, TaskState};
use crate::sample::waits::syscall::is_shared_operation;
use crate::sample::waits::{BlockedWait, SubSample, ThreadWait, WaitClass, WaitEvent, Waits, class};
use crate::units::Counter;

/// Counts the sub-samples since the last sample.
#[derive(Debug, Default)]
pub struct WaitCounter {
    waits: Waits,
    group_numbers: FxHashMap<GroupId, u16>,
    /// By group number: whether one of its threads was seen on storage
    on_storage: Vec<bool>,
    observed: ObservedWaits,
    /// Hot threads, in the order in which they were first seen
    threads: Vec<HotThread>,
    /// By the thread's place in `threads` and `ObservedWait::id`: how many sub-samples saw the thread in that wait
    sightings: FxHashMap<(usize, u32), u16>,
    /// The waits of threads that were seen blocked, by the thread's place in `threads`
    blocked: FxHashMap<usize, Vec<ClassifiedWait>>,
    /// Counts of the current sub-sample
    group_counts: GroupWaitCounts,
    wait_queues: WaitQueues,
    lock_owners: LockOwners,
    lock_wakers: LockWakers,
    kernel_lock_owners: KernelLockOwners,
    wait_events: WaitEvents,
    java_locks: JavaLocks,
    /// Threads that the last sub-sample saw blocked or behind a lock
    stuck: Vec<StuckThread>,
    /// Number of the interval: `KnownProcess::group` and `KnownThread::wait_record` are valid only in the interval with their number
    interval_number: u32,
}

/// A thread that was hot in this interval.
#[derive(Debug)]
struct HotThread {
    task: TaskId,
    group: u16,
    /// Sub-samples that saw it asleep in a pipe, and in a socket
    pipe_count: u16,
    socket_count: u16,
}

/// What is read at the same moment as the threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubSampleReadings {
    pub boottime_ns: u64,
    pub cpu: Option<CpuTimes>,
    pub in_flight: Option<u32>,
}

impl WaitCounter {
    /// Reads the owners of locks inside the kernel from now on, where the kernel lets this program load an eBPF program.
    /// `program`: the path of stalltop, run again as the loader.
    pub fn enable_kernel_lock_owners(&mut self, program: PathBuf, machine: Name, max_cpu_share: Option<f64>) {
        self.kernel_lock_owners = KernelLockOwners::new(program, machine, max_cpu_share);
    }

    /// Finds the holders of mutexes that name no owner from now on, where the kernel lets this program load an eBPF program.
    /// `program`: the path of stalltop, run again as the loader.
    pub fn enable_lock_wakers(&mut self, program: PathBuf, machine: Name, max_cpu_share: Option<f64>) {
        self.lock_wakers = LockWakers::new(program, machine, max_cpu_share);
    }

    /// Limits the cost of the lock-waker program, by the context switches of the machine since boot; once a sample.
    pub fn limit_lock_wakers(&mut self, switches: Option<Counter>, now_ns: u64) {
        self.lock_wakers.limit_cost(switches, now_ns);
    }

    /// Reads what processes of PostgreSQL say that they wait for, before they are counted.
    pub fn read_wait_events(&mut self, scanner: &mut TaskScanner) {
        self.wait_events.read(scanner);
    }

    /// Reads for which locks of Java threads wait, before they are counted.
    pub fn read_java_locks(&mut self, root: &Root, scanner: &mut TaskScanner) {
        self.java_locks.read(root, scanner);
    }

    /// Counts what the hot threads of these processes were doing when they were last read.
    pub fn record_sub_sample<'a>(
        &mut self,
        sub_sampled: impl Iterator<Item = &'a mut KnownProcess>,
        readings: SubSampleReadings,
    ) {
        self.lock_owners.clear_waiters();
        self.lock_wakers.clear_waiters();
        self.kernel_lock_owners.clear_waiters();
        self.stuck.clear();
        for known in sub_sampled.filter(|known| known.hot_threads().next().is_some()) {
            // Threads of more than 65,536 groups are not counted.
            let Some(group) = self.group_number(known) else { continue };
            let (may_read_memory, clock_ns) = (!known.memory_read_may_hang(), known.current_clock_ns());
            known.for_each_hot_thread(|process, thread, sampled| {
                if thread.is_hot(readings.boottime_ns) {
                    self.count_thread(process, thread, sampled.start_ticks, group, readings);
                    let is_shared = thread.wait.syscall().is_ok_and(|call| is_shared_operation(call.arguments[1]));
                    if thread.wait_event == Some(WaitEvent::WAL_WRITE_LOCK) {
                        self.wait_events.add_waiter(process.ppid, group, process.pid);
                    }
                    if let Some(address) = thread.likely_mutex().filter(|_| !is_shared) {
                        self.lock_wakers.add_waiter(group, (process.pid, thread.tid), address);
                    }
                    let in_futex = thread.futex_wait.filter(|_| may_read_memory && thread.wait_class.is_some());
                    if let (Some(lock), Some(_)) = (thread.java_wait.lock(), in_futex) {
                        self.java_locks.add_waiter(group, process.pid, lock);
                    } else if let Some(futex) = in_futex.filter(|_| !thread.waits_for_no_rw_lock()) {
                        let call = FutexCall { wait: futex, is_shared, has_timeout: thread.has_timeout };
                        thread.set_behind_named_owner(self.lock_owners.add_waiter(group, (process.pid, clock_ns), call));
                    }
                }
            });
        }
        let SubSampleReadings { boottime_ns, cpu, in_flight } = readings;
        self.waits.sub_samples.push(SubSample { boottime_ns, cpu, in_flight, waits: self.group_counts.take_rows() });
    }

    /// Reads the owners of the locks for which the threads of the last sub-sample wait.
    pub fn read_lock_owners(&mut self, files: &mut TaskFiles, machine: &[u8]) {
        let Some(last) = self.waits.sub_samples.last() else { return };
        let number = u16::try_from(self.waits.sub_samples.len() - 1).unwrap_or(u16::MAX);
        self.lock_owners.read_owners(files, (number, last.boottime_ns));
        let (lock_owners, now_ns) = (&mut self.lock_owners, last.boottime_ns);
        self.lock_wakers.read_holders(files, now_ns, |lock, holder| {
            lock_owners.record(lock, BlockedWait { last_sub_sample: number, blocked_since_ns: now_ns, ..holder });
        });
        self.wait_events.find_holders(files, machine, |lock, is_read, holder| {
            let holder = holder.map(|holder| BlockedWait { last_sub_sample: number, blocked_since_ns: now_ns, ..holder });
            lock_owners.record_reading(lock, is_read, holder);
        });
        self.java_locks.find_owners(files, |lock, is_read, owner| {
            let owner = owner.map(|owner| BlockedWait { last_sub_sample: number, blocked_since_ns: now_ns, ..owner });
            lock_owners.record_reading(lock, is_read, owner);
        });
        self.kernel_lock_owners.read_owners(files, (number, last.boottime_ns));
    }

    /// The threads that the last sub-sample saw blocked or behind a lock.
    pub fn stuck_threads(&self) -> &[StuckThread] {
        &self.stuck
    }

    /// A sub-sample was due and was not taken, because of its budget.
    pub fn record_skipped(&mut self) {
        self.waits.skipped_sub_samples = self.waits.skipped_sub_samples.saturating_add(1);
    }

    /// Ends the interval and returns what was seen in it. `blocked::resolve_files` adds the files that threads wait for.
    pub fn finish_interval(&mut self) -> IntervalWaits {
        self.interval_number = self.interval_number.wrapping_add(1);
        self.group_numbers.clear();
        let on_storage = std::mem::take(&mut self.on_storage);
        let mut waits = std::mem::take(&mut self.waits);
        waits.blocked = blocked::select_threads(self.blocked.drain().map(|(_, waits)| waits).collect());
        let (queues, waiters) = self.wait_queues.finish_interval();
        waits.wait_queues = queues;
        waits.lock_owners = self.lock_owners.finish_interval();
        self.wait_events.finish_interval();
        self.java_locks.finish_interval();
        (waits.kernel_lock_owners, waits.kernel_lock_readings) =
            self.kernel_lock_owners.finish_interval(&mut waits.lock_owners);
        waits.observed = self.observed.finish_interval();
        waits.threads.reserve_exact(self.sightings.len());
        for ((place, wait), seen_count) in self.sightings.drain() {
            let Some(&HotThread { task, group, .. }) = self.threads.get(place) else { continue };
            waits.threads.push(ThreadWait { task, wait, group, seen_count });
        }
        waits.threads.sort_unstable_by_key(|row| (row.task, row.wait));
        self.threads.sort_unstable_by_key(|thread| thread.task);
        let mut ipc_threads = Vec::new();
        for HotThread { task, group, pipe_count, socket_count } in self.threads.drain(..) {
            if pipe_count > 0 || socket_count > 0 {
                let on_storage = on_storage.get(usize::from(group)).copied().unwrap_or(false);
                ipc_threads.push(IpcThread { task, group, pipe_count, socket_count, beside_storage: on_storage });
            }
        }
        IntervalWaits { waits, waiters, ipc_threads }
    }

    fn group_number(&mut self, known: &mut KnownProcess) -> Option<u16> {
        if let Some(number) = known.group_number(self.interval_number) {
            return Some(number);
        }
        let group = known.sampled.group();
        let number = match self.group_numbers.get(&group) {
            Some(&number) => number,
            None => {
                let number = u16::try_from(self.waits.groups.len()).ok()?;
                self.waits.groups.push(group.clone());
                self.on_storage.push(false);
                self.group_numbers.insert(group, number);
                number
            }
        };
        known.set_group_number(self.interval_number, number);
        Some(number)
    }

    fn count_thread(
        &mut self,
        of: &Process,
        thread: &mut KnownThread,
        start_ticks: u64,
        group: u16,
        readings: SubSampleReadings,
    ) {
        // State and wait contradict each other: not counted in this sub-sample.
        let Some(class) = thread.wait_class else { return };
        let task = TaskId { pid: of.pid, tid: thread.tid, start_ticks };
        let active = thread.is_active(readings.boottime_ns);
        let wait = self.observed.number(thread);
        self.group_counts.add((group, wait, active), thread.lock_address(), &mut self.wait_queues);
        let place = match thread.wait_record {
            Some((interval, place)) if interval == self.interval_number => place,
            _ => {
                let place = self.threads.len();
                self.threads.push(HotThread { task, group, pipe_count: 0, socket_count: 0 });
                thread.wait_record = Some((self.interval_number, place));
                place
            }
        };
        let seen_count = self.sightings.entry((place, wait)).or_default();
        *seen_count = seen_count.saturating_add(1);
        match (class, self.threads.get_mut(place)) {
            (WaitClass::Lock, _) if thread.futex_wait.is_none() => {
                let in_file_lock = thread.wait.wchan.as_ref().is_ok_and(|wchan| class::is_file_lock(wchan.as_bytes()));
                if thread.state == TaskState::Blocked && !in_file_lock {
                    self.kernel_lock_owners.add_waiter((of.pid, thread.tid), group, &thread.wait);
                }
                let waiter = Waiter { pid: of.pid, syscall: thread.wait.syscall().ok(), in_file_lock };
                self.wait_queues.add_with_file(group, wait, waiter);
            }
            (WaitClass::Pipe, Some(hot)) => hot.pipe_count = hot.pipe_count.saturating_add(1),
            (WaitClass::Net, Some(hot)) => hot.socket_count = hot.socket_count.saturating_add(1),
            _ => {}
        }
        if matches!(thread.state, TaskState::Blocked | TaskState::Sleeping)
            && class == WaitClass::Disk
            && let Some(on_storage) = self.on_storage.get_mut(usize::from(group))
        {
            *on_storage = true;
        }
        // An idle service waits for completions, too.
        let blocked = is_blocked(thread.state, class) && (class != WaitClass::Aio || readings.in_flight != Some(0));
        let waits_for_lock = class == WaitClass::Lock || thread.waits_for_named_owner();
        if (blocked || waits_for_lock) && self.stuck.len() < MAX_STUCK_THREADS {
            let timeslices = thread.schedstat.map(|schedstat| schedstat.timeslices.0);
            self.stuck.push(StuckThread { task, waits_for_lock, timeslices });
        }
        if !blocked {
            return;
        }
        let last_sub_sample = u16::try_from(self.waits.sub_samples.len()).unwrap_or(u16::MAX);
        let wait = BlockedWait {
            wchan: thread.wait.wchan.clone().ok(),
            syscall: thread.wait.syscall().ok(),
            last_sub_sample,
            blocked_since_ns: thread.waiting_since_ns(),
            ..BlockedWait::new(task, group, thread.comm.clone(), thread.state)
        };
        blocked::record(self.blocked.entry(place).or_default(), ClassifiedWait { class, wait });
    }
}

/// What was seen in an interval, and the threads whose files and peers are to be read.
#[derive(Debug)]
pub struct IntervalWaits {
    pub waits: Waits,
    /// Parallel to `waits.wait_queues`: the thread whose file is read
    waiters: Vec<Option<Waiter>>,
    ipc_threads: Vec<IpcThread>,
}

/// An active thread that was seen asleep in a pipe or socket.
#[derive(Clone, Copy, Debug)]
struct IpcThread {
    task: TaskId,
    group: u16,
    /// Sub-samples that saw it in a pipe, and in a socket
    pipe_count: u16,
    socket_count: u16,
    /// A thread of its group was seen on storage.
    beside_storage: bool,
}

/// Whether the thread itself is kept in `Waits::blocked`.
fn is_blocked(state: TaskState, class: WaitClass) -> bool {
    match state {
        TaskState::Blocked => !matches!(class, WaitClass::Vfork | WaitClass::Frozen),
        TaskState::Sleeping => matches!(class, WaitClass::Memory | WaitClass::Aio | WaitClass::Disk),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_threads_are_selected_by_state_and_class() {
        use TaskState::{Blocked, Running, Sleeping};
        let cases = [
            (Running, WaitClass::Running, false),
            (Blocked, WaitClass::Disk, true),
            (Sleeping, WaitClass::Disk, true),
            (Blocked, WaitClass::Lock, true),
            (Blocked, WaitClass::Vfork, false),
            (Blocked, WaitClass::Frozen, false),
            (Blocked, WaitClass::Hidden, true),
            (Blocked, WaitClass::Other, true),
            (Sleeping, WaitClass::Aio, true),
            (Sleeping, WaitClass::Lock, false),
            (Sleeping, WaitClass::Futex, false),
            (Sleeping, WaitClass::Net, false),
            (Sleeping, WaitClass::Poll, false),
            (Sleeping, WaitClass::Hidden, false),
        ];
        for (state, class, blocked) in cases {
            assert_eq!(is_blocked(state, class), blocked, "{state:?} {class:?}");
        }
    }
}
