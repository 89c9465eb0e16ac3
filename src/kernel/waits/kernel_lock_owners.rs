//! The owners of locks inside the kernel for which threads in D wait, by the eBPF task iterator (`kernel/probe`), and what those
//! threads do. Without the iterator, and while no thread waits so, nothing is read.

mod contention_use;

use std::cmp::Reverse;
use std::path::PathBuf;

use rustc_hash::FxHashMap;

use self::contention_use::ContentionUse;
use super::holder_wait::{is_same_wait, read_holder_wait};
use crate::kernel::clock::thread_cpu_ns;
use crate::kernel::probe::on_demand::OnDemandProbe;
use crate::kernel::probe::{LockKind, LockRow, TaskIterator};
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Name;
use crate::sample::task::{TaskState, WaitState};
use crate::sample::waits::{BlockedWait, KernelLockOwner, LockOwner, MAX_LOCK_OWNERS, OwnerField, Syscall, class};
use crate::units::{Counter, SmallSort};

/// Locks whose owner is read in one sub-sample, those with the most waiters first.
const MAX_LOCKS: usize = 8;
/// Sightings of waiting threads from which the iterator is loaded, within an interval: four threads at once, or one for 0.4 s.
const MIN_SIGHTINGS: u32 = 4;
/// The next reading is due after this multiple of the CPU time of the last one: they take 1 ms a second.
const INTERVAL_PER_TIME: u64 = 1000;
/// A reading is due after this time at the latest, so that each second has two.
const MAX_INTERVAL_NS: u64 = 500_000_000;
/// It is not due before this multiple of the CPU time of the last one, so that they take 4 ms a second at most.
const MIN_INTERVAL_PER_TIME: u64 = 250;

/// The threads that wait, and the owners seen since the last sample.
#[derive(Debug, Default)]
pub struct KernelLockOwners {
    iterator: OnDemandProbe<TaskIterator>,
    contention: ContentionUse,
    /// `utsname.machine`
    machine: Name,
    /// Of the current sub-sample, by tid
    waiters: FxHashMap<u32, KernelLockWaiter>,
    /// Waiting threads that were seen in this interval; once there were `MIN_SIGHTINGS` it counts no further
    sightings: u32,
    /// CLOCK_BOOTTIME from which the next reading is due
    next_reading_ns: u64,
    readings: u32,
    /// Numbers of the locks of this interval, by address
    numbers: FxHashMap<u64, u32>,
    rows: Vec<KernelLockOwner>,
    /// The lock for which a thread was last seen to wait in this interval, by tid
    waiting: FxHashMap<u32, u32>,
    /// Of the last reading, with the timeslices of the thread: one that has not run since is not read again
    last_owners: Vec<(u64, BlockedWait)>,
}

/// A thread in D that waits for a lock inside the kernel.
#[derive(Clone, Copy, Debug)]
struct KernelLockWaiter {
    group: u16,
    pid: u32,
    place: WaitPlace,
}

/// What the wait channel of a thread says of mmap_lock of its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitPlace {
    /// It waits for it.
    OwnMmapLock,
    /// It may wait for it, as older kernels (5.15) show a wait of a call that changes the memory map: in the function of the rw-semaphore itself
    RwSemaphoreOfMemoryMapCall,
    Other,
}

/// A lock for which threads wait in one reading.
struct ContendedLock {
    /// One of the rows that name its owner
    row: LockRow,
    /// By group, how many threads wait
    waiters: Vec<(u16, u32)>,
}

impl KernelLockOwners {
    /// `program`: the path of stalltop, run again as the loader. With a share, of one CPU, the programs at the tracepoints of contention
    /// are not attached where they would take more.
    pub fn new(program: PathBuf, machine: Name, max_cpu_share: Option<f64>) -> KernelLockOwners {
        let contention = ContentionUse::new(max_cpu_share);
        KernelLockOwners { iterator: OnDemandProbe::new(program), contention, machine, ..KernelLockOwners::default() }
    }

    /// Begins a sub-sample.
    pub fn clear_waiters(&mut self) {
        self.waiters.clear();
    }

    /// A thread in D that waits for a lock inside the kernel.
    pub fn add_waiter(&mut self, (pid, tid): (u32, u32), group: u16, wait: &WaitState) {
        self.waiters.insert(tid, KernelLockWaiter { group, pid, place: WaitPlace::of_wait(&self.machine, wait) });
    }

