//! Metrics of the whole machine: CPU time, idle-but-blocked, pressure.

use super::family::{FamilyList, Metric};
use super::names;
use crate::figures::cpu::{self, CpuRow};
use crate::figures::{Column, FigureInput, load};
use crate::findings::Evaluation;
use crate::interval::Interval;
use crate::sample::Reading;
use crate::sample::pressure::{Stall, StallLine};

/// The modes of CPU time, as in /proc/stat, and their shares. Guests are part of user and nice.
static MODES: [(&str, &Column<CpuRow>); 8] = [
    ("user", &cpu::USER_RATIO),
    ("nice", &cpu::NICE_RATIO),
    ("system", &cpu::SYSTEM_RATIO),
    ("irq", &cpu::IRQ_RATIO),
    ("softirq", &cpu::SOFTIRQ_RATIO),
    ("steal", &cpu::STEAL_RATIO),
    ("iowait", &cpu::IOWAIT_RATIO),
    ("idle", &cpu::IDLE_RATIO),
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
        let (interval, input) = (&*evaluation.interval, FigureInput::from(evaluation));
        if let Some(span) = &interval.cpu {
            let (row, cpu_seconds) = (CpuRow::all_cpus(span), span.cpus.len() as f64 * interval.seconds);
            let seconds = |share: &Column<CpuRow>| share.number(&input, &row).unwrap_or(0.0) * cpu_seconds;
            for ((mode, share), total) in MODES.iter().zip(&mut self.modes) {
                *total += seconds(share);
                families.add(&names::CPU_SECONDS, vec![("mode", (*mode).to_owned())], *total);
            }
            families.add(&names::CPUS, vec![], cpu::CPUS.number(&input, &row));
            families.add(&names::BUSIEST_CPU, vec![], load::BUSIEST_CPU_RATIO.number(&input, interval));
            if let Some(blocked) = &interval.idle_blocked {
                self.idle_blocked += seconds(&cpu::IDLE_BUT_BLOCKED_RATIO);
                self.idle_free += seconds(&cpu::FREE_RATIO);
                families.add(&names::IDLE_BLOCKED, vec![], self.idle_blocked);
                families.add(&names::IDLE_FREE, vec![], self.idle_free);
                families.add(&names::IDLE_BLOCKED_RATIO, vec![], cpu::IDLE_BUT_BLOCKED_RATIO.number(&input, &row));
                families.add(&names::IDLE_BLOCKED_LOWER_BOUND, vec![], f64::from(u8::from(blocked.lower_bound)));
                families.add(&names::BLOCKED_THREADS, vec![], load::BLOCKED_THREADS.number(&input, interval));
            }
        }
        families.add(&names::BUSIEST_THREAD, vec![], load::BUSIEST_THREAD_RATIO.number(&input, interval));
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
