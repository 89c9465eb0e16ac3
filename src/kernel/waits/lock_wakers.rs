//! The holders of mutexes that name no owner, as those of Rust's standard library: which thread was woken last there, by an eBPF
//! program (`probe/lock_wakers`) that is attached while such a queue exists.
//!
//! A mutex with waiters wakes one thread each time that it is released. The thread that was woken last takes it, and holds it while it
//! does not wait there again; if it does, the thread that woke it has taken the mutex once more, provided that it was seen to wait there
//! itself (a thread that hands out work never does), or that the holder of another mutex waits there. Whether this is so is checked each
//! time: the holder is the thread that wakes the next one. `interval::lock_graph` decides what is believed.

mod holder_checks;
mod queue_histories;

use std::cmp::Reverse;
use std::path::PathBuf;

use nix::time::ClockId;
use rustc_hash::FxHashMap;

use self::holder_checks::HolderChecks;
use self::queue_histories::{QueueHistories, QueueHistory};
use super::cost_limit::CostLimit;
use super::holder_wait::read_holder_wait;
use super::lock_owners::FutexLock;
use crate::ids::TaskId;
use crate::kernel::clock::clock_ns;
use crate::kernel::probe::loader_process::TaskAccess;
use crate::kernel::probe::lock_wakers::{LockWakersProbe, LockWakes, MAX_LOCKS};
use crate::kernel::probe::on_demand::OnDemandProbe;
use crate::kernel::task::files::TaskFiles;
use crate::kernel::task::parse_schedstat;

use crate::sample::Name;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, OwnerField, Syscall};
use crate::units::{Counter, SmallSort};

/// A thread that was woken less than this ago and is runnable may not have taken the mutex yet.
const MIN_AWAKE_NS: u64 = 1_000_000;
/// CPU time that the program adds to a context switch: docs/cost.md.
fn ns_per_switch(access: TaskAccess) -> u64 {
    match access {
        TaskAccess::Types => 70,
        TaskAccess::Layout => 107,
    }
}

/// Queues at such mutexes, and the program.
#[derive(Debug, Default)]
pub struct LockWakers {
    probe: OnDemandProbe<LockWakersProbe>,
    /// `utsname.machine`
    machine: Name,
    /// Of the current sub-sample
    queues: FxHashMap<Place, Queue>,
    histories: QueueHistories,
    watched: [Option<WatchedLock>; MAX_LOCKS],
    cost: CostLimit,
}

/// Pid and address.
type Place = (u32, u64);

/// Threads that wait at one address.
#[derive(Debug)]
struct Queue {
    group: u16,
    tids: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct WatchedLock {
    place: Place,
    checks: HolderChecks,
}

impl LockWakers {
    /// `program`: the path of stalltop, run again as the loader. With a share, of one CPU, the eBPF program is not attached where
    /// it would take more.
    pub fn new(program: PathBuf, machine: Name, max_cpu_share: Option<f64>) -> LockWakers {
        let cost = CostLimit::new(max_cpu_share);
        LockWakers { probe: OnDemandProbe::new(program), machine, cost, ..LockWakers::default() }
    }

    /// Begins a sub-sample.
    pub fn clear_waiters(&mut self) {
        self.queues.clear();
    }

    /// Counts a thread that waits without a timeout as for such a mutex.
    pub fn add_waiter(&mut self, group: u16, (pid, tid): (u32, u32), address: u64) {
        self.queues.entry((pid, address)).or_insert(Queue { group, tids: Vec::new() }).tids.push(tid);
    }

    /// Ends the sub-sample: calls `record` with each mutex, the thread that is taken for its holder, and what that does.
    pub fn read_holders(&mut self, files: &mut TaskFiles, now_ns: u64, mut record: impl FnMut(FutexLock, BlockedWait)) {
        self.histories.update(self.queues.iter().map(|(&place, queue)| (place, queue.tids.as_slice())), now_ns);
        let mut to_watch = self.histories.standing(now_ns);
        if !to_watch.is_empty() && self.cost.allows(now_ns) {
            self.probe.request(now_ns);
        }
        // It is also asked while no queue stands, so that its loader is reaped.
        let Some(probe) = self.probe.get() else { return };
        if to_watch.is_empty() || !self.cost.allows(now_ns) {
            if probe.is_attached() {
                probe.detach();
                (0..MAX_LOCKS).for_each(|place| probe.forget(place));
                self.watched = Default::default();
            }
            return;
        }
        if probe.attach().is_err() {
            return;
        }
        // Mutexes for which the holder of another mutex waits come first, then those that are watched and were released.
        let waiters = |place: &Place| self.queues.get(place).map_or(0, |queue| queue.tids.len());
        let is_chained = |place: &Place| self.histories.get(*place).is_some_and(|queue| queue.is_chained(now_ns));
        let has_wake_ups = |place: &Place| {
            let number = self.watched.iter().position(|watched| watched.is_some_and(|lock| lock.place == *place));
            number.is_some_and(|number| probe.read(number).wake_ups > 0)
        };
        to_watch.small_sort_by_key(|place| (!is_chained(place), !has_wake_ups(place), Reverse(waiters(place)), *place));
        to_watch.truncate(MAX_LOCKS);
        watch(&mut self.watched, probe, &to_watch);
        for (number, watched) in self.watched.iter_mut().enumerate() {
            let Some(watched) = watched else { continue };
            let Some(queue) = self.queues.get(&watched.place) else { continue };
            let Some(history) = self.histories.get(watched.place) else { continue };
            watched.checks.check(probe.read(number).first_waker);
            // What wakes a thread from now on shows whether the holder was the right one.
            probe.clear_first_waker(number);
            let holder = watched.find_holder(files, &self.machine, || probe.read(number), (queue, history), now_ns);
            let Some(holder) = holder else { continue };
            watched.checks.begin(holder.task.tid);
            let (pid, address) = watched.place;
            if let Some(next) = futex_address(&self.machine, &holder, |call| call.is_likely_mutex() && !call.is_shared_futex())
            {
                self.histories.chain((pid, next), now_ns);
            }
            let (group, field) = (queue.group, OwnerField::Waker(watched.checks.counts()));
            let waiters = u32::try_from(queue.tids.len()).unwrap_or(u32::MAX);
            record(
                FutexLock { group, pid, address, is_shared: false, field, waiters, timed_waiters: 0, awaited_java_lock: None },
                holder,
            );
        }
    }

