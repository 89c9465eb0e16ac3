//! Tasks over an interval: CPU time, run-queue wait, waits and I/O of processes and threads. docs/metrics.md, "Tasks".

mod counts;
mod microstates;
mod process;
mod process_totals;
mod read_times;
mod thread;
mod wait;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::new_tasks::IntervalStart;
use super::pairing::SortedCursor;
use crate::ids::{CpuId, ProcessId, TaskId};
use crate::interval::aio_waits::AioWaits;
use crate::interval::storage_turns::StorageTurns;
use crate::interval::wait_counts::{ThreadWaits, WaitCounts};
use crate::sample::task::{Process, Scheduling, TaskState, Tasks};
use crate::sample::waits::{WaitClass, Waits};
use crate::sample::{Host, Sample};
use crate::units::{Counter, PerSecond, Ratio};
pub use counts::TaskCounts;
pub use microstates::{MIN_AWAKE_SHARE, Microstates};
pub use process_totals::ProcessTotals;
use process_totals::Visit;
use read_times::ReadTimes;
pub use wait::{visible_wait_class, wait_class};

/// All tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskSpan {
    /// Processes that ran, have a thread that is not asleep, or one that was seen in a lock wait; sorted by pid. Others slept the whole time; `process` and
    /// `processes_with_spans` return a span for them, too.
    pub active_processes: Vec<ProcessSpan>,
    /// Their indices among the processes of the newer sample
    pub(super) active_indices: Vec<usize>,
    /// Threads that ran, waited for a CPU, or are not asleep, sorted by identity. Other threads slept the whole time.
    pub threads: Vec<ThreadSpan>,
    pub counts: TaskCounts,
    /// CPU time of all processes of the newer sample, in CPUs; `None` where CPU clocks cannot be read
    pub busy_cpus: Option<f64>,
    /// Σ run-queue wait of threads ÷ Δt: how many threads waited for a CPU on average, throttled ones included
    pub run_queue_wait: Option<f64>,
    /// Processes that the older sample does not contain
    pub new_processes: u32,
    /// Threads of processes that are hidden from this user (hidepid, a container): the threads of the whole machine in
    /// /proc/loadavg minus those read. `None` if no process is hidden.
    pub hidden_threads: Option<u32>,
    /// Whether the kernel counts waits for storage
    delays_counted: bool,
    /// Of the newer sample
    pub(super) totals: Arc<ProcessTotals>,
}

/// One process over the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSpan {
    pub id: ProcessId,
    pub threads: u32,
    /// In CPUs: 1.0 is one whole CPU. Includes threads that exited.
    pub cpu: Option<Ratio>,
    /// The user part of `cpu`, in the proportion of utime and stime
    pub user: Option<Ratio>,
    /// The part of `user` in which it ran guests (virtual machines)
    pub guest: Option<Ratio>,
    /// CPU time from start to exit of children that it waited for in this interval, and of theirs, ÷ Δt
    pub children_cpu: Option<Ratio>,
    /// Σ over its threads of run-queue wait ÷ Δt
    pub run_queue_wait: Option<Ratio>,
    /// Σ over its threads of their microstates: those of 64 threads add up to 64
    pub states: Microstates,
    /// Σ over its threads of timeslices
    pub timeslices: Option<PerSecond>,
    /// Σ over its threads of block I/O delay ÷ Δt
    pub block_io_delay: Option<Ratio>,
    pub minor_faults: Option<PerSecond>,
    pub major_faults: Option<PerSecond>,
    /// From and to storage, bytes per second
    pub read_bytes: Option<PerSecond>,
    pub write_bytes: Option<PerSecond>,
    pub resident_pages: u64,
    /// Change of `resident_pages` per second; negative if it shrank
    pub resident_pages_growth: Option<PerSecond>,
    /// Change of its address space in bytes per second; negative if it shrank
    pub virtual_bytes_growth: Option<PerSecond>,
    /// The thread that used or waited most, asleep threads excepted
    pub top_thread: Option<TaskId>,
}

/// One thread over the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSpan {
    pub id: TaskId,
    /// 1.0 is one whole CPU. `None` if the thread is seen for the first time but is not new, or if neither schedstat nor ticks
    /// can be paired
    pub cpu: Option<Ratio>,
    /// The part of its user time in which it ran guests (virtual machines)
    pub guest: Option<Ratio>,
    /// Runnable without a CPU ÷ Δt
    pub run_queue_wait: Option<Ratio>,
    /// Run-queue wait ÷ timeslices, ms
    pub run_queue_latency_ms: Option<f64>,
    pub timeslices: Option<PerSecond>,
    /// Waiting for block I/O ÷ Δt, from stat's ticks; `None` where delay accounting is off
    pub block_io_delay: Option<Ratio>,
    pub minor_faults: Option<PerSecond>,
    pub major_faults: Option<PerSecond>,
    pub states: Microstates,
    pub state: TaskState,
    /// The class of its wait at the newer sample
    pub wait_class: WaitClass,
    pub processor: CpuId,
    /// Whether it was last seen on another CPU at the older sample
    pub migrated: bool,
    /// Whether it had a timeslice in the last `ACTIVE_NS`
    pub active: bool,
    /// SCHED_IDLE or nice 19: it is meant to run only when other threads do not
    pub background: bool,
    /// `None` in recordings of earlier versions
    pub scheduling: Option<Scheduling>,
}

