//! Hidden CPU time: compares two measurements of the same work, the scheduler's run time, which is exact, and the clock ticks
//! of /proc/stat, which sample each CPU 100 to 1000 times a second. docs/metrics.md, "Hidden CPU time".
//!
//! Both always differ a little: by sampling error, because /proc/stat and the tasks are read one after the other, and because
//! only the ticks include interrupts. A larger difference is work between two ticks, or time that is counted twice.

use crate::interval::cpu::usage::{CpuUsage, idle_ticks};
use crate::interval::exited::ExitedSpan;
use crate::interval::task::TaskSpan;
use crate::sample::cpu::CpuTimes;
use crate::sample::{Host, Sample};
use crate::units::{Counter, delta};

/// Run time and ticks of one interval, in CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuAccounting {
    /// Run time of all tasks, exited ones included
    pub scheduler_cpus: f64,
    /// user + nice + system of /proc/stat
    pub task_tick_cpus: f64,
    /// `task_tick_cpus` + irq + softirq. Whether a task's run time contains interrupts depends on the kernel.
    pub tick_cpus: f64,
    /// Interrupt and stolen time that the run time of tasks may contain
    pub interrupting_cpus: f64,
    /// All fields minus the elapsed time: above 0 where ticks count time twice
    pub excess_cpus: f64,
    /// Possible difference because /proc/stat and the tasks are read one after the other
    pub read_skew_cpus: f64,
    /// Variance of tick sampling
    pub variance: f64,
    /// Whether `scheduler_cpus` includes every process
    pub complete: bool,
}

/// The lowest tick rate (CONFIG_HZ) of a kernel; the real one cannot be read.
pub const MIN_TICKS_PER_SECOND: f64 = 100.0;
/// Standard deviations below which a difference is chance.
pub const MIN_DEVIATIONS: f64 = 4.0;
/// Differences below this are ignored, in CPUs.
pub const MIN_DIFFERENCE_CPUS: f64 = 0.05;
/// A running thread's run time is updated at the tick only.
const RUN_TIME_UPDATE_SECONDS: f64 = 0.01;

impl CpuAccounting {
    pub(super) fn between(
        host: &Host,
        older: &Sample,
        newer: &Sample,
        seconds: f64,
        cpus: &[CpuUsage],
        tasks: &TaskSpan,
        ended: Option<&ExitedSpan>,
    ) -> Option<CpuAccounting> {
        let (was, now) = (older.cpu.as_ref().ok()?, newer.cpu.as_ref().ok()?);
        // If CPUs went online or offline, the sum lacks their time.
        if cpus.len() != now.cpus.len() || was.cpus.len() != now.cpus.len() {
            return None;
        }
        let whole = seconds * host.ticks_per_second.max(1) as f64;
        let field = |of: fn(&CpuTimes) -> Counter| Some(of(&now.total).since(of(&was.total))? as f64 / whole);
        let task_ticks = field(|t| t.user_ticks)? + field(|t| t.nice_ticks)? + field(|t| t.system_ticks)?;
        let ticks = task_ticks + field(|t| t.irq_ticks)? + field(|t| t.softirq_ticks)?;
        let steal = delta(now.total.steal_ticks, was.total.steal_ticks).unwrap_or(0) as f64 / whole;
        let interrupting = interrupting_cpus(cpus, tasks.busy_cpus? + ended.and_then(|ended| ended.cpus).unwrap_or(0.0));
        let (idle, iowait) = idle_ticks(&was.total, &now.total)?;
        let available = idle as f64 / whole + iowait as f64 / whole;
        let scheduler = tasks.busy_cpus? + ended.and_then(|ended| ended.cpus).unwrap_or(0.0);
        let reading = (reading_seconds(older) + reading_seconds(newer)) / seconds;
        let hidden = newer.tasks.as_ref().is_ok_and(|tasks| tasks.hidden.processes);
        Some(CpuAccounting {
            scheduler_cpus: scheduler,
            task_tick_cpus: task_ticks,
            tick_cpus: ticks,
            interrupting_cpus: interrupting.min(ticks - task_ticks + steal),
            excess_cpus: ticks + steal + available - now.cpus.len() as f64,
            read_skew_cpus: scheduler.max(ticks) * reading,
            variance: cpus.iter().map(|cpu| variance(cpu, seconds)).sum(),
            complete: !hidden && ended.is_some_and(|ended| ended.cpus.is_some()),
        })
    }

