//! The mean figures of a window of time: the figures of the catalogue in the summary of `check` and of reports.

use crate::figures::cpu::{self, CpuRow};
use crate::figures::{Column, FigureInput, load};
use crate::interval::Interval;
use crate::interval::idle_blocked::CrossChecks;
use crate::interval::mean::TimeWeightedMean;

/// Means over time, under the keys of the catalogue; shares are those of all CPUs. `None` where no interval has the figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct MeanFigures {
    pub busy_ratio: Option<f64>,
    pub user_ratio: Option<f64>,
    pub nice_ratio: Option<f64>,
    pub system_ratio: Option<f64>,
    pub irq_ratio: Option<f64>,
    pub softirq_ratio: Option<f64>,
    pub steal_ratio: Option<f64>,
    pub idle_but_blocked_ratio: Option<f64>,
    /// The states of some threads could not be read: the ratio is a lower bound
    pub idle_but_blocked_is_lower_bound: bool,
    pub free_ratio: Option<f64>,
    pub iowait_ratio: Option<f64>,
    /// Online CPUs at the end
    pub cpus: usize,
    pub load1: Option<f64>,
    /// Threads in R: on a CPU or waiting for one
    pub running: Option<f64>,
    /// Threads in D
    pub blocked: Option<f64>,
    /// Threads that idle-but-blocked counts
    pub blocked_threads: Option<f64>,
    /// Threads hidden from this user (hidepid, a container): only the figures of the CPUs include them
    pub hidden_threads: Option<u32>,
}

/// The field of a figure.
type Field = fn(&mut MeanFigures) -> &mut Option<f64>;

static CPU_FIGURES: [(&Column<CpuRow>, Field); 10] = [
    (&cpu::BUSY_RATIO, |means| &mut means.busy_ratio),
    (&cpu::USER_RATIO, |means| &mut means.user_ratio),
    (&cpu::NICE_RATIO, |means| &mut means.nice_ratio),
    (&cpu::SYSTEM_RATIO, |means| &mut means.system_ratio),
    (&cpu::IRQ_RATIO, |means| &mut means.irq_ratio),
    (&cpu::SOFTIRQ_RATIO, |means| &mut means.softirq_ratio),
    (&cpu::STEAL_RATIO, |means| &mut means.steal_ratio),
    (&cpu::IDLE_BUT_BLOCKED_RATIO, |means| &mut means.idle_but_blocked_ratio),
    (&cpu::FREE_RATIO, |means| &mut means.free_ratio),
    (&cpu::IOWAIT_RATIO, |means| &mut means.iowait_ratio),
];

/// Of several figures the first that is known: /proc/stat counts as blocked only waits with iowait accounting.
static LOAD_FIGURES: [(&[&Column<Interval>], Field); 4] = [
    (&[&load::LOAD1], |means| &mut means.load1),
    (&[&load::RUNNING, &load::PROCS_RUNNING], |means| &mut means.running),
    (&[&load::BLOCKED, &load::PROCS_BLOCKED], |means| &mut means.blocked),
    (&[&load::BLOCKED_THREADS], |means| &mut means.blocked_threads),
];

/// Time-weighted sums of each figure over the intervals so far, in any order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Means {
    cpu: [TimeWeightedMean; CPU_FIGURES.len()],
    load: [TimeWeightedMean; LOAD_FIGURES.len()],
    psi_io_some: TimeWeightedMean,
    d_threads: TimeWeightedMean,
    in_flight: TimeWeightedMean,
    run_queue_wait: TimeWeightedMean,
    lower_bound: bool,
}

impl Means {
    pub fn add(&mut self, input: &FigureInput) {
        let interval = input.interval;
        let seconds = interval.seconds;
        let all_cpus = interval.cpu.as_ref().map(CpuRow::all_cpus);
        for ((figure, _), mean) in CPU_FIGURES.iter().zip(&mut self.cpu) {
            mean.add(all_cpus.as_ref().and_then(|row| figure.number(input, row)), seconds);
        }
        for ((figures, _), mean) in LOAD_FIGURES.iter().zip(&mut self.load) {
            mean.add(figures.iter().find_map(|figure| figure.number(input, interval)), seconds);
        }
        let blocked = interval.idle_blocked.as_ref();
        self.lower_bound |= blocked.is_some_and(|blocked| blocked.lower_bound);
        let checks = blocked.map(|blocked| blocked.cross_checks);
        self.psi_io_some.add(checks.and_then(|checks| checks.psi_io_some), seconds);
        self.d_threads.add(checks.map(|checks| checks.d_threads), seconds);
        self.in_flight.add(checks.and_then(|checks| checks.in_flight), seconds);
        self.run_queue_wait.add(checks.and_then(|checks| checks.run_queue_wait), seconds);
    }

    pub fn figures(&self) -> MeanFigures {
        let mut figures = MeanFigures { idle_but_blocked_is_lower_bound: self.lower_bound, ..MeanFigures::default() };
        for ((_, field), mean) in CPU_FIGURES.iter().zip(&self.cpu) {
            *field(&mut figures) = mean.mean();
        }
        for ((_, field), mean) in LOAD_FIGURES.iter().zip(&self.load) {
            *field(&mut figures) = mean.mean();
        }
        figures
    }

    /// Other measures of the same time; `None` if the threads could not be read.
    pub fn cross_checks(&self) -> Option<CrossChecks> {
        Some(CrossChecks {
            iowait: self.figures().iowait_ratio,
            psi_io_some: self.psi_io_some.mean(),
            d_threads: self.d_threads.mean()?,
            in_flight: self.in_flight.mean(),
            run_queue_wait: self.run_queue_wait.mean(),
        })
    }
}
