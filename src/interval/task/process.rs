//! One process over an interval: its own CPU clock and counters, and the sums over its threads.

use std::sync::Arc;

use super::process_totals::{alive_threads, has_schedstat};
use super::thread::is_not_sleeping;
use super::{Microstates, ProcessSpan, TaskSpan, TaskSpanBuilder, ThreadSpan, user_tick_share};
use crate::ids::TaskId;
use crate::interval::new_tasks::zeroed_process;
use crate::interval::pairing::SortedCursor;
use crate::sample::task::{ChildrenCpuTime, Process};
use crate::units::{Counter, PerSecond, Ratio};

/// Sums over the threads of one process. A figure that no thread has is `None`.
#[derive(Default)]
struct ThreadTotals {
    states: Microstates,
    run_queue_wait: Option<f64>,
    timeslices: Option<f64>,
    block_io_delay: Option<f64>,
    /// The thread that used or waited most, and how much
    top_thread: Option<(TaskId, f64)>,
}

impl ThreadTotals {
    fn add(&mut self, thread: &ThreadSpan) {
        let add = |sum: &mut Option<f64>, part: Option<f64>| {
            if let Some(part) = part {
                *sum.get_or_insert(0.0) += part;
            }
        };
        self.states.add(&thread.states);
        add(&mut self.run_queue_wait, thread.run_queue_wait.map(|wait| wait.0));
        add(&mut self.timeslices, thread.timeslices.map(|rate| rate.0));
        add(&mut self.block_io_delay, thread.block_io_delay.map(|share| share.0));
        let weight = thread.states.non_sleep();
        if weight > self.top_thread.map_or(0.0, |(_, most)| most) {
            self.top_thread = Some((thread.id, weight));
        }
    }
}

impl TaskSpanBuilder<'_> {
    /// Adds a process of the newer sample and its threads to `span`; `old` is the same process in the older sample.
    pub(super) fn add_process(&self, old: Option<&Arc<Process>>, new: &Arc<Process>, span: &mut TaskSpan) {
        let unchanged = old.is_some_and(|old| Arc::ptr_eq(old, new) || is_unchanged(old, new));
        let slept = unchanged && !new.threads.iter().any(is_not_sleeping);
        if slept && self.in_lock_waits.binary_search(&new.pid).is_err() {
            if new.cpu_ns.is_some() || !new.kernel_thread {
                span.busy_cpus.get_or_insert(0.0);
            }
            if has_schedstat(new) {
                span.run_queue_wait.get_or_insert(0.0);
            }
            return;
        }
        let seconds = self.read_times.seconds(new.pid, old.is_some());
        let rows = span.threads.len();
        let mut totals = ThreadTotals::default();
        let mut older_threads = SortedCursor::new(old.map_or(&[][..], |old| &old.threads));
        for thread in new.threads.iter() {
            let before = older_threads.find(|old| old.tid.cmp(&thread.tid)).filter(|before| {
                let pair = old.map(|old| [(&**old, *before), (&**new, thread)]);
                before.start_ticks == thread.start_ticks && !pair.is_some_and(|pair| Self::is_replaced(pair, seconds))
            });
            let Some(row) = self.thread(before, new, thread, seconds, &mut span.counts) else {
                totals.states.sleep += 1.0;
                continue;
            };
            totals.add(&row);
            span.threads.push(row);
        }
        let zeroed = (old.is_none() && self.is_new(new.start_ticks)).then(|| zeroed_process(new));
        let was = old.map(Arc::as_ref).or(zeroed.as_ref());
        let cpu = was.and_then(|was| self.process_cpu(was, new, seconds));
        if let (Some(cpu), false) = (cpu, new.kernel_thread && new.cpu_ns.is_none()) {
            *span.busy_cpus.get_or_insert(0.0) += cpu.0;
        }
        let slept = old.is_some() && span.threads.len() == rows;
        if totals.run_queue_wait.is_some() || unchanged && has_schedstat(new) {
            *span.run_queue_wait.get_or_insert(0.0) += totals.run_queue_wait.unwrap_or(0.0);
        }
        let rate = |field: fn(&Process) -> Option<Counter>| PerSecond::between(field(new), field(was?), seconds);
        let user = match cpu.zip(was) {
            Some(_) if new.kernel_thread => Some(Ratio(0.0)),
            Some((cpu, was)) if cpu.0 > 0.0 => process_user_share(was, new).map(|share| Ratio(cpu.0 * share)),
            nothing => nothing.map(|(cpu, _)| cpu),
        };
        span.active_processes.push(ProcessSpan {
            id: new.id(),
            threads: alive_threads(new),
            cpu,
            user,
            guest: was.and_then(|was| self.guest(was.guest_ticks, new.guest_ticks, user, seconds)),
            children_cpu: was.and_then(|was| self.children_cpu(was.children_cpu?, new.children_cpu?, seconds)),
            run_queue_wait: totals.run_queue_wait.map(Ratio).or(unchanged.then_some(Ratio(0.0))),
            states: totals.states,
            timeslices: totals.timeslices.or(slept.then_some(0.0)).map(PerSecond),
            block_io_delay: totals.block_io_delay.or((slept && self.delays_counted()).then_some(0.0)).map(Ratio),
            minor_faults: rate(|process| Some(process.minor_faults)),
            major_faults: rate(|process| Some(process.major_faults)),
            read_bytes: rate(|process| process.io.ok().map(|io| io.read_bytes)),
            write_bytes: rate(|process| process.io.ok().map(|io| io.write_bytes)),
            resident_pages: new.resident_pages,
            resident_pages_growth: was.and_then(|was| growth(was.resident_pages, new.resident_pages, seconds)),
            virtual_bytes_growth: was.and_then(|was| growth(was.virtual_bytes?, new.virtual_bytes?, seconds)),
            top_thread: totals.top_thread.map(|(id, _)| id),
        });
    }

    fn process_cpu(&self, old: &Process, new: &Process, seconds: f64) -> Option<Ratio> {
        if let (Some(newer), Some(older)) = (new.cpu_ns, old.cpu_ns) {
            return self.cpus(newer.since(older)? as f64 / 1e9, seconds);
        }
        let ticks = new.user_ticks.since(old.user_ticks)? as f64 + new.system_ticks.since(old.system_ticks)? as f64;
        self.cpus(self.host.seconds(ticks), seconds)
    }

    fn children_cpu(&self, was: ChildrenCpuTime, now: ChildrenCpuTime, seconds: f64) -> Option<Ratio> {
        let ticks = now.user_ticks.since(was.user_ticks)? as f64 + now.system_ticks.since(was.system_ticks)? as f64;
        Ratio::new(self.host.seconds(ticks), seconds)
    }
}

/// The change of an amount per second; `None` if no time passed.
fn growth(older: u64, newer: u64, seconds: f64) -> Option<PerSecond> {
    (seconds > 0.0).then(|| PerSecond((newer as f64 - older as f64) / seconds))
}

/// Whether no thread of it ran. Its facts may have changed: with thousands of processes some are read later than others.
fn is_unchanged(old: &Process, new: &Process) -> bool {
    new.cpu_ns.is_some() && new.cpu_ns == old.cpu_ns && new.threads == old.threads && new.children_cpu == old.children_cpu
}

fn process_user_share(older: &Process, newer: &Process) -> Option<f64> {
    user_tick_share([older.user_ticks, newer.user_ticks], [older.system_ticks, newer.system_ticks])
}
