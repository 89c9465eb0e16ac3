//! Tasks over an interval: who used the CPUs, who waited for what.

mod counts;
mod microstates;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::new_tasks::{IntervalStart, zeroed_process, zeroed_thread};
use crate::ids::{CpuId, ProcessId, TaskId};
use crate::sample::task::{ChildrenCpuTime, Process, Schedstat, TaskState, Tasks, Thread};
use crate::sample::waits::{FutexWait, Syscall, ThreadWaits, WaitClass};
use crate::sample::{Absent, Host, Sample};
use crate::units::{Counter, PerSecond, Ratio, delta};
pub use counts::TaskCounts;
use counts::count_thread;
pub use microstates::Microstates;

/// All tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskSpan {
    /// Processes that ran, or have a thread that is not just asleep; sorted by pid. One that is missing here slept the
    /// whole time: `of` and `with_spans` say so of it.
    pub active_processes: Vec<ProcessSpan>,
    /// Threads that ran, waited for a CPU, or are not just asleep; sorted by identity. A thread that is missing here slept
    /// the whole time.
    pub threads: Vec<ThreadSpan>,
    pub counts: TaskCounts,
    /// CPU time of all processes of the newer sample, in CPUs; `None` where CPU clocks cannot be read
    pub busy_cpus: Option<f64>,
    /// Σ run-queue wait of threads ÷ Δt: how many threads waited for a CPU on average, throttled ones included
    pub run_queue_wait: Option<f64>,
    /// Processes that were not there at the older sample
    pub new_processes: u32,
    /// Threads of processes that are hidden from this user (hidepid, a container): those that /proc/loadavg counts on the
    /// whole machine less those seen. `None` where nothing is known to be hidden.
    pub hidden_threads: Option<u32>,
    /// Whether the kernel counts waits for storage
    delays_counted: bool,
}

/// One process over the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProcessSpan {
    pub id: ProcessId,
    pub threads: u32,
    /// In CPUs: 1.0 is one whole CPU. Threads that ended are in it.
    pub cpu: Option<Ratio>,
    /// The user part of `cpu`, as the tick figures divide it
    pub user: Option<Ratio>,
    /// The part of `user` in which it ran guests (virtual machines)
    pub guest: Option<Ratio>,
    /// What its children that ended, and that it waited for, had used in their lives, ÷ Δt; of theirs, too
    pub children_cpu: Option<Ratio>,
    /// Σ over its threads of run-queue wait ÷ Δt
    pub run_queue_wait: Option<Ratio>,
    /// Σ over its threads of their microstates: a process of 64 threads has 64 in all
    pub states: Microstates,
    /// Times that its threads were given a CPU
    pub timeslices: Option<PerSecond>,
    /// Σ over its threads
    pub block_io_delay: Option<Ratio>,
    pub minor_faults: Option<PerSecond>,
    pub major_faults: Option<PerSecond>,
    /// From and to storage, bytes a second
    pub read_bytes: Option<PerSecond>,
    pub write_bytes: Option<PerSecond>,
    pub resident_pages: u64,
    /// Its thread that is not merely asleep, and used or waited most
    pub top_thread: Option<TaskId>,
}

/// One thread over the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadSpan {
    pub id: TaskId,
    /// 1.0 is one whole CPU. `None` for one that is seen for the first time and is not new, or where neither schedstat nor
    /// its ticks can be paired.
    pub cpu: Option<Ratio>,
    /// In which it ran guests (virtual machines): a part of its user time
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
    /// Whether its timeslices moved in the last 5 s
    pub active: bool,
    /// Whether it is meant to give way to whoever else wants a CPU
    pub background: bool,
}

/// A worker that had a timeslice this recently is cycling; one that did not is parked (metrics.md section 3).
pub const ACTIVE_SECONDS: f64 = 5.0;