impl ProcessSpan {
    /// The span of a process that slept the whole time.
    fn sleeping(process: &Process, delays_counted: bool) -> ProcessSpan {
        let nothing = Some(PerSecond(0.0));
        let threads = u32::try_from(process.threads.len()).unwrap_or(u32::MAX);
        ProcessSpan {
            id: process.id(),
            threads,
            cpu: Some(Ratio(0.0)),
            user: Some(Ratio(0.0)),
            guest: Some(Ratio(0.0)),
            children_cpu: process.children_cpu.map(|_| Ratio(0.0)),
            run_queue_wait: Some(Ratio(0.0)),
            states: Microstates { sleep: f64::from(threads), ..Microstates::default() },
            timeslices: nothing,
            block_io_delay: delays_counted.then_some(Ratio(0.0)),
            minor_faults: nothing,
            major_faults: nothing,
            read_bytes: nothing.filter(|_| process.io.is_ok()),
            write_bytes: nothing.filter(|_| process.io.is_ok()),
            resident_pages: process.resident_pages,
            resident_pages_growth: nothing,
            virtual_bytes_growth: nothing.filter(|_| process.virtual_bytes.is_some()),
            top_thread: None,
        }
    }
}

impl TaskSpan {
    /// The span of a process of the newer sample.
    pub fn process(&self, process: &Process) -> ProcessSpan {
        let at = self.active_processes.binary_search_by_key(&process.pid, |span| span.id.pid).ok();
        let found = at.and_then(|at| self.active_processes.get(at)).filter(|span| span.id == process.id());
        found.copied().unwrap_or_else(|| ProcessSpan::sleeping(process, self.delays_counted))
    }

    /// Each of these processes with its span; both sorted by pid.
    pub fn processes_with_spans<'a>(
        &'a self,
        processes: &'a [Arc<Process>],
    ) -> impl Iterator<Item = (&'a Arc<Process>, ProcessSpan)> {
        let mut spans = SortedCursor::new(&self.active_processes);
        processes.iter().map(move |process| {
            let span = spans.find(|span| span.id.pid.cmp(&process.pid)).filter(|span| span.id == process.id());
            (process, span.copied().unwrap_or_else(|| ProcessSpan::sleeping(process, self.delays_counted)))
        })
    }

    /// The span of a thread; `None` if it slept the whole time.
    pub fn thread(&self, id: TaskId) -> Option<&ThreadSpan> {
        let at = self.threads.binary_search_by_key(&id, |span| span.id).ok()?;
        self.threads.get(at)
    }

    /// `totals`: those of the older sample, where they are known.
    pub(super) fn between(
        host: &Host,
        older: &Sample,
        newer: &Sample,
        (wait_counts, turns, aio_waits): (&WaitCounts, &StorageTurns, &AioWaits),
        totals: Option<&ProcessTotals>,
    ) -> Option<TaskSpan> {
        let now = newer.tasks.as_ref().ok()?;
        let nothing = Tasks::default();
        let was = older.tasks.as_ref().unwrap_or(&nothing);
        let builder = TaskSpanBuilder {
            host,
            thread_waits: wait_counts.threads.iter().map(|waits| (waits.task, waits)).collect(),
            in_lock_waits: in_lock_waits(wait_counts),
            read_times: ReadTimes { older: (older.at.boottime_ns, was), newer: (newer.at.boottime_ns, now) },
            max_cpus: newer.cpu.as_ref().ok().map(|cpu| cpu.cpus.len() as f64).filter(|&cpus| cpus > 0.0),
            now_ns: newer.at.boottime_ns,
            interval_start: older.tasks.is_ok().then(|| IntervalStart::new(host, older)),
            groups_on_storage: wait_counts
                .groups_on_storage(newer.waits.groups.len(), wait_counts.sub_samples.iter().map(|_| 1.0)),
            turns,
            aio_waits,
            io_in_flight: wait::has_io_in_flight(newer),
            waits: &newer.waits,
        };
        let mut span = TaskSpan { delays_counted: builder.delays_counted(), ..TaskSpan::default() };
        let made;
        let totals = match totals {
            Some(known) => known,
            None => {
                made = ProcessTotals::new(&was.processes);
                &made
            }
        };
        let mut visited = ProcessTotals::default();
        let totals = totals.next(&was.processes, &now.processes, |Visit { old, new, place }| {
            visited.add(new);
            let old = old.filter(|old| old.start_ticks == new.start_ticks);
            if old.is_none() {
                span.new_processes += 1;
            }
            builder.add_process(old, new, &mut span);
            span.active_indices.resize(span.active_processes.len(), place);
        });
        builder.add_asleep_in_locks(was, now, &mut span);
        // The others slept, which is known of them.
        if totals.with_cpu_time > visited.with_cpu_time {
            span.busy_cpus.get_or_insert(0.0);
        }
        if totals.with_schedstat > visited.with_schedstat {
            span.run_queue_wait.get_or_insert(0.0);
        }
        span.counts.threads = totals.threads;
        span.totals = Arc::new(totals);
        span.threads.sort_unstable_by_key(|thread| thread.id);
        span.counts.processes = u32::try_from(now.processes.len()).unwrap_or(u32::MAX);
        let all = newer.load.as_ref().ok().filter(|_| now.hidden.processes).map(|load| load.entities);
        span.hidden_threads = all.and_then(|all| all.checked_sub(span.counts.threads)).filter(|&hidden| hidden > 0);
        Some(span)
    }
}

