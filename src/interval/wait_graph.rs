//! The wait-for graph of a trace: which futexes are locks, which threads hold them, what these do meanwhile, and the critical path.
//! docs/metrics.md, "Traces of wake-ups".

use std::collections::BTreeMap;

use crate::sample::wakes::{HeldTime, TracedFutex, TracedWait, WaitPlace, Wakes};
use crate::units::{SmallSort, reaches_threshold};

/// The wait-for graph of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitGraph {
    pub seconds: f64,
    /// Those with most waiting threads first
    pub locks: Vec<Lock>,
    /// What threads wait in that is no lock, most threads first
    pub other_waits: Vec<OtherWait>,
    /// From the lock with most waiting threads to what its holders do; empty without a lock
    pub critical_path: Vec<PathStep>,
    pub wake_ups: u64,
    /// `None`: not known
    pub lost_events: Option<u64>,
    /// The programs were detached for a part of the time: the end of what was held then is not in `held_ratio`
    pub held_is_lower_bound: bool,
}

/// A futex that is a lock: the thread that wakes others there has held it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Index into `Wakes::futexes`
    pub futex: usize,
    /// Mean number of threads that wait for it
    pub waiters: f64,
    /// Different threads that waited for it
    pub waiting_threads: usize,
    pub wake_ups: u64,
    pub evidence: LockEvidence,
    /// Longest first
    pub holders: Vec<Holder>,
    pub while_held: WhileHeld,
    /// Which thread waited for which, most time first
    pub edges: Vec<Edge>,
}

/// A thread that waited for a lock, and the one that woke it there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// Index into `Wakes::threads`
    pub thread: usize,
    /// Index into `Wakes::threads`; `None`: it still waits, or something else woke it
    pub holder: Option<usize>,
    pub wake_ups: u64,
    /// Share of the trace, 0 to 1
    pub waiting_ratio: f64,
}

/// Why a futex is taken for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvidence {
    /// All its waits were with a value that only locks wait with
    Value,
    /// The threads that were woken there wake the next ones there, and the times in between are most of the trace
    PassedOn,
}

/// A thread that held a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// Index into `Wakes::threads`
    pub thread: usize,
    /// Wake-ups at the futex by it
    pub wake_ups: u64,
    /// Share of the trace, 0 to 1, in which it held the lock while others waited: `HeldTime`
    pub held_ratio: f64,
}

/// What the holders of a lock do, as shares of the time that they hold it, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WhileHeld {
    pub running: f64,
    /// Runnable, waiting for a CPU
    pub runnable: f64,
    /// Their longest waits
    pub waiting: Option<(WaitPlace, f64)>,
}

/// Waits in one place.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherWait {
    pub place: WaitPlace,
    /// Mean number of threads
    pub threads: f64,
    pub wake_ups: u64,
    /// At a futex: the thread that woke most of them there (index into `Wakes::threads`), and how many
    pub most_by: Option<(usize, u64)>,
}

/// A step of the critical path: what the one before waits for.
#[derive(Clone, Debug, PartialEq)]
pub enum PathStep {
    /// Threads wait for a lock: index into `WaitGraph::locks`
    Lock(usize),
    /// Its holder that held it longest, with the lock
    Holder { lock: usize, holder: Holder },
    /// It runs, in this share of the time that the lock is held
    Running(f64),
    /// It waits for a CPU
    Runnable(f64),
    /// It waits in something that is no lock
    Waiting(WaitPlace, f64),
    /// It waits for a lock that is on the path already: index into `WaitGraph::locks`
    Cycle(usize),
}

/// Fewer wake-ups do not show what a futex is. docs/metrics.md, "Fixed thresholds".
const MIN_WAKE_UPS: u64 = 8;
/// Share of the wake-ups that must be by threads that were themselves woken there.
const MIN_PASSED_ON: f64 = 0.9;
/// Share of the trace from when such threads were woken to when they woke the next one: a lock with a queue is always held.
const MIN_HELD: f64 = 0.5;
/// Different threads that must have waited.
const MIN_MEMBERS: usize = 4;
/// Mean number of threads that wait for a lock from which it begins a critical path.
pub const MIN_PATH_WAITERS: f64 = 0.1;
/// Share of the time given from which it was traced all the time.
const MIN_WHOLE: f64 = 0.95;