impl ProcessSpan {
    /// Of a process that did nothing.
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
        let mut spans = self.active_processes.iter().peekable();
        processes.iter().map(move |process| {
            while spans.next_if(|span| span.id.pid < process.pid).is_some() {}
            let span = spans.next_if(|span| span.id == process.id());
            (process, span.copied().unwrap_or_else(|| ProcessSpan::sleeping(process, self.delays_counted)))
        })
    }

    /// The span of a thread that did more than sleep.
    pub fn thread(&self, id: TaskId) -> Option<&ThreadSpan> {
        let at = self.threads.binary_search_by_key(&id, |span| span.id).ok()?;
        self.threads.get(at)
    }

    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64) -> Option<TaskSpan> {
        let now = newer.tasks.as_ref().ok()?;
        let nothing = Tasks::default();
        let was = older.tasks.as_ref().unwrap_or(&nothing);
        let seen: FxHashMap<TaskId, &ThreadWaits> = newer.waits.threads.iter().map(|waits| (waits.task, waits)).collect();
        let (holding, completions) = (groups_on_storage(newer), has_io_in_flight(newer));
        let beginning = older.tasks.is_ok().then(|| IntervalStart::new(host, older));
        let context = TaskSpanBuilder {
            host,
            thread_waits: seen,
            seconds,
            now_ns: newer.at.boottime_ns,
            interval_start: beginning,
            groups_on_storage: holding,
            io_in_flight: completions,
        };
        let mut span = TaskSpan { delays_counted: context.delays_counted(), ..TaskSpan::default() };
        let mut sums = Sums::default();
        let mut before = was.processes.iter().peekable();
        for process in &now.processes {
            while before.next_if(|old| old.pid < process.pid).is_some() {}
            let old = before.next_if(|old| old.pid == process.pid).filter(|old| old.start_ticks == process.start_ticks);
            if old.is_none() {
                span.new_processes += 1;
            }
            context.process(old, process, &mut span, &mut sums);
        }
        span.threads.sort_unstable_by_key(|thread| thread.id);
        span.counts.processes = u32::try_from(now.processes.len()).unwrap_or(u32::MAX);
        let all = newer.load.as_ref().ok().filter(|_| now.hidden.processes).map(|load| load.entities);
        span.hidden_threads = all.and_then(|all| all.checked_sub(span.counts.threads)).filter(|&hidden| hidden > 0);
        span.busy_cpus = sums.has_cpu.then_some(sums.cpu);
        span.run_queue_wait = sums.has_run_queue.then_some(sums.run_queue);
        Some(span)
    }
}

#[derive(Default)]
struct Sums {
    cpu: f64,
    has_cpu: bool,
    run_queue: f64,
    has_run_queue: bool,
}

struct TaskSpanBuilder<'a> {
    host: &'a Host,
    thread_waits: FxHashMap<TaskId, &'a ThreadWaits>,
    seconds: f64,
    now_ns: u64,
    /// `None` where the older sample has no tasks
    interval_start: Option<IntervalStart>,
    /// By index into `Waits::groups`: whether it has a thread on storage
    groups_on_storage: Vec<bool>,
    /// Whether asynchronous completions are worth waiting for: some device has requests in flight
    io_in_flight: bool,
}

