//! Metrics of the whole machine: CPU time, idle-but-blocked, pressure.

use super::family::{FamilyList, Metric};
use super::names;
use crate::figures::FigureInput;
use crate::figures::cpu::{CpuRow, IDLE_BUT_BLOCKED_RATIO};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::interval::cpu::{CpuShares, CpuUsage};
use crate::sample::Reading;
use crate::sample::pressure::{Stall, StallLine};

/// A mode of CPU time, as in /proc/stat, and its share.
type Mode = (&'static str, fn(&CpuShares) -> f64);

/// Guests are part of user and nice.
const MODES: [Mode; 8] = [
    ("user", |shares| shares.user),
    ("nice", |shares| shares.nice),
    ("system", |shares| shares.system),
    ("irq", |shares| shares.irq),
    ("softirq", |shares| shares.softirq),
    ("steal", |shares| shares.steal),
    ("iowait", |shares| shares.iowait),
    ("idle", |shares| shares.idle),
];

/// CPU-seconds since the start. Not the kernel's counters: iowait and idle of /proc/stat may decrease, which `rate()` takes for a reset.
#[derive(Clone, Debug, Default)]
pub struct HostMetrics {
    modes: [f64; MODES.len()],
    idle_blocked: f64,
    idle_free: f64,
}

impl HostMetrics {
    pub fn add(&mut self, evaluation: &Evaluation, families: &mut FamilyList) {
        let interval = &evaluation.interval;
        if let Some(cpu) = &interval.cpu {
            let cpu_seconds = cpu.cpus.len() as f64 * interval.seconds;
            for ((mode, share), total) in MODES.iter().zip(&mut self.modes) {
                *total += share(&cpu.total) * cpu_seconds;
                families.add(&names::CPU_SECONDS, vec![("mode", (*mode).to_owned())], *total);
            }
            families.add(&names::CPUS, vec![], cpu.cpus.len() as f64);
            families.add(&names::BUSIEST_CPU, vec![], cpu.cpus.iter().map(CpuUsage::busy).max_by(f64::total_cmp));
            if let Some(blocked) = &interval.idle_blocked {
                self.idle_blocked += blocked.ratio * cpu_seconds;
                self.idle_free += blocked.free * cpu_seconds;
                families.add(&names::IDLE_BLOCKED, vec![], self.idle_blocked);
                families.add(&names::IDLE_FREE, vec![], self.idle_free);
                let ratio = IDLE_BUT_BLOCKED_RATIO.number(&FigureInput::from(evaluation), &CpuRow::all_cpus(cpu));
                families.add(&names::IDLE_BLOCKED_RATIO, vec![], ratio);
                families.add(&names::IDLE_BLOCKED_LOWER_BOUND, vec![], f64::from(u8::from(blocked.lower_bound)));
                families.add(&names::BLOCKED_THREADS, vec![], blocked.blocked_threads);
            }
        }
        let threads = interval.tasks.iter().flat_map(|tasks| &tasks.threads);
        let busiest = threads.filter_map(|thread| Some(thread.cpu?.0)).max_by(f64::total_cmp);
        families.add(&names::BUSIEST_THREAD, vec![], busiest);
        add_pressure(interval, families);
    }
}

/// The kernel's counters, since boot.
fn add_pressure(interval: &Interval, families: &mut FamilyList) {
    type Line = fn(&Stall) -> Option<StallLine>;
    let (some, full): (Line, Line) = (|stall| stall.some, |stall| stall.full);
    let pressure = &interval.newer.pressure;
    let metrics: [(&'static Metric, &Reading<Stall>, Line); 6] = [
        (&names::PRESSURE_CPU_WAITING, &pressure.cpu, some),
        (&names::PRESSURE_IO_WAITING, &pressure.io, some),
        (&names::PRESSURE_IO_STALLED, &pressure.io, full),
        (&names::PRESSURE_MEMORY_WAITING, &pressure.memory, some),
        (&names::PRESSURE_MEMORY_STALLED, &pressure.memory, full),
        (&names::PRESSURE_IRQ_STALLED, &pressure.irq, full),
    ];
    for (metric, stall, line) in metrics {
        let total = stall.as_ref().ok().and_then(line).map(|line| line.total_us.0 as f64 / 1e6);
        families.add(metric, vec![], total);
    }
}
