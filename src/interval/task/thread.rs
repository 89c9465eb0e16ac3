//! One thread over an interval: CPU time, run-queue wait, microstates.

use super::counts::count_thread;
use super::wait::{is_idle_runtime_thread, wait_class};
use super::{TaskCounts, TaskSpanBuilder, ThreadSpan, microstates, user_tick_share};
use crate::ids::CpuId;
use crate::interval::new_tasks::zeroed_thread;
use crate::sample::task::{Process, Schedstat, TaskState, Thread};
use crate::sample::waits::{ACTIVE_NS, WaitClass};
use crate::units::{PerSecond, Ratio, delta};

/// A thread may seem to run for longer than its process, since it is read later than the clock of that: by at most this share of the
/// interval, or this time. On a CPU without ticks (nohz_full) its run time is brought up to date once a second.
const MAX_READ_LATER_SHARE: f64 = 0.1;
const MAX_READ_LATER_NS: u64 = 50_000_000;
const MAX_RUN_TIME_AGE_NS: u64 = 1_000_000_000;

impl TaskSpanBuilder<'_> {
    /// The span of a thread of the newer sample; `None` if it slept the whole time. Counts the thread in `counts`. `seconds`: time
    /// between the two readings of its process.
    pub(super) fn thread(
        &self,
        old: Option<&Thread>,
        process: &Process,
        new: &Thread,
        seconds: f64,
        counts: &mut TaskCounts,
    ) -> Option<ThreadSpan> {
        let id = process.task_id(new);
        let seen = self.thread_waits.get(&id).copied();
        let class = match wait_class(self.host, new) {
            WaitClass::Lock if self.waits_for_core_dump(process, new) => WaitClass::CoreDump,
            class => class,
        };
        let futex_is_lock = seen.is_some_and(|seen| {
            self.groups_on_storage.get(usize::from(seen.group)).copied().unwrap_or(false)
                && self.turns.may_wait(seen.group, id.pid)
        });
        count_thread(new, class, futex_is_lock && self.is_active(new) && !is_idle_runtime_thread(self.host, new), counts);
        let ran = old.is_none_or(|old| {
            old.schedstat != new.schedstat || old.user_ticks != new.user_ticks || old.system_ticks != new.system_ticks
        });
        if !ran && seen.is_none() && !is_not_sleeping(new) {
            return None;
        }
        let moved = old.is_some_and(|old| old.processor != new.processor);
        let shares = seen.and_then(|seen| self.off_cpu_shares(old, seen, futex_is_lock));
        let zeroed = (old.is_none() && self.is_new(new.start_ticks)).then(|| zeroed_thread(new));
        let old = old.or(zeroed.as_ref());
        let cpu = old.and_then(|old| self.thread_cpu(old, new, seconds));
        let delay = |sched: Option<Schedstat>| sched.map(|sched| sched.run_delay_ns);
        let slices = |sched: Option<Schedstat>| sched.map(|sched| sched.timeslices);
        let old_sched = old.and_then(|old| old.schedstat);
        let delayed_ns =
            delta(delay(new.schedstat), delay(old_sched)).and_then(|ns| self.plausible_run_delay_ns(old, new, ns, seconds));
        let sliced = delta(slices(new.schedstat), slices(old_sched));
        let run_queue = delayed_ns.and_then(|ns| Ratio::new(ns as f64 / 1e9, seconds));
        let user = old.and_then(|old| user_tick_share([old.user_ticks, new.user_ticks], [old.system_ticks, new.system_ticks]));
        Some(ThreadSpan {
            id,
            cpu,
            guest: old.and_then(|old| self.guest(old.guest_ticks, new.guest_ticks, cpu, seconds)),
            run_queue_wait: run_queue,
            run_queue_latency_ms: delayed_ns.zip(sliced).filter(|&(_, n)| n > 0).map(|(ns, n)| ns as f64 / 1e6 / n as f64),
            timeslices: sliced.and_then(|n| PerSecond::over(n, seconds)),
            block_io_delay: old.filter(|_| self.delays_counted()).and_then(|old| {
                let ticks = new.block_io_delay_ticks.since(old.block_io_delay_ticks)? as f64;
                Ratio::new(self.host.seconds(ticks), seconds)
            }),
            minor_faults: old.and_then(|old| PerSecond::between(Some(new.minor_faults), Some(old.minor_faults), seconds)),
            major_faults: old.and_then(|old| PerSecond::between(Some(new.major_faults), Some(old.major_faults), seconds)),
            states: microstates::microstates(cpu, user, run_queue, shares, new.state, class, ran),
            state: new.state,
            wait_class: class,
            processor: CpuId(new.processor),
            migrated: moved,
            active: self.is_active(new),
            background: new.background,
            scheduling: new.scheduling,
        })
    }

    /// The part of the growth of the run-queue wait that belongs to this interval. The kernel adds a wait when it ends: a
    /// wait that began before the interval is cut to it. A wait longer than the interval of a thread that slept at its
    /// beginning is dropped: since Linux 6.12 a sleeper whose delayed dequeue migrates to another CPU is counted as
    /// waiting until it wakes. A wait that has lasted for the whole interval has added nothing yet.
    fn plausible_run_delay_ns(&self, old: Option<&Thread>, new: &Thread, grown_ns: u64, seconds: f64) -> Option<u64> {
        let interval_ns = (seconds * 1e9) as u64;
        if old.is_some_and(|old| waited_all_the_time(old, new)) {
            return Some(interval_ns);
        }
        // Threads are not read at the very moment of the sample.
        if grown_ns <= interval_ns + interval_ns / 10 {
            return Some(grown_ns.min(interval_ns));
        }
        let slept = old.is_some_and(|old| old.state != TaskState::Running);
        let ran = delta(new.schedstat.map(|sched| sched.run_ns), old.and_then(|old| old.schedstat).map(|sched| sched.run_ns));
        (!slept).then(|| interval_ns.saturating_sub(ran.unwrap_or(0)))
    }

    fn thread_cpu(&self, old: &Thread, new: &Thread, seconds: f64) -> Option<Ratio> {
        if let (Some(newer), Some(older)) = (new.schedstat, old.schedstat) {
            // The kernel updates run_ns at each tick and context switch.
            let ran = Ratio::new(newer.run_ns.since(older.run_ns)? as f64 / 1e9, seconds)?;
            // A thread uses at most one CPU: more means that it was read later than at the older sample.
            return Some(Ratio(ran.0.min(1.0)));
        }
        let ticks = new.user_ticks.since(old.user_ticks)? as f64 + new.system_ticks.since(old.system_ticks)? as f64;
        Ratio::new(self.host.seconds(ticks), seconds)
    }

    /// Whether the first thread is another one than in the older sample: a thread that called execve has its tid and start time since,
    /// the name of the new program, and its own counters. It then seems to have run for longer than its process.
    pub(super) fn is_replaced([older, newer]: [(&Process, &Thread); 2], seconds: f64) -> bool {
        let run_ns = |(_, thread): (&Process, &Thread)| thread.schedstat.map(|sched| sched.run_ns);
        let (ran, process_ran) = (delta(run_ns(newer), run_ns(older)), delta(newer.0.cpu_ns, older.0.cpu_ns));
        let read_later_ns = ((seconds * MAX_READ_LATER_SHARE * 1e9) as u64).max(MAX_READ_LATER_NS);
        let tolerance_ns = if older.1.comm == newer.1.comm { read_later_ns + MAX_RUN_TIME_AGE_NS } else { read_later_ns };
        let is_first = newer.1.tid == newer.0.pid;
        is_first && ran.zip(process_ran).is_some_and(|(ran, process_ran)| ran > process_ran.saturating_add(tolerance_ns))
    }

    /// Whether it had a timeslice within `ACTIVE_NS`; docs/metrics.md, "Tasks".
    fn is_active(&self, thread: &Thread) -> bool {
        thread.last_timeslice_ns.is_some_and(|at| self.now_ns.saturating_sub(at) <= ACTIVE_NS)
    }
}

/// Whether it was runnable at both samples and had no CPU in between.
fn waited_all_the_time(old: &Thread, new: &Thread) -> bool {
    let is_runnable = old.state == TaskState::Running && new.state == TaskState::Running;
    let ticks = |thread: &Thread| (thread.user_ticks, thread.system_ticks);
    is_runnable && new.schedstat.is_some() && old.schedstat == new.schedstat && ticks(old) == ticks(new)
}

/// Whether it is neither in S nor in I.
pub(super) fn is_not_sleeping(thread: &Thread) -> bool {
    !matches!(thread.state, TaskState::Sleeping | TaskState::Idle)
}