/// What is needed to compute the spans of all processes and threads of one interval.
struct TaskSpanBuilder<'a> {
    host: &'a Host,
    thread_waits: FxHashMap<TaskId, &'a ThreadWaits>,
    /// Pids of the processes with a thread that was seen in a lock wait, sorted
    in_lock_waits: Vec<u32>,
    read_times: ReadTimes<'a>,
    /// Online CPUs
    max_cpus: Option<f64>,
    now_ns: u64,
    /// `None` where the older sample has no tasks
    interval_start: Option<IntervalStart>,
    /// By index into `Waits::groups`: whether it has a thread on storage
    groups_on_storage: Vec<bool>,
    /// Which threads in futexes may wait for a thread on storage
    turns: &'a StorageTurns,
    aio_waits: &'a AioWaits,
    /// Whether some device has requests in flight: otherwise a wait for asynchronous completions is idle. `None` if that is unknown
    io_in_flight: Option<bool>,
    /// Of the newer sample
    waits: &'a Waits,
}

/// Pids of the processes with a thread that sub-samples saw in a lock wait, sorted.
fn in_lock_waits(wait_counts: &WaitCounts) -> Vec<u32> {
    let waits = wait_counts.threads.iter().filter(|waits| waits.count(WaitClass::Lock) > 0);
    let mut pids: Vec<u32> = waits.map(|waits| waits.task.pid).collect();
    pids.dedup();
    pids
}

impl TaskSpanBuilder<'_> {
    /// Adds the processes all of whose threads slept, some of them in lock waits, as in a deadlock.
    fn add_asleep_in_locks(&self, was: &Tasks, now: &Tasks, span: &mut TaskSpan) {
        let active = span.active_processes.len();
        for &pid in &self.in_lock_waits {
            if span.active_processes.get(..active).unwrap_or_default().binary_search_by_key(&pid, |row| row.id.pid).is_ok() {
                continue;
            }
            let Ok(place) = now.processes.binary_search_by_key(&pid, |process| process.pid) else { continue };
            let Some(new) = now.processes.get(place) else { continue };
            let old = was.process(pid).filter(|old| old.start_ticks == new.start_ticks);
            self.add_process(old, new, span);
            span.active_indices.resize(span.active_processes.len(), place);
        }
        if span.active_processes.len() > active {
            span.active_processes.sort_unstable_by_key(|row| row.id.pid);
            span.active_indices.sort_unstable();
        }
    }

    /// Without delay accounting the kernel reports 0 for every thread.
    fn delays_counted(&self) -> bool {
        self.host.privilege.delay_accounting == Ok(true)
    }

    /// Whether a task that started then is new in this interval.
    fn is_new(&self, start_ticks: u64) -> bool {
        self.interval_start.is_some_and(|start| start.is_before(start_ticks))
    }

    /// CPU time ÷ the time between its two readings; no more than the online CPUs.
    fn cpus(&self, cpu_seconds: f64, seconds: f64) -> Option<Ratio> {
        let cpus = Ratio::new(cpu_seconds, seconds)?;
        Some(Ratio(self.max_cpus.map_or(cpus.0, |most| cpus.0.min(most))))
    }

    /// Guest time ÷ Δt, at most `user`: ticks are sampled, and the kernel scales user time.
    fn guest(&self, older: Counter, newer: Counter, user: Option<Ratio>, seconds: f64) -> Option<Ratio> {
        let guest = Ratio::new(self.host.seconds(newer.since(older)? as f64), seconds)?;
        Some(Ratio(user.map_or(guest.0, |user| guest.0.min(user.0))))
    }
}

/// The user part of the ticks; `None` where no ticks were counted.
fn user_tick_share(user: [Counter; 2], system: [Counter; 2]) -> Option<f64> {
    let [user, system] = [user, system].map(|[older, newer]| newer.since(older).map(|ticks| ticks as f64));
    Ratio::new(user?, user? + system?).map(|share| share.0)
}
