//! CPU time of the host and of each CPU. docs/metrics.md, "CPU time".

pub(super) mod usage;

use crate::ids::CpuId;
use crate::interval::cpu_accounting::{self, CpuAccounting};
use crate::interval::exited::ExitedSpan;
use crate::interval::task::TaskSpan;
use crate::sample::cpu::CpuTimes;
use crate::sample::{Host, Sample};
use crate::units::PerSecond;
use usage::shares;
pub use usage::{CpuShares, CpuUsage, MIN_REPORTED_UNACCOUNTED, MIN_USED_SHARE};

/// CPU use of the host and of each CPU.
#[derive(Clone, Debug)]
pub struct CpuSpan {
    /// The whole host, as shares of all CPUs
    pub total: CpuShares,
    /// CPUs that were online at both samples and whose counters did not decrease
    pub cpus: Vec<CpuUsage>,
    pub context_switches: Option<PerSecond>,
    pub interrupts: Option<PerSecond>,
    pub forks: Option<PerSecond>,
    /// Run time of all processes, exited ones included, ÷ Δt, in CPUs.
    pub scheduler_busy_cpus: Option<f64>,
    /// Busy time by clock tick, from /proc/stat, in CPUs.
    pub tick_busy_cpus: f64,
    /// Comparison of run time and ticks; `None` if CPUs went online or offline, or tasks could not be read
    pub accounting: Option<CpuAccounting>,
    /// Hidden CPU time: run time that no tick counted, in CPUs; 0 unless it is significant
    pub hidden_cpus: f64,
}

impl CpuSpan {
    /// Busy share of the host, hidden CPU time included.
    pub fn busy(&self) -> f64 {
        (self.total.busy() + self.hidden_cpus / self.cpus.len().max(1) as f64).min(1.0)
    }

    /// idle + iowait, minus hidden CPU time. Where idle time is exact (NO_HZ) hidden time is in `unaccounted` instead.
    pub fn available(&self) -> f64 {
        self.total.available().min((1.0 - self.busy() - self.total.steal).max(0.0))
    }

    pub(super) fn between(
        host: &Host,
        older: &Sample,
        newer: &Sample,
        seconds: f64,
        tasks: Option<&TaskSpan>,
        ended: Option<&ExitedSpan>,
    ) -> Option<CpuSpan> {
        let (was, now) = (older.cpu.as_ref().ok()?, newer.cpu.as_ref().ok()?);
        let ticks = seconds * host.ticks_per_second as f64;
        let mut cpus = Vec::with_capacity(now.cpus.len());
        for (place, (id, times)) in now.cpus.iter().enumerate() {
            let Some(before) = cpu_times(&was.cpus, *id, place) else { continue };
            if let Some(shares) = shares(before, times, ticks) {
                cpus.push(CpuUsage { id: *id, shares, scheduler_busy: 0.0, hidden: 0.0, top_thread: None });
            }
        }
        if let Some(tasks) = tasks {
            set_top_threads(&mut cpus, tasks);
            cpu_accounting::add_scheduler_time(&mut cpus, tasks);
        }
        let clocks = tasks.and_then(|tasks| CpuAccounting::between(host, older, newer, seconds, &cpus, tasks, ended));
        if let Some(clocks) = &clocks {
            clocks.assign_hidden(&mut cpus, seconds);
        }
        // The line `cpu` includes CPUs that went offline: use the mean of the paired CPUs unless the same ones are online.
        let same = cpus.len() == now.cpus.len() && was.cpus.len() == now.cpus.len();
        let line = || shares(&was.total, &now.total, ticks * now.cpus.len().max(1) as f64);
        let total = match cpus.is_empty() {
            true => line()?,
            // The counters of the line `cpu` may decrease although those of no online CPU did (a CPU came back online).
            false => Some(()).filter(|()| same).and_then(|()| line()).unwrap_or_else(|| mean_shares(&cpus)),
        };
        Some(CpuSpan {
            tick_busy_cpus: total.busy() * cpus.len().max(1) as f64,
            scheduler_busy_cpus: (clocks.map(|clocks| clocks.scheduler_cpus)).or(tasks.and_then(|tasks| tasks.busy_cpus)),
            hidden_cpus: clocks.map_or(0.0, |clocks| clocks.hidden_cpus()),
            accounting: clocks,
            total,
            cpus,
            context_switches: PerSecond::between(now.context_switches, was.context_switches, seconds),
            interrupts: PerSecond::between(now.interrupts, was.interrupts, seconds),
            forks: PerSecond::between(now.forks, was.forks, seconds),
        })
    }
}

/// The times of a CPU, which usually has the same place in both samples.
fn cpu_times(cpus: &[(CpuId, CpuTimes)], id: CpuId, place: usize) -> Option<&CpuTimes> {
    let is_there = cpus.get(place).is_some_and(|(other, _)| *other == id);
    let at = if is_there { place } else { cpus.binary_search_by_key(&id, |(id, _)| *id).ok()? };
    cpus.get(at).map(|(_, times)| times)
}

fn mean_shares(cpus: &[CpuUsage]) -> CpuShares {
    let n = cpus.len().max(1) as f64;
    let of = |field: fn(&CpuShares) -> f64| cpus.iter().map(|cpu| field(&cpu.shares)).sum::<f64>() / n;
    CpuShares {
        user: of(|s| s.user),
        nice: of(|s| s.nice),
        system: of(|s| s.system),
        irq: of(|s| s.irq),
        softirq: of(|s| s.softirq),
        steal: of(|s| s.steal),
        idle: of(|s| s.idle),
        iowait: of(|s| s.iowait),
        guest: of(|s| s.guest),
        guest_nice: of(|s| s.guest_nice),
        unaccounted: of(|s| s.unaccounted),
        excess: of(|s| s.excess),
    }
}

fn set_top_threads(cpus: &mut [CpuUsage], tasks: &TaskSpan) {
    for thread in &tasks.threads {
        let (Some(used), Ok(at)) = (thread.cpu, cpus.binary_search_by_key(&thread.processor, |cpu| cpu.id)) else { continue };
        let Some(cpu) = cpus.get_mut(at) else { continue };
        if used.0 > cpu.top_thread.map_or(0.0, |(_, most)| most.0) {
            cpu.top_thread = Some((thread.id, used));
        }
    }
}