impl TaskSpanBuilder<'_> {
    fn process(&self, old: Option<&Arc<Process>>, new: &Arc<Process>, span: &mut TaskSpan, sums: &mut Sums) {
        // One that is being reaped, or that only a total still has, is none any more.
        let alive = new.threads.iter().filter(|thread| thread.state != TaskState::Dead).count();
        let thread_count = u32::try_from(alive).unwrap_or(u32::MAX);
        span.counts.threads += thread_count;
        let unchanged = old.is_some_and(|old| Arc::ptr_eq(old, new) || is_unchanged(old, new));
        if unchanged && !new.threads.iter().any(is_not_sleeping) {
            sums.has_cpu |= new.cpu_ns.is_some() || !new.kernel_thread;
            sums.has_run_queue |= has_schedstat(new);
            return;
        }
        let mut states = Microstates::default();
        let (mut run_queue, mut foremost) = (None, None);
        let (mut switches, mut delayed) = (None, None);
        let rows = span.threads.len();
        let mut most = 0.0;
        let mut peers = old.map_or(&[][..], |old| &old.threads).iter().peekable();
        for thread in new.threads.iter() {
            while peers.next_if(|old| old.tid < thread.tid).is_some() {}
            let before = peers.next_if(|old| old.tid == thread.tid).filter(|old| old.start_ticks == thread.start_ticks);
            let Some(row) = self.thread(before, new, thread, &mut span.counts) else {
                states.sleep += 1.0;
                continue;
            };
            states.add(&row.states);
            if let Some(wait) = row.run_queue_wait {
                *run_queue.get_or_insert(0.0) += wait.0;
            }
            if let Some(slices) = row.timeslices {
                *switches.get_or_insert(0.0) += slices.0;
            }
            if let Some(delay) = row.block_io_delay {
                *delayed.get_or_insert(0.0) += delay.0;
            }
            let weight = row.states.non_sleep();
            if weight > most {
                most = weight;
                foremost = Some(row.id);
            }
            span.threads.push(row);
        }
        let unborn = (old.is_none() && self.is_new(new.start_ticks)).then(|| zeroed_process(new));
        let was = old.map(Arc::as_ref).or(unborn.as_ref());
        let cpu = was.and_then(|was| self.process_cpu(was, new));
        if let (Some(cpu), false) = (cpu, new.kernel_thread && new.cpu_ns.is_none()) {
            sums.cpu += cpu.0;
            sums.has_cpu = true;
        }
        if let Some(wait) = run_queue {
            sums.run_queue += wait;
        }
        let slept = old.is_some() && span.threads.len() == rows;
        sums.has_run_queue |= run_queue.is_some() || unchanged && has_schedstat(new);
        let rate = |field: fn(&Process) -> Option<Counter>| PerSecond::between(field(new), field(was?), self.seconds);
        let user = match cpu.zip(was) {
            Some(_) if new.kernel_thread => Some(Ratio(0.0)),
            Some((cpu, was)) if cpu.0 > 0.0 => process_user_share(was, new).map(|share| Ratio(cpu.0 * share)),
            nothing => nothing.map(|(cpu, _)| cpu),
        };
        span.active_processes.push(ProcessSpan {
            id: new.id(),
            threads: thread_count,
            cpu,
            user,
            guest: was.and_then(|was| self.guest(was.guest_ticks, new.guest_ticks, user)),
            children_cpu: was.and_then(|was| self.children_cpu(was.children_cpu?, new.children_cpu?)),
            run_queue_wait: run_queue.map(Ratio).or(unchanged.then_some(Ratio(0.0))),
            states,
            timeslices: switches.or(slept.then_some(0.0)).map(PerSecond),
            block_io_delay: delayed.or((slept && self.delays_counted()).then_some(0.0)).map(Ratio),
            minor_faults: rate(|process| Some(process.minor_faults)),
            major_faults: rate(|process| Some(process.major_faults)),
            read_bytes: rate(|process| process.io.ok().map(|io| io.read_bytes)),
            write_bytes: rate(|process| process.io.ok().map(|io| io.write_bytes)),
            resident_pages: new.resident_pages,
            top_thread: foremost,
        });
    }

    /// With the accounting off the kernel says 0 for everybody.
    fn delays_counted(&self) -> bool {
        self.host.privilege.delay_accounting == Ok(true)
    }

    fn process_cpu(&self, old: &Process, new: &Process) -> Option<Ratio> {
        if let (Some(newer), Some(older)) = (new.cpu_ns, old.cpu_ns) {
            return Ratio::new(newer.since(older)? as f64 / 1e9, self.seconds);
        }
        let ticks = new.user_ticks.since(old.user_ticks)? as f64 + new.system_ticks.since(old.system_ticks)? as f64;
        Ratio::new(ticks / self.host.ticks_per_second.max(1) as f64, self.seconds)
    }

    fn is_new(&self, start_ticks: u64) -> bool {
        self.interval_start.is_some_and(|beginning| beginning.is_before(start_ticks))
    }

    /// Ticks are sampled, and the kernel scales user time: no part is more than the whole.
    fn guest(&self, was: Counter, now: Counter, user: Option<Ratio>) -> Option<Ratio> {
        let guest = Ratio::new(now.since(was)? as f64 / self.host.ticks_per_second.max(1) as f64, self.seconds)?;
        Some(Ratio(user.map_or(guest.0, |user| guest.0.min(user.0))))
    }

    fn children_cpu(&self, was: ChildrenCpuTime, now: ChildrenCpuTime) -> Option<Ratio> {
        let ticks = now.user_ticks.since(was.user_ticks)? as f64 + now.system_ticks.since(was.system_ticks)? as f64;
        Ratio::new(ticks / self.host.ticks_per_second.max(1) as f64, self.seconds)
    }

    fn thread(&self, old: Option<&Thread>, process: &Process, new: &Thread, counts: &mut TaskCounts) -> Option<ThreadSpan> {
        let id = process.task_id(new);
        let seen = self.thread_waits.get(&id).copied();
        let class = wait_class(self.host, new);
        let holding = seen.is_some_and(|seen| self.groups_on_storage.get(usize::from(seen.group)).copied().unwrap_or(false));
        count_thread(new, class, holding && self.is_active(new) && !is_idle_runtime_thread(self.host, new), counts);
        let ran = old.is_none_or(|old| {
            old.schedstat != new.schedstat || old.user_ticks != new.user_ticks || old.system_ticks != new.system_ticks
        });
        if !ran && seen.is_none() && !is_not_sleeping(new) {
            return None;
        }
        let moved = old.is_some_and(|old| old.processor != new.processor);
        let unborn = (old.is_none() && self.is_new(new.start_ticks)).then(|| zeroed_thread(new));
        let old = old.or(unborn.as_ref());
        let cpu = old.and_then(|old| self.thread_cpu(old, new));
        let delay = |sched: Option<Schedstat>| sched.map(|sched| sched.run_delay_ns);
        let slices = |sched: Option<Schedstat>| sched.map(|sched| sched.timeslices);
        let old_sched = old.and_then(|old| old.schedstat);
        let delayed_ns = delta(delay(new.schedstat), delay(old_sched)).and_then(|ns| self.plausible_run_delay_ns(old, new, ns));
        let sliced = delta(slices(new.schedstat), slices(old_sched));
        let run_queue = delayed_ns.and_then(|ns| Ratio::new(ns as f64 / 1e9, self.seconds));
        let user = old.and_then(|old| user_tick_share(new.user_ticks, old.user_ticks, new.system_ticks, old.system_ticks));
        Some(ThreadSpan {
            id,
            cpu,
            guest: old.and_then(|old| self.guest(old.guest_ticks, new.guest_ticks, cpu)),
            run_queue_wait: run_queue,
            run_queue_latency_ms: delayed_ns.zip(sliced).filter(|&(_, n)| n > 0).map(|(ns, n)| ns as f64 / 1e6 / n as f64),
            timeslices: sliced.and_then(|n| PerSecond::over(n, self.seconds)),
            block_io_delay: old.filter(|_| self.delays_counted()).and_then(|old| {
                let ticks = new.block_io_delay_ticks.since(old.block_io_delay_ticks)? as f64;
                Ratio::new(ticks / self.host.ticks_per_second.max(1) as f64, self.seconds)
            }),
            minor_faults: old.and_then(|old| PerSecond::between(Some(new.minor_faults), Some(old.minor_faults), self.seconds)),
            major_faults: old.and_then(|old| PerSecond::between(Some(new.major_faults), Some(old.major_faults), self.seconds)),
            states: microstates::microstates(
                cpu,
                user,
                run_queue,
                seen.map(|seen| self.off_cpu_shares(seen, holding)),
                new.state,
                class,
                ran,
            ),
            state: new.state,
            wait_class: class,
            processor: CpuId(new.processor),
            migrated: moved,
            active: self.is_active(new),
            background: new.background,
        })
    }

    /// Of the growth of its run-queue wait, what this interval can have seen. The kernel counts a wait as it ends, whole:
    /// of one that began before, the rest belongs there. One longer than the interval of a thread that slept as it began
    /// is none: since 6.12 a sleeper that another CPU takes over while its dequeue is delayed is counted as waiting until
    /// it wakes, for minutes if it comes to that.
    fn plausible_run_delay_ns(&self, old: Option<&Thread>, new: &Thread, grown_ns: u64) -> Option<u64> {
        let interval_ns = (self.seconds * 1e9) as u64;
        // Threads are not read at the very moment of the sample.
        if grown_ns <= interval_ns + interval_ns / 10 {
            return Some(grown_ns.min(interval_ns));
        }
        let slept = old.is_some_and(|old| old.state != TaskState::Running);
        let ran = delta(new.schedstat.map(|sched| sched.run_ns), old.and_then(|old| old.schedstat).map(|sched| sched.run_ns));
        (!slept).then(|| interval_ns.saturating_sub(ran.unwrap_or(0)))
    }

    fn thread_cpu(&self, old: &Thread, new: &Thread) -> Option<Ratio> {
        if let (Some(newer), Some(older)) = (new.schedstat, old.schedstat) {
            // run_ns is brought up to date at the tick and at each switch; what is past the interval belongs to the next.
            let ran = Ratio::new(newer.run_ns.since(older.run_ns)? as f64 / 1e9, self.seconds)?;
            // It has one CPU at most: what is more is that it was read later than the time before.
            return Some(Ratio(ran.0.min(1.0)));
        }
        let ticks = new.user_ticks.since(old.user_ticks)? as f64 + new.system_ticks.since(old.system_ticks)? as f64;
        Ratio::new(ticks / self.host.ticks_per_second.max(1) as f64, self.seconds)
    }

    /// Disk, lock, other blocked, sleep: shares of the looks at which the thread was not running. A futex is a lock where the
    /// group has a thread on storage; waiting for completions is waiting for a disk where some are outstanding.
    fn off_cpu_shares(&self, seen: &ThreadWaits, holding: bool) -> [f64; 4] {
        let times = |class: WaitClass| f64::from(seen.class_counts.get(class as usize).copied().unwrap_or(0));
        let when = |condition: bool, class: WaitClass| if condition { times(class) } else { 0.0 };
        let disk = times(WaitClass::Disk) + when(self.io_in_flight, WaitClass::Aio);
        let lock = times(WaitClass::Lock) + when(holding, WaitClass::Futex);
        let other = times(WaitClass::Memory) + times(WaitClass::Vfork);
        let sleep = f64::from(seen.sub_sample_count()) - disk - lock - other - times(WaitClass::Running);
        let whole = disk + lock + other + sleep;
        if whole <= 0.0 {
            return [0.0; 4];
        }
        [disk, lock, other, sleep].map(|part| part / whole)
    }

    /// Cycling, however slowly.
    fn is_active(&self, thread: &Thread) -> bool {
        thread.last_timeslice_ns.is_some_and(|at| self.now_ns.saturating_sub(at) as f64 / 1e9 <= ACTIVE_SECONDS)
    }
}