    /// Ends the sub-sample with this number: reads the owners of the locks with the most waiters.
    pub fn read_owners(&mut self, files: &mut TaskFiles, (sub_sample, now_ns): (u16, u64)) {
        if !self.waiters.is_empty() {
            self.contention.saw_waiters(now_ns);
        }
        // It is also asked while no thread waits, so that its loader is reaped, and the programs are detached.
        if let Some(programs) = self.iterator.get().and_then(TaskIterator::contention) {
            self.contention.update(programs, now_ns);
        }
        if self.sightings < MIN_SIGHTINGS {
            self.sightings = self.sightings.saturating_add(u32::try_from(self.waiters.len()).unwrap_or(u32::MAX));
            if self.sightings < MIN_SIGHTINGS {
                return;
            }
        }
        if !self.waiters.is_empty() {
            self.iterator.request(now_ns);
        }
        let Some(iterator) = self.iterator.get() else { return };
        if self.waiters.is_empty() || now_ns < self.next_reading_ns {
            return;
        }
        let begin = thread_cpu_ns();
        if let Ok(rows) = iterator.read_locks() {
            self.readings = self.readings.saturating_add(1);
            self.record_reading(files, &rows, (sub_sample, now_ns));
        }
        let cost_ns = thread_cpu_ns().saturating_sub(begin);
        let latest_ns = MAX_INTERVAL_NS.max(cost_ns.saturating_mul(MIN_INTERVAL_PER_TIME));
        self.next_reading_ns = now_ns.saturating_add(cost_ns.saturating_mul(INTERVAL_PER_TIME).min(latest_ns));
    }

    /// Ends the interval: the rows, and the number of readings. Owners of futex locks that wait for a lock inside the kernel get its
    /// number.
    pub fn finish_interval(&mut self, lock_owners: &mut [LockOwner]) -> (Vec<KernelLockOwner>, u32) {
        for row in lock_owners.iter_mut().filter(|row| row.owner.state == TaskState::Blocked) {
            row.kernel_lock = self.waiting.get(&row.owner.task.tid).copied();
        }
        if self.sightings < MIN_SIGHTINGS {
            self.sightings = 0;
        }
        self.waiting.clear();
        self.numbers.clear();
        let mut rows = std::mem::take(&mut self.rows);
        if rows.len() > MAX_LOCK_OWNERS {
            rows.small_sort_by_key(|row| (Reverse(row.waiters), row.group, row.lock));
            rows.truncate(MAX_LOCK_OWNERS);
        }
        rows.small_sort_by_key(|row| (row.group, row.lock, row.owner.task, row.owner.last_sub_sample));
        (rows, std::mem::take(&mut self.readings))
    }

    fn record_reading(&mut self, files: &mut TaskFiles, rows: &[LockRow], (sub_sample, now_ns): (u16, u64)) {
        let rows: Vec<LockRow> = rows.iter().filter(|row| self.is_waiter(row)).copied().collect();
        let says_its_lock = |row: &&LockRow| !row.is_by_contention && self.waiters.contains_key(&row.tid);
        self.contention.saw_reading(rows.iter().filter(says_its_lock).count() < self.waiters.len(), now_ns);
        for row in &rows {
            let lock = self.number(row.lock);
            self.waiting.insert(row.tid, lock);
        }
        let waits_for: FxHashMap<u32, u64> = rows.iter().map(|row| (row.tid, row.lock)).collect();
        let mut last_owners = std::mem::take(&mut self.last_owners);
        let mut owners = Vec::new();
        for ContendedLock { row, waiters } in contended_locks(&rows, &self.waiters) {
            let known = last_owners.iter().position(|(timeslices, wait)| {
                wait.task.tid == row.owner_tid && *timeslices == row.owner_timeslices && !row.owner_is_runnable
            });
            let owner = match known {
                _ if self.is_old_reader(&row) => None,
                Some(at) => Some(last_owners.swap_remove(at).1),
                None => read_owner(files, &row),
            };
            let Some(owner) = owner else { continue };
            let lock = self.number(row.lock);
            let waits_for = waits_for.get(&row.owner_tid).map(|&lock| self.number(lock));
            for (group, waiters) in waiters {
                self.record(KernelLockOwner {
                    group,
                    lock,
                    field: owner_field(&row),
                    waiters,
                    waits_for,
                    owner: BlockedWait { group, last_sub_sample: sub_sample, blocked_since_ns: now_ns, ..owner.clone() },
                });
            }
            owners.push((row.owner_timeslices, owner));
        }
        self.last_owners = owners;
    }

