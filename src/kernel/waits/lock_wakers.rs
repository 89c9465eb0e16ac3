//! The holders of mutexes that name no owner, as those of Rust's standard library: which thread was woken last there, by an eBPF
//! program (`probe/lock_wakers`) that is attached while such a queue stands.
//!
//! A mutex with waiters wakes one thread each time that it is released. The thread that was woken last takes it, and holds it while it
//! does not wait there again; if it does, the thread that woke it has taken the mutex once more, provided that it was seen to wait there
//! itself (a thread that hands out work never does), or that the holder of another mutex waits there. Whether this is so is checked each
//! time: the holder is the thread that wakes the next one. `interval::lock_graph` decides what is believed.

mod cost_limit;

use std::cmp::Reverse;
use std::path::PathBuf;

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use self::cost_limit::CostLimit;
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
use crate::sample::waits::{BlockedWait, OwnerField, Syscall, WakerChecks};
use crate::units::{Counter, SmallSort};

/// Threads that wait at one address from which a queue is watched.
const MIN_MUTEX_WAITERS: usize = 4;
/// It is watched when it has stood for so long.
const STANDING_NS: u64 = 1_000_000_000;
/// No thread, or only one, has waited there for so long: it is not watched any longer.
const FORGET_NS: u64 = 900_000_000;
/// Threads that were seen to wait at one address are forgotten above this number, so that threads that come and go do not fill memory.
const MAX_MEMBERS: usize = 4096;
/// A thread that was woken less than this ago and is runnable may not have taken the mutex yet.
const MIN_AWAKE_NS: u64 = 1_000_000;
/// Then the counts of checks are halved, so that what comes later counts more.
const MAX_CHECKS: u32 = 64;
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
    histories: FxHashMap<Place, QueueHistory>,
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

/// An address at which threads have waited for a while.
#[derive(Debug, Default)]
struct QueueHistory {
    /// CLOCK_BOOTTIME when `MIN_MUTEX_WAITERS` threads were first seen there
    since_ns: Option<u64>,
    /// CLOCK_BOOTTIME when a holder of another such mutex was last seen to wait there
    chained_at_ns: Option<u64>,
    /// CLOCK_BOOTTIME when two threads were last seen there
    last_ns: u64,
    /// tids of the threads that were seen to wait there
    members: FxHashSet<u32>,
}

impl QueueHistory {
    /// Whether a thread that woke another one there may hold the mutex. The mutex for which the holder of another one waits may be held
    /// by a thread that is never seen to wait for it.
    fn may_hold(&self, tid: u32, now_ns: u64) -> bool {
        self.is_chained(now_ns) || self.members.contains(&tid)
    }

    /// Whether a holder of another such mutex waits there.
    fn is_chained(&self, now_ns: u64) -> bool {
        self.chained_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < FORGET_NS)
    }

    /// Whether it is to be watched: one for which the holder of another mutex waits at once.
    fn stands(&self, now_ns: u64) -> bool {
        self.is_chained(now_ns) || self.since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= STANDING_NS)
    }

    /// However few threads wait there: it leads on to what all wait for.
    fn chain(&mut self, now_ns: u64) {
        self.chained_at_ns = Some(now_ns);
        self.last_ns = now_ns;
    }
}

#[derive(Clone, Copy, Debug)]
struct WatchedLock {
    place: Place,
    /// tid of the thread that was last taken for the holder, until the next wake-up
    holder: Option<u32>,
    checks: WakerChecks,
}