/// A group with a thread on storage in this share of the looks has one (metrics.md section 3).
pub const MIN_ON_STORAGE_SHARE: f64 = 0.2;

fn groups_on_storage(newer: &Sample) -> Vec<bool> {
    let mut looks = vec![0_u32; newer.waits.groups.len()];
    for row in newer.waits.sub_samples.iter().flat_map(|sub| &sub.groups).filter(|row| row.storage > 0) {
        if let Some(count) = looks.get_mut(usize::from(row.group)) {
            *count += 1;
        }
    }
    let enough = newer.waits.sub_samples.len() as f64 * MIN_ON_STORAGE_SHARE;
    looks.into_iter().map(|count| count > 0 && f64::from(count) >= enough).collect()
}

fn has_io_in_flight(newer: &Sample) -> bool {
    let subs = &newer.waits.sub_samples;
    let outstanding = subs.iter().filter(|sub| sub.in_flight.is_some_and(|requests| requests > 0)).count();
    outstanding > 0 && outstanding * 2 >= subs.len()
}

/// Whether nothing of it ran, though more may be known of it by now: what is slow to be read, in the first seconds of thousands.
fn is_unchanged(old: &Process, new: &Process) -> bool {
    new.cpu_ns.is_some() && new.cpu_ns == old.cpu_ns && new.threads == old.threads && new.children_cpu == old.children_cpu
}