    /// Run time minus ticks, in CPUs. Above 0: run time that no tick counted. Below 0: ticks without run time of a task.
    pub fn difference(&self) -> f64 {
        let hidden = self.scheduler_cpus - self.task_tick_cpus - self.interrupting_cpus;
        let counted_too_much = self.task_tick_cpus - self.scheduler_cpus;
        match (hidden > 0.0, counted_too_much > 0.0 && self.complete) {
            (true, _) => hidden,
            (false, true) => -counted_too_much,
            (false, false) => 0.0,
        }
    }

    /// The largest difference that sampling error and read skew explain in this interval, in CPUs.
    pub fn tolerance(&self) -> f64 {
        MIN_DIFFERENCE_CPUS + self.read_skew_cpus + MIN_DEVIATIONS * self.variance.sqrt()
    }

    /// Hidden CPU time in CPUs, if the difference exceeds the tolerance; otherwise 0.
    pub fn hidden_cpus(&self) -> f64 {
        let gap = self.difference();
        if gap > self.tolerance() { gap } else { 0.0 }
    }

    /// Assigns hidden CPU time to the CPUs whose threads stayed on them; no CPU gets more than its available time. A thread that left
    /// its CPU and came back lets that CPU have too much run time, and others too little: what these lack explains the difference.
    pub(super) fn assign_hidden(&self, cpus: &mut [CpuUsage], seconds: f64) {
        let hidden = self.hidden_cpus();
        let task_ticks = |cpu: &CpuUsage| cpu.shares.user + cpu.shares.nice + cpu.shares.system;
        let without_run_time: f64 = cpus.iter().map(|cpu| (task_ticks(cpu) - cpu.scheduler_busy).max(0.0)).sum();
        let stayed: f64 = cpus.iter().map(|cpu| cpu.scheduler_busy).sum();
        let elsewhere = (without_run_time - (self.scheduler_cpus - stayed).max(0.0)).max(0.0);
        for cpu in cpus.iter_mut().filter(|_| hidden > 0.0) {
            let gap = cpu.scheduler_busy - cpu.shares.busy() - cpu.shares.steal;
            let tolerance =
                MIN_DIFFERENCE_CPUS + RUN_TIME_UPDATE_SECONDS / seconds + MIN_DEVIATIONS * variance(cpu, seconds).sqrt();
            if gap > tolerance + elsewhere && cpu.scheduler_busy <= 1.0 + tolerance {
                cpu.hidden = gap.min(hidden).min(1.0 - cpu.shares.busy() - cpu.shares.steal).max(0.0);
            }
        }
    }
}

/// Interrupt and stolen time that the run time of tasks may contain: of a CPU no more than the run time of its threads beyond its task
/// ticks; of threads that migrate no more than their run time beyond the ticks for which no thread stayed. Softirqs of one CPU do not
/// explain the run time on another.
fn interrupting_cpus(cpus: &[CpuUsage], scheduler_cpus: f64) -> f64 {
    let (mut contained, mut left, mut stayed, mut without_run_time) = (0.0, 0.0, 0.0, 0.0);
    for cpu in cpus {
        let shares = &cpu.shares;
        let interrupting = shares.irq + shares.softirq + shares.steal;
        let beyond_ticks = cpu.scheduler_busy - shares.user - shares.nice - shares.system;
        let room = beyond_ticks.clamp(0.0, interrupting);
        contained += room;
        left += interrupting - room;
        stayed += cpu.scheduler_busy;
        without_run_time += (-beyond_ticks).max(0.0);
    }
    contained + left.min((scheduler_cpus - stayed - without_run_time).max(0.0))
}

/// Adds the run time of the threads that stayed on one CPU.
pub(super) fn add_scheduler_time(cpus: &mut [CpuUsage], tasks: &TaskSpan) {
    for thread in tasks.threads.iter().filter(|thread| !thread.migrated) {
        let (Some(used), Ok(at)) = (thread.cpu, cpus.binary_search_by_key(&thread.processor, |cpu| cpu.id)) else { continue };
        if let Some(cpu) = cpus.get_mut(at) {
            cpu.scheduler_busy += used.0;
        }
    }
}

/// Variance of a share that is sampled by the tick.
fn variance(cpu: &CpuUsage, seconds: f64) -> f64 {
    let of = |share: f64| share.clamp(0.0, 1.0) * (1.0 - share.clamp(0.0, 1.0));
    of(cpu.shares.busy()).max(of(cpu.scheduler_busy)) / (MIN_TICKS_PER_SECOND * seconds)
}

/// Time between the first reading of a sample (/proc/stat) and the last (the closing sub-sample).
fn reading_seconds(sample: &Sample) -> f64 {
    let end = sample.waits.sub_samples.last().map_or(0, |last| last.boottime_ns);
    end.saturating_sub(sample.at.boottime_ns) as f64 / 1e9
}
