//! The shares of the time of one CPU, from the fields of its line in /proc/stat. docs/metrics.md, "CPU time".

use crate::ids::{CpuId, TaskId};
use crate::sample::cpu::CpuTimes;
use crate::units::{Counter, Ratio, delta};

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

/// Busy share from which a CPU is drawn as used. docs/metrics.md, "Fixed thresholds".
pub const MIN_USED_SHARE: f64 = 0.05;

/// Share of a CPU's time that is in no field of /proc/stat, from which sentences mention it.
pub const MIN_REPORTED_UNACCOUNTED: f64 = 0.02;

/// The kernel corrects its estimates of idle and iowait by no more than this.
const MAX_IDLE_CORRECTION_TICKS: u64 = 200;

/// Ticks of idle and iowait since `older`. Either may step back by some ticks, which is no growth; `None` if one fell further.
pub(in crate::interval) fn idle_ticks(older: &CpuTimes, newer: &CpuTimes) -> Option<(u64, u64)> {
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