    /// Whether the thread waits for this lock.
    fn is_waiter(&self, row: &LockRow) -> bool {
        let known = self.waiters.get(&row.tid).filter(|waiter| waiter.pid == row.pid);
        match known.map(|waiter| waiter.place) {
            _ if !row.is_mmap_lock || row.is_by_contention => true,
            Some(WaitPlace::OwnMmapLock) => true,
            // There the locks of anon_vma and i_mmap are waited for without regard to fatal signals.
            Some(WaitPlace::RwSemaphoreOfMemoryMapCall) => row.is_killable,
            _ => false,
        }
    }

    /// Whether the reader that mmap_lock names waits for it itself: it has left it before. The iterator has no row of such a thread.
    fn is_old_reader(&self, row: &LockRow) -> bool {
        let known = self.waiters.get(&row.owner_tid).filter(|waiter| waiter.pid == row.owner_pid);
        let waits = known.is_some_and(|waiter| waiter.place == WaitPlace::OwnMmapLock);
        row.owner_is_reader && row.is_mmap_lock && row.owner_pid == row.pid && waits && !row.owner_is_runnable
    }

    fn number(&mut self, address: u64) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(address).or_insert(next)
    }

    fn record(&mut self, seen: KernelLockOwner) {
        let same = self.rows.iter_mut().find(|row| {
            (row.group, row.lock, row.field, row.waits_for) == (seen.group, seen.lock, seen.field, seen.waits_for)
                && is_same_wait(&row.owner, &seen.owner)
        });
        match same {
            Some(row) => {
                row.waiters = row.waiters.saturating_add(seen.waiters);
                row.owner.seen_count = row.owner.seen_count.saturating_add(1);
                row.owner.last_sub_sample = seen.owner.last_sub_sample;
            }
            None => self.rows.push(seen),
        }
    }
}

impl WaitPlace {
    /// Of a thread in D.
    fn of_wait(machine: &Name, wait: &WaitState) -> WaitPlace {
        let Ok(function) = wait.wchan.as_ref().map(Name::as_bytes) else { return WaitPlace::Other };
        let call = || wait.syscall().ok().and_then(|call| Syscall::from_number(machine.as_bytes(), call));
        let is_rwsem = [&b"rwsem_down_read_slowpath"[..], b"rwsem_down_write_slowpath"].contains(&function);
        match class::is_own_mmap_lock(function) {
            true => WaitPlace::OwnMmapLock,
            false if is_rwsem && call().is_some_and(Syscall::is_memory_map_call) => WaitPlace::RwSemaphoreOfMemoryMapCall,
            false => WaitPlace::Other,
        }
    }
}

/// The locks with the most waiters, each with the owner that most rows name: it may change during the pass.
fn contended_locks(rows: &[LockRow], waiters: &FxHashMap<u32, KernelLockWaiter>) -> Vec<ContendedLock> {
    let mut by_lock: FxHashMap<u64, Vec<&LockRow>> = FxHashMap::default();
    for row in rows {
        by_lock.entry(row.lock).or_default().push(row);
    }
    let mut locks: Vec<ContendedLock> = by_lock.into_values().filter_map(|rows| contended_lock(&rows, waiters)).collect();
    let threads = |lock: &ContendedLock| lock.waiters.iter().map(|&(_, waiters)| waiters).sum::<u32>();
    locks.small_sort_by_key(|lock| (Reverse(threads(lock)), lock.row.tid));
    locks.truncate(MAX_LOCKS);
    locks
}

/// `None` if no thread of the sub-sample waits for it.
fn contended_lock(rows: &[&LockRow], known: &FxHashMap<u32, KernelLockWaiter>) -> Option<ContendedLock> {
    let mut waiters: Vec<(u16, u32)> = Vec::new();
    for group in rows.iter().filter_map(|row| Some(known.get(&row.tid)?.group)) {
        match waiters.iter_mut().find(|(of, _)| *of == group) {
            Some((_, count)) => *count = count.saturating_add(1),
            None => waiters.push((group, 1)),
        }
    }
    let names = |owner: u32| rows.iter().filter(|row| row.owner_tid == owner).count();
    let row = **rows.iter().max_by_key(|row| (names(row.owner_tid), row.tid))?;
    (!waiters.is_empty()).then_some(ContendedLock { row, waiters })
}