    /// Limits the cost, by the context switches of the machine since boot; once a sample.
    pub fn limit_cost(&mut self, switches: Option<Counter>, now_ns: u64) {
        // Until it is loaded it is attached to nothing.
        let access = self.probe.get().map_or(TaskAccess::Types, |probe| probe.access());
        self.cost.update(switches, ns_per_switch(access), now_ns);
    }
}

/// Has the program watch these queues; those that it watches already keep their places.
fn watch(watched: &mut [Option<WatchedLock>; MAX_LOCKS], probe: &LockWakersProbe, to_watch: &[Place]) {
    for (number, entry) in watched.iter_mut().enumerate() {
        if entry.as_ref().is_some_and(|lock| !to_watch.contains(&lock.place)) {
            probe.forget(number);
            *entry = None;
        }
    }
    for &place in to_watch {
        if watched.iter().flatten().any(|lock| lock.place == place) {
            continue;
        }
        if let Some((number, entry)) = watched.iter_mut().enumerate().find(|(_, entry)| entry.is_none()) {
            probe.watch(number, place.0, place.1);
            *entry = Some(WatchedLock { place, checks: HolderChecks::default() });
        }
    }
}

impl WatchedLock {
    /// The thread that holds the mutex, and what it does.
    fn find_holder(
        &self,
        files: &mut TaskFiles,
        machine: &Name,
        read: impl Fn() -> LockWakes,
        (queue, history): (&Queue, &QueueHistory),
        now_ns: u64,
    ) -> Option<BlockedWait> {
        let (pid, address) = self.place;
        let before = read();
        if before.first_waker.is_some() {
            return None;
        }
        let mut threads = [before.woken, before.waker.filter(|&tid| history.may_hold(tid, now_ns))];
        if queue.tids.len() == 1 {
            // The thread that was woken last may have released the mutex while none waited.
            threads.reverse();
        }
        let mut holder = None;
        for tid in threads.into_iter().flatten() {
            // Only one that waits there leads on: one that cannot be read may be the holder.
            let wait = read_holder_wait(files, pid, tid, queue.group)?;
            if !waits_at(machine, &wait, address) {
                holder = Some(wait);
                break;
            }
        }
        let wait = holder?;
        let since_ns = clock_ns(ClockId::CLOCK_MONOTONIC).saturating_sub(before.woken_ns);
        if wait.state == TaskState::Running
            && (since_ns < MIN_AWAKE_NS || (before.woken == Some(wait.task.tid) && !has_run_since(files, &wait, &before)?))
        {
            return None;
        }
        // A mutex that was passed on in between has a holder that did something else.
        (read() == before).then_some(wait)
    }
}

/// Whether the thread that was woken last got a CPU since: otherwise it has not taken the mutex. `None`: it ended.
fn has_run_since(files: &mut TaskFiles, woken: &BlockedWait, wakes: &LockWakes) -> Option<bool> {
    let Some(until_then) = wakes.woken_timeslices else { return Some(true) };
    let TaskId { pid, tid, .. } = woken.task;
    let schedstat = parse_schedstat(files.read_once(format_args!("{pid}/task/{tid}/schedstat")).ok()?)?;
    Some(schedstat.timeslices.0 > until_then)
}

fn waits_at(machine: &Name, wait: &BlockedWait, address: u64) -> bool {
    futex_address(machine, wait, |_| true) == Some(address)
}

/// The address of its futex call, if it is one of this kind.
fn futex_address(machine: &Name, wait: &BlockedWait, is_kind: impl Fn(Syscall) -> bool) -> Option<u64> {
    let call = wait.syscall.and_then(|call| Syscall::from_number(machine.as_bytes(), call));
    Some(call.filter(|&call| is_kind(call))?.futex_wait()?.address())
}
