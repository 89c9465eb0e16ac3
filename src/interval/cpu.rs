//! CPU time of the host and of each CPU. docs/metrics.md, "CPU time".

use crate::ids::{CpuId, TaskId};
use crate::interval::cpu_accounting::{self, CpuAccounting};
use crate::interval::exited::ExitedSpan;
use crate::interval::task::TaskSpan;
use crate::sample::cpu::CpuTimes;
use crate::sample::{Host, Sample};
use crate::units::{Counter, PerSecond, Ratio, delta};

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

/// One CPU.
#[derive(Clone, Debug)]
pub struct CpuUsage {
    pub id: CpuId,
    pub shares: CpuShares,
    /// Run time of the threads that stayed on it ÷ Δt: a lower bound of its use.
    pub scheduler_busy: f64,
    /// Hidden CPU time as a share of this CPU; 0 unless it is significant
    pub hidden: f64,
    /// The thread that used most of it, among those last seen on this CPU, and its share of the CPU
    pub top_thread: Option<(TaskId, Ratio)>,
}

/// Shares of the time of one CPU or of the whole host, as in mpstat. With `unaccounted` they add up to 1, unless the kernel
/// counted more time than passed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub irq: f64,
    pub softirq: f64,
    pub steal: f64,
    pub idle: f64,
    pub iowait: f64,
    /// Part of `user`
    pub guest: f64,
    /// Part of `nice`
    pub guest_nice: f64,
    /// Time in none of the fields. On a tickless kernel hidden CPU time is here. The other shares are not scaled up to hide it.
    pub unaccounted: f64,
    /// Time counted beyond the elapsed time, as a share of the elapsed time. If it is above 0, the shares are of the time counted.
    pub excess: f64,
}

impl CpuShares {
    /// user + nice + system + irq + softirq. Steal is not included: the hypervisor gave that time to another guest.
    pub fn busy(&self) -> f64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// idle + iowait: time that no task used.
    pub fn available(&self) -> f64 {
        self.idle + self.iowait
    }
}

impl CpuUsage {
    /// Busy share, hidden CPU time included.
    pub fn busy(&self) -> f64 {
        (self.shares.busy() + self.hidden).min(1.0)
    }

    /// Share of its time that no task used: idle + iowait, minus hidden CPU time.
    pub fn available(&self) -> f64 {
        self.shares.available().min((1.0 - self.busy() - self.shares.steal).max(0.0))
    }
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
        for (id, times) in &now.cpus {
            let Ok(at) = was.cpus.binary_search_by_key(id, |(id, _)| *id) else { continue };
            let before = was.cpus.get(at).map(|(_, times)| times)?;
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

/// The kernel corrects its estimates of idle and iowait by no more than this.
const MAX_IDLE_CORRECTION_TICKS: u64 = 200;

/// Ticks of idle and iowait since `older`. Either may step back by some ticks, which is no growth; `None` if one fell further.
pub(super) fn idle_ticks(older: &CpuTimes, newer: &CpuTimes) -> Option<(u64, u64)> {
    let growth = |newer: Counter, older: Counter| match newer.since(older) {
        Some(growth) => Some(growth),
        None => (older.0 - newer.0 <= MAX_IDLE_CORRECTION_TICKS).then_some(0),
    };
    Some((growth(newer.idle_ticks, older.idle_ticks)?, growth(newer.iowait_ticks, older.iowait_ticks)?))
}

/// Shares of max(ΣΔ, Δt in ticks); `None` if a counter fell.
pub(super) fn shares(older: &CpuTimes, newer: &CpuTimes, ticks: f64) -> Option<CpuShares> {
    let grown = |new: Counter, old: Counter| new.since(old);
    let user = grown(newer.user_ticks, older.user_ticks)?;
    let nice = grown(newer.nice_ticks, older.nice_ticks)?;
    let system = grown(newer.system_ticks, older.system_ticks)?;
    let irq = grown(newer.irq_ticks, older.irq_ticks)?;
    let softirq = grown(newer.softirq_ticks, older.softirq_ticks)?;
    let (idle, iowait) = idle_ticks(older, newer)?;
    let steal = delta(newer.steal_ticks, older.steal_ticks).unwrap_or(0);
    // Guest time is accounted a moment after the user time that contains it.
    let guest = delta(newer.guest_ticks, older.guest_ticks).unwrap_or(0).min(user);
    let guest_nice = delta(newer.guest_nice_ticks, older.guest_nice_ticks).unwrap_or(0).min(nice);
    let sum = [user, nice, system, irq, softirq, idle, iowait, steal].map(|part| part as f64).iter().sum::<f64>();
    let whole = sum.max(ticks);
    if whole <= 0.0 {
        return None;
    }
    let missing = ticks - sum;
    let share = |part: u64| part as f64 / whole;
    Some(CpuShares {
        user: share(user),
        nice: share(nice),
        system: share(system),
        irq: share(irq),
        softirq: share(softirq),
        steal: share(steal),
        idle: share(idle),
        iowait: share(iowait),
        guest: share(guest),
        guest_nice: share(guest_nice),
        unaccounted: (missing / whole).max(0.0),
        excess: if ticks > 0.0 { (-missing / ticks).max(0.0) } else { 0.0 },
    })
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