/// What the owner of a lock does; `None` if it ran since the lock named it, unless it runs, if that is not
/// known, or if it cannot hold the lock.
fn read_owner(files: &mut TaskFiles, row: &LockRow) -> Option<BlockedWait> {
    let (pid, tid) = (row.owner_pid, row.owner_tid);
    let mut wait = read_holder_wait(files, pid, tid, 0)?;
    if row.owner_is_kernel_thread {
        wait.syscall = None;
    }
    if row.owner_is_runnable {
        wait.state = TaskState::Running;
        (wait.wchan, wait.syscall) = (None, None);
        return Some(wait);
    }
    // A thread that sleeps outside of the kernel's locks has left a lock that still names it.
    let is_hint = row.owner_is_reader || row.kind == LockKind::Semaphore;
    if is_hint && wait.state != TaskState::Blocked {
        return None;
    }
    let now = files.read_once(format_args!("{pid}/task/{tid}/schedstat")).ok().and_then(task::parse_schedstat)?;
    (now.timeslices == Counter(row.owner_timeslices)).then_some(wait)
}

fn owner_field(row: &LockRow) -> OwnerField {
    match row.kind {
        LockKind::Mutex => OwnerField::KernelMutex,
        LockKind::Semaphore => OwnerField::KernelSemaphore,
        LockKind::RwSemaphore if row.owner_is_reader => OwnerField::KernelReader,
        LockKind::RwSemaphore => OwnerField::KernelWriter,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::proc_tree::{ProcTree, ThreadFiles};
    use crate::sample::task::RawSyscall;

    fn wait_in(function: &str, call: i64) -> WaitState {
        let call = RawSyscall { number: call, arguments: [0; 3] };
        WaitState { wchan: Ok(Name::from(function.as_bytes())), syscall: Ok(Arc::new(call)) }
    }

    #[test]
    fn older_kernels_name_the_function_of_the_rw_semaphore_in_calls_that_change_the_memory_map() {
        let place = |function: &str, call: i64| WaitPlace::of_wait(&Name::from(&b"x86_64"[..]), &wait_in(function, call));
        let (mmap, rename) = (9, 82);
        let may_be = WaitPlace::RwSemaphoreOfMemoryMapCall;
        assert_eq!(["rwsem_down_write_slowpath", "rwsem_down_read_slowpath"].map(|name| place(name, mmap)), [may_be; 2]);
        assert_eq!(place("rwsem_down_write_slowpath", rename), WaitPlace::Other, "a directory");
        assert_eq!(place("do_user_addr_fault", -1), WaitPlace::OwnMmapLock, "a page fault");
    }

    /// Fields of the owners of mmap_lock of process 700, for which thread 701 waits in this function, and perhaps the reader that it
    /// names: 702.
    fn readers(function: &str, reader_waits: bool) -> Vec<OwnerField> {
        let blocked = |tid| ThreadFiles { state: 'D', timeslices: 7, wchan: function, ..ThreadFiles::sleeping(tid) };
        let tree = ProcTree::empty();
        tree.process(700, "server", 1, 0, &[700, 701, 702].map(blocked));
        let mut files = TaskFiles::open(&tree.root()).unwrap();
        let mut owners = KernelLockOwners::new(PathBuf::new(), Name::from(&b"x86_64"[..]), None);
        for tid in [701, 702].into_iter().take(if reader_waits { 2 } else { 1 }) {
            owners.add_waiter((700, tid), 0, &wait_in(function, 9));
        }
        let row = LockRow {
            lock: 4096,
            kind: LockKind::RwSemaphore,
            owner_is_reader: true,
            owner_is_kernel_thread: false,
            is_mmap_lock: true,
            is_killable: false,
            is_by_contention: false,
            pid: 700,
            tid: 701,
            owner_pid: 700,
            owner_tid: 702,
            owner_is_runnable: false,
            owner_timeslices: 7,
        };
        owners.record_reading(&mut files, &[row], (0, 0));
        owners.finish_interval(&mut []).0.iter().map(|row| row.field).collect()
    }

    #[test]
    fn a_reader_that_waits_for_the_lock_itself_does_not_hold_it() {
        assert_eq!(readers("vm_mmap_pgoff", false), [OwnerField::KernelReader]);
        assert_eq!(readers("vm_mmap_pgoff", true), []);
    }

    #[test]
    fn a_wait_that_no_signal_ends_in_the_function_of_the_rw_semaphore_is_for_another_lock() {
        assert_eq!(readers("rwsem_down_write_slowpath", false), []);
    }
}