impl LockWakers {
    /// `program` is this one, which is started again to load the eBPF program. With a share, of one CPU, that is not attached where it
    /// would take more.
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
        self.update_queues(now_ns);
        let mut to_watch: Vec<Place> =
            self.histories.iter().filter(|(_, queue)| queue.stands(now_ns)).map(|(&place, _)| place).collect();
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
        let is_chained = |place: &Place| self.histories.get(place).is_some_and(|queue| queue.is_chained(now_ns));
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
            let Some(history) = self.histories.get(&watched.place) else { continue };
            watched.check(probe.read(number).first_waker);
            // What wakes a thread from now on shows whether the holder was the right one.
            probe.clear_first_waker(number);
            watched.holder = None;
            let holder = watched.find_holder(files, &self.machine, || probe.read(number), (queue, history), now_ns);
            let Some(holder) = holder else { continue };
            watched.holder = Some(holder.task.tid);
            let (pid, address) = watched.place;
            if let Some(next) = futex_address(&self.machine, &holder, |call| call.is_likely_mutex() && !call.is_shared_futex())
            {
                self.histories.entry((pid, next)).or_default().chain(now_ns);
            }
            let (group, field) = (queue.group, OwnerField::Waker(watched.checks));
            let waiters = u32::try_from(queue.tids.len()).unwrap_or(u32::MAX);
            record(FutexLock { group, pid, address, is_shared: false, field, waiters, timed_waiters: 0 }, holder);
        }
    }

    /// Limits the cost, by the context switches of the machine since boot; once a sample.
    pub fn limit_cost(&mut self, switches: Option<Counter>, now_ns: u64) {
        // Until it is loaded it is attached to nothing.
        let access = self.probe.get().map_or(TaskAccess::Types, |probe| probe.access());
        self.cost.update(switches, ns_per_switch(access), now_ns);
    }

    fn update_queues(&mut self, now_ns: u64) {
        for (&place, queue) in &self.queues {
            if queue.tids.len() >= MIN_MUTEX_WAITERS {
                self.histories.entry(place).or_default().since_ns.get_or_insert(now_ns);
            }
            let Some(history) = self.histories.get_mut(&place) else { continue };
            if history.members.len() > MAX_MEMBERS.max(2 * queue.tids.len()) {
                history.members.clear();
            }
            history.members.extend(&queue.tids);
            if queue.tids.len() > 1 {
                history.last_ns = now_ns;
            }
        }
        self.histories.retain(|_, queue| now_ns.saturating_sub(queue.last_ns) < FORGET_NS);
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
            *entry = Some(WatchedLock { place, holder: None, checks: WakerChecks::default() });
        }
    }
}

impl WatchedLock {
    /// `waker`: the first thread that woke another one since the last sub-sample. The last dozens of checks count, more than one
    /// interval has.
    fn check(&mut self, waker: Option<u32>) {
        let Some(waker) = waker else { return };
        let Some(holder) = self.holder.take() else { return };
        if self.checks.made >= MAX_CHECKS {
            self.checks = WakerChecks { made: self.checks.made / 2, confirmed: self.checks.confirmed / 2 };
        }
        self.checks.made += 1;
        self.checks.confirmed += u32::from(holder == waker);
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Place = (7, 0x1000);

    fn lock() -> WatchedLock {
        WatchedLock { place: LOCK, holder: None, checks: WakerChecks::default() }
    }

    fn checked(pairs: &[(u32, u32)]) -> WatchedLock {
        let mut lock = lock();
        for &(holder, waker) in pairs {
            lock.holder = Some(holder);
            lock.check(Some(waker));
        }
        lock
    }

    #[test]
    fn a_holder_is_checked_by_the_thread_that_wakes_the_next_one() {
        assert_eq!(checked(&[(1, 1), (2, 2), (3, 9)]).checks, WakerChecks { made: 3, confirmed: 2 });
        let many = checked(&[(1, 1); 100]);
        assert_eq!(many.checks, WakerChecks { made: 36, confirmed: 36 }, "halved at 64");
    }

    #[test]
    fn a_holder_that_has_woken_no_thread_is_not_checked() {
        let mut lock = lock();
        lock.holder = Some(4);
        lock.check(None);
        assert_eq!((lock.holder, lock.checks), (Some(4), WakerChecks::default()));
    }

    #[test]
    fn a_queue_stands_after_a_second_and_is_forgotten_when_it_is_gone() {
        let mut wakers = LockWakers::default();
        let mut at = |ms: u64, waiters: u32| {
            wakers.clear_waiters();
            (0..waiters).for_each(|tid| wakers.add_waiter(0, (LOCK.0, tid), LOCK.1));
            wakers.update_queues(ms * 1_000_000);
            wakers.histories.get(&LOCK).and_then(|queue| queue.since_ns).map(|since_ns| since_ns / 1_000_000)
        };
        assert_eq!(
            [at(100, 3), at(200, 4), at(300, 2), at(1000, 1), at(1100, 5), at(2100, 0)],
            [None, Some(200), Some(200), Some(200), Some(200), None]
        );
    }

    #[test]
    fn a_queue_that_leads_on_stands_at_once_and_only_while_it_does() {
        let ms = |ms: u64| ms * 1_000_000;
        let mut queue =
            QueueHistory { since_ns: Some(ms(5000)), members: FxHashSet::from_iter([1]), ..QueueHistory::default() };
        assert!(!queue.stands(ms(5500)));
        queue.chain(ms(5500));
        assert!(queue.stands(ms(5600)) && queue.may_hold(2, ms(5600)));
        let after = ms(6400);
        assert!(queue.stands(after), "it has stood for a second since it was first seen");
        assert!(queue.may_hold(1, after) && !queue.may_hold(2, after), "a thread that never waited there hands out work");
        let mut other = QueueHistory::default();
        other.chain(ms(5500));
        assert!(other.stands(ms(5600)) && !other.stands(after));
    }
}