/// The graph of a trace.
pub fn wait_graph(wakes: &Wakes) -> WaitGraph {
    let elapsed = (wakes.elapsed_ns as f64).max(1.0);
    let mut places: BTreeMap<WaitPlace, Vec<&TracedWait>> = BTreeMap::new();
    for wait in &wakes.waits {
        places.entry(wait.place).or_default().push(wait);
    }
    let mut graph = WaitGraph {
        seconds: wakes.elapsed_ns as f64 / 1e9,
        wake_ups: sum(wakes.waits.iter().map(|wait| wait.count)),
        lost_events: wakes.lost_events,
        held_is_lower_bound: (wakes.elapsed_ns as f64) < wakes.span_ns as f64 * MIN_WHOLE,
        ..WaitGraph::default()
    };
    for (place, waits) in places {
        let threads = sum(waits.iter().map(|wait| wait.blocked_ns)) as f64 / elapsed;
        let futex = match place {
            WaitPlace::Futex(index) => wakes.futexes.get(index).map(|futex| (index, futex)),
            WaitPlace::Call { .. } => None,
        };
        let evidence = futex.and_then(|(index, futex)| Some((index, lock_evidence(futex, &waits, elapsed)?)));
        match evidence {
            Some((futex, evidence)) => graph.locks.push(lock(futex, evidence, threads, &waits, elapsed)),
            None => graph.other_waits.push(other_wait(place, threads, &waits)),
        }
    }
    graph.locks.small_sort_by(|a, b| b.waiters.total_cmp(&a.waiters));
    graph.other_waits.small_sort_by(|a, b| b.threads.total_cmp(&a.threads));
    graph.critical_path = critical_path(&graph.locks);
    graph
}

/// Whether a futex is a lock. Condition variables, semaphores and idle threads are none: rather none than a wrong one.
fn lock_evidence(futex: &TracedFutex, waits: &[&TracedWait], elapsed_ns: f64) -> Option<LockEvidence> {
    if futex.wake_ups < MIN_WAKE_UPS || futex.with_timeout > 0 {
        return None;
    }
    // The counter of a condition variable would have changed with each of these wake-ups.
    if futex.lock_values == futex.waits {
        return Some(LockEvidence::Value);
    }
    let passed_on = futex.passed_on as f64 / futex.wake_ups as f64;
    let held = futex.passed_on_ns as f64 / elapsed_ns;
    let members = distinct_threads(waits);
    let is_passed_on =
        reaches_threshold(passed_on, MIN_PASSED_ON) && reaches_threshold(held, MIN_HELD) && members >= MIN_MEMBERS;
    is_passed_on.then_some(LockEvidence::PassedOn)
}

