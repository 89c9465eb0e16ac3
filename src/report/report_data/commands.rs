//! CPU time and wait time by command name: all processes of one name are one row.

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::series_definitions::{ChartUnit, PlotStyle};
use super::steps::{MeanAndMax, Steps, round_to_five_digits};
use super::{Chart, Series};
use crate::interval::Interval;
use crate::report::formatting::printable;
use crate::sample::Name;
use crate::units::SmallSort;

/// All processes of one name.
#[derive(Clone, Debug, Default)]
pub struct CommandUsage {
    pub name: Name,
    /// Of CPU time
    pub cpu_seconds: f64,
    /// Thread-seconds without a CPU while runnable, on storage, behind a lock
    pub run_queue_seconds: f64,
    pub disk_seconds: f64,
    pub lock_seconds: f64,
    /// Active processes: the maximum of all intervals
    pub processes: u32,
    /// CPUs used: the maximum of all intervals
    pub peak_cpus: f64,
    /// (step, CPU seconds, maximum CPUs), only of steps with CPU time
    per_step: Vec<(usize, f64, f64)>,
}

impl CommandUsage {
    /// Seconds of CPU time, of waits for storage and of lock waits together.
    pub fn weight(&self) -> f64 {
        self.cpu_seconds + self.disk_seconds + self.lock_seconds
    }

    /// Whether any figure is at least 0.005 over that time: a row of zeros is left out.
    pub fn is_visible(&self, seconds: f64) -> bool {
        self.peak_cpus.max(self.weight() / seconds.max(1e-9)) >= 0.005
    }
}

/// Commands by name.
#[derive(Debug, Default)]
pub struct UsageByCommand {
    by_name: FxHashMap<Name, CommandUsage>,
}

/// Names that are kept; further ones are counted together (names of kernel workers are unbounded).
const MAX_NAMES: usize = 4096;

/// The name of the rest. It cannot be a command's name: the kernel cuts those at 15 bytes.
const OTHER_COMMANDS: &str = "(all other commands)";

/// Commands with a layer of their own in the chart.
const MAX_LAYERS: usize = 6;

/// CPUs below which a process is not counted.
const MIN_CPUS: f64 = 1e-6;

#[derive(Clone, Copy, Default)]
struct IntervalUsage {
    cpu: f64,
    run_queue: f64,
    disk: f64,
    lock: f64,
    processes: u32,
}

impl UsageByCommand {
    pub fn add(&mut self, interval: &Interval, step: usize) {
        let active = interval.tasks.as_ref().map_or(0, |tasks| tasks.active_processes.len());
        let mut now: FxHashMap<&Name, IntervalUsage> = FxHashMap::with_capacity_and_hasher(active, FxBuildHasher);
        for (process, span) in interval.active_processes() {
            let cpu = span.cpu.map_or(0.0, |cpu| cpu.0);
            if cpu + span.states.disk + span.states.lock < MIN_CPUS {
                continue;
            }
            let sum = now.entry(&process.comm).or_default();
            sum.cpu += cpu;
            sum.run_queue += span.run_queue_wait.map_or(0.0, |wait| wait.0);
            sum.disk += span.states.disk;
            sum.lock += span.states.lock;
            sum.processes += 1;
        }
        for (name, sum) in now {
            let command = match self.by_name.get_mut(name) {
                Some(command) => command,
                None => {
                    let is_full = self.by_name.len() >= MAX_NAMES;
                    let name = if is_full { Name::from(OTHER_COMMANDS) } else { name.clone() };
                    let new = CommandUsage { name: name.clone(), ..CommandUsage::default() };
                    self.by_name.entry(name).or_insert(new)
                }
            };
            command.add(sum, step, interval.seconds);
        }
    }

    /// The commands with the most CPU and wait time.
    pub fn top(&self, most: usize) -> Vec<&CommandUsage> {
        self.top_by(most, CommandUsage::weight)
    }

    fn top_by(&self, most: usize, by: fn(&CommandUsage) -> f64) -> Vec<&CommandUsage> {
        let mut all: Vec<&CommandUsage> = self.by_name.values().filter(|command| by(command) > 0.0).collect();
        all.small_sort_by(|a, b| by(b).total_cmp(&by(a)).then_with(|| a.name.cmp(&b.name)));
        all.truncate(most);
        all
    }

    /// CPUs used by the top commands, one layer each, and by all others.
    pub fn chart(&self, steps: &Steps) -> Chart {
        let top = self.top_by(MAX_LAYERS, |command| command.cpu_seconds);
        let mut rest = CommandUsage::default();
        for command in self.by_name.values().filter(|command| !top.iter().any(|shown| shown.name == command.name)) {
            rest.per_step.extend(&command.per_step);
        }
        let whole: f64 = steps.iter().map(|step| step.seconds).sum();
        let series = |name, label: String, command: &CommandUsage| {
            let overall = Some(command.per_step.iter().map(|(_, sum, _)| sum).sum::<f64>() / whole.max(1e-9));
            Series::new(name, &label, PlotStyle::Layer, overall, command.mean_and_max(steps))
        };
        let mut all: Vec<Series> =
            top.iter().map(|command| series("cpus", printable(&command.name.to_string_lossy()), command)).collect();
        if !rest.per_step.is_empty() {
            let mut others = series("other_cpus", "all others".to_owned(), &rest);
            // Their maxima may be of different intervals of a step: the maximum of their sum is unknown.
            others.max = if steps.intervals_per_step() > 1 { vec![None; steps.len()] } else { others.mean.clone() };
            others.peak = others.max.iter().flatten().copied().reduce(f64::max);
            all.push(others);
        }
        let title = "CPUs by command".to_owned();
        Chart {
            id: "commands".to_owned(),
            title,
            unit: ChartUnit::Cpus,
            fixed_max: None,
            logarithmic: false,
            series: all,
            disk: None,
        }
    }
}

impl CommandUsage {
    fn add(&mut self, now: IntervalUsage, step: usize, seconds: f64) {
        self.cpu_seconds += now.cpu * seconds;
        self.run_queue_seconds += now.run_queue * seconds;
        self.disk_seconds += now.disk * seconds;
        self.lock_seconds += now.lock * seconds;
        self.processes = self.processes.max(now.processes);
        self.peak_cpus = self.peak_cpus.max(now.cpu);
        match self.per_step.last_mut().filter(|(last, ..)| *last == step) {
            Some((_, sum, most)) => {
                *sum += now.cpu * seconds;
                *most = most.max(now.cpu);
            }
            None => self.per_step.push((step, now.cpu * seconds, now.cpu)),
        }
    }

    /// Mean and maximum CPUs of each step; 0 where it was inactive.
    fn mean_and_max(&self, steps: &Steps) -> MeanAndMax {
        let mut sums = vec![(0.0, 0.0_f64); steps.len()];
        for &(step, sum, most) in &self.per_step {
            if let Some(cell) = sums.get_mut(step) {
                cell.0 += sum;
                cell.1 = cell.1.max(most);
            }
        }
        let mean = steps.iter().zip(&sums).map(|(step, (sum, _))| Some(round_to_five_digits(sum / step.seconds.max(1e-9))));
        (mean.collect(), sums.iter().map(|(_, most)| Some(round_to_five_digits(*most))).collect())
    }
}