/// A kernel has it for all or for none.
fn has_schedstat(process: &Process) -> bool {
    process.threads.first().is_some_and(|thread| thread.schedstat.is_some())
}

fn is_not_sleeping(thread: &Thread) -> bool {
    !matches!(thread.state, TaskState::Sleeping | TaskState::Idle)
}

/// The class of a thread's wait as its sample says it.
pub fn wait_class(host: &Host, thread: &Thread) -> WaitClass {
    let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
    let unlikely = WaitClass::Other;
    match &thread.wait.wchan {
        Ok(symbol) => WaitClass::classify(thread.state, Some(symbol.as_bytes()), call).unwrap_or(unlikely),
        Err(Absent::Hidden | Absent::NoPermission) => WaitClass::classify(thread.state, None, call).unwrap_or(unlikely),
        Err(_) if thread.state == TaskState::Running => WaitClass::Running,
        Err(_) => WaitClass::Other,
    }
}

/// The same, where it is known whose it is: what a thread waits for that was never looked at is hidden from this user, or other.
pub fn visible_wait_class(host: &Host, process: &Process, thread: &Thread) -> WaitClass {
    match wait_class(host, thread) {
        WaitClass::Other if !process.kernel_thread && is_hidden_from_user(host, process, thread) => WaitClass::Hidden,
        class => class,
    }
}

fn is_hidden_from_user(host: &Host, process: &Process, thread: &Thread) -> bool {
    let waits = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
    waits && thread.wait.wchan.is_err() && !host.privilege.can_inspect_tasks_of(process.uid)
}

/// An idle thread of a language runtime, as its futex call says.
fn is_idle_runtime_thread(host: &Host, thread: &Thread) -> bool {
    let call = thread.wait.syscall().ok().and_then(|call| Syscall::from_number(host.machine.as_bytes(), call));
    matches!(call.and_then(Syscall::futex_wait), Some(FutexWait::IdleRuntimeThread { .. }))
}

/// User's part of the ticks; `None` where none were counted.
fn user_tick_share(user_now: Counter, user_was: Counter, system_now: Counter, system_was: Counter) -> Option<f64> {
    let (user, system) = (user_now.since(user_was)? as f64, system_now.since(system_was)? as f64);
    Ratio::new(user, user + system).map(|ratio| ratio.0)
}

fn process_user_share(old: &Process, new: &Process) -> Option<f64> {
    user_tick_share(new.user_ticks, old.user_ticks, new.system_ticks, old.system_ticks)
}