fn distinct_threads(waits: &[&TracedWait]) -> usize {
    let mut threads: Vec<usize> = waits.iter().map(|wait| wait.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    threads.len()
}

fn lock(futex: usize, evidence: LockEvidence, waiters: f64, waits: &[&TracedWait], elapsed_ns: f64) -> Lock {
    let mut holders: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for wait in waits {
        let Some(waker) = wait.waker else { continue };
        let (wake_ups, held_ns) = holders.entry(waker).or_default();
        *wake_ups = wake_ups.saturating_add(wait.count);
        *held_ns = held_ns.saturating_add(wait.held.total_ns);
    }
    let mut holders: Vec<Holder> = holders
        .into_iter()
        .map(|(thread, (wake_ups, held_ns))| Holder { thread, wake_ups, held_ratio: held_ns as f64 / elapsed_ns })
        .collect();
    holders.small_sort_by(|a, b| b.held_ratio.total_cmp(&a.held_ratio));
    let mut waited: BTreeMap<(usize, Option<usize>), (u64, u64)> = BTreeMap::new();
    for wait in waits {
        let (wake_ups, blocked_ns) = waited.entry((wait.thread, wait.waker)).or_default();
        *wake_ups = wake_ups.saturating_add(wait.count);
        *blocked_ns = blocked_ns.saturating_add(wait.blocked_ns);
    }
    let mut edges: Vec<Edge> = waited
        .into_iter()
        .map(|((thread, holder), (wake_ups, blocked_ns))| Edge {
            thread,
            holder,
            wake_ups,
            waiting_ratio: blocked_ns as f64 / elapsed_ns,
        })
        .collect();
    edges.small_sort_by(|a, b| b.waiting_ratio.total_cmp(&a.waiting_ratio));
    Lock {
        futex,
        waiters,
        waiting_threads: distinct_threads(waits),
        wake_ups: sum(holders.iter().map(|holder| holder.wake_ups)),
        evidence,
        holders,
        while_held: while_held(waits.iter().map(|wait| wait.held)),
        edges,
    }
}

/// Corrupt counts do not overflow.
fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

fn while_held(held: impl Iterator<Item = HeldTime>) -> WhileHeld {
    let mut sum = HeldTime::default();
    let mut waits: BTreeMap<WaitPlace, u64> = BTreeMap::new();
    for held in held {
        sum.total_ns = sum.total_ns.saturating_add(held.total_ns);
        sum.run_ns = sum.run_ns.saturating_add(held.run_ns);
        sum.runnable_ns = sum.runnable_ns.saturating_add(held.runnable_ns);
        if let Some(place) = held.wait {
            let waited = waits.entry(place).or_default();
            *waited = waited.saturating_add(held.wait_ns);
        }
    }
    let share = |ns: u64| ns as f64 / (sum.total_ns as f64).max(1.0);
    let longest = waits.into_iter().max_by_key(|&(place, ns)| (ns, std::cmp::Reverse(place)));
    WhileHeld {
        running: share(sum.run_ns),
        runnable: share(sum.runnable_ns),
        waiting: longest.map(|(place, ns)| (place, share(ns))),
    }
}

fn other_wait(place: WaitPlace, threads: f64, waits: &[&TracedWait]) -> OtherWait {
    let mut wakers: BTreeMap<usize, u64> = BTreeMap::new();
    for wait in waits {
        if let Some(waker) = wait.waker {
            let wake_ups = wakers.entry(waker).or_default();
            *wake_ups = wake_ups.saturating_add(wait.count);
        }
    }
    OtherWait {
        place,
        threads,
        wake_ups: sum(waits.iter().map(|wait| wait.count)),
        most_by: wakers.into_iter().max_by_key(|&(thread, count)| (count, std::cmp::Reverse(thread))),
    }
}

/// From the first lock, over its holder and what that waits for, up to the first wait that is for no lock.
fn critical_path(locks: &[Lock]) -> Vec<PathStep> {
    let mut path = Vec::new();
    let mut seen = Vec::new();
    let is_long = |lock: &Lock| reaches_threshold(lock.waiters, MIN_PATH_WAITERS);
    let mut next = locks.first().is_some_and(is_long).then_some(0);
    while let Some((at, lock)) = next.and_then(|at| Some((at, locks.get(at)?))) {
        seen.push(at);
        path.push(PathStep::Lock(at));
        let Some(holder) = lock.holders.first() else { break };
        path.push(PathStep::Holder { lock: at, holder: holder.clone() });
        let WhileHeld { running, runnable, waiting } = lock.while_held;
        let longest_wait = waiting.filter(|&(_, share)| share >= running && share >= runnable);
        let wanted = longest_wait.and_then(|(place, _)| locks.iter().position(|lock| WaitPlace::Futex(lock.futex) == place));
        next = wanted.filter(|wanted| !seen.contains(wanted));
        path.extend(match (next, wanted, longest_wait) {
            (Some(_), ..) => None,
            (None, Some(lock), _) => Some(PathStep::Cycle(lock)),
            (None, None, Some((place, share))) => Some(PathStep::Waiting(place, share)),
            (None, None, None) if running >= runnable => Some(PathStep::Running(running)),
            (None, None, None) => Some(PathStep::Runnable(runnable)),
        });
    }
    path
}

#[cfg(test)]
mod tests;
