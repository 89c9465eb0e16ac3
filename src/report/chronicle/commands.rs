//! Who used the CPUs and who waited, by command: a hundred backends of one database are one row.

use rustc_hash::FxHashMap;

use super::curves::{Form, Unit};
use super::steps::{Steps, Values, rounded};
use super::{Chart, Series, lossy};
use crate::interval::Interval;
use crate::report::text::printable;
use crate::sample::Name;

/// All processes of one name.
#[derive(Clone, Debug, Default)]
pub struct Command {
    pub name: Name,
    /// Of CPU time
    pub cpu_seconds: f64,
    /// Thread-seconds without a CPU while runnable, on storage, behind a lock
    pub run_queue_seconds: f64,
    pub disk_seconds: f64,
    pub lock_seconds: f64,
    /// The most that were at work in one interval
    pub processes: u32,
    /// The most CPUs in one interval
    pub most_cpus: f64,
    /// Step, CPU seconds in it, most CPUs in it; only where there was something
    over_time: Vec<(usize, f64, f64)>,
}

impl Command {
    /// Running or kept from it.
    pub fn weight(&self) -> f64 {
        self.cpu_seconds + self.disk_seconds + self.lock_seconds
    }

    /// Whether any of its figures would be shown as more than 0 over that time: a row of zeros tells nobody anything.
    pub fn is_visible(&self, seconds: f64) -> bool {
        self.most_cpus.max(self.weight() / seconds.max(1e-9)) >= 0.005
    }
}

/// Commands by name.
#[derive(Debug, Default)]
pub struct Commands {
    by_name: FxHashMap<Name, Command>,
}

/// A box may invent names without end (kernel workers do): further ones are taken together.
const MOST_NAMES: usize = 4096;

/// What the rest is called. No command can: the kernel cuts names at 15 bytes.
const THE_REST: &str = "(all other commands)";

/// Commands that get a layer of their own.
const LAYERS: usize = 6;

/// Less than this many CPUs is not worth a row.
const NOTHING: f64 = 1e-6;

#[derive(Clone, Copy, Default)]
struct Now {
    cpu: f64,
    run_queue: f64,
    disk: f64,
    lock: f64,
    processes: u32,
}

impl Commands {
    pub fn add(&mut self, interval: &Interval, step: usize) {
        let (Some(span), Ok(tasks)) = (&interval.tasks, &interval.newer.tasks) else { return };
        let mut now: FxHashMap<&Name, Now> = FxHashMap::default();
        for (process, span) in span.processes_with_spans(&tasks.processes) {
            let cpu = span.cpu.map_or(0.0, |cpu| cpu.0);
            if cpu + span.states.disk + span.states.lock < NOTHING {
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
            let full = self.by_name.len() >= MOST_NAMES && !self.by_name.contains_key(name);
            let name = if full { Name::from(THE_REST) } else { name.clone() };
            let command = self.by_name.entry(name.clone()).or_insert_with(|| Command { name, ..Command::default() });
            command.take(sum, step, interval.seconds);
        }
    }

    /// Those that used or waited most.
    pub fn foremost(&self, most: usize) -> Vec<&Command> {
        self.sorted(most, Command::weight)
    }

    fn sorted(&self, most: usize, by: fn(&Command) -> f64) -> Vec<&Command> {
        let mut all: Vec<&Command> = self.by_name.values().filter(|command| by(command) > 0.0).collect();
        all.sort_by(|a, b| by(b).total_cmp(&by(a)).then_with(|| a.name.cmp(&b.name)));
        all.truncate(most);
        all
    }

    /// CPUs used by the foremost commands, in layers, and by all others.
    pub fn chart(&self, steps: &Steps) -> Chart {
        let top = self.sorted(LAYERS, |command| command.cpu_seconds);
        let mut rest = Command::default();
        for command in self.by_name.values().filter(|command| !top.iter().any(|shown| shown.name == command.name)) {
            rest.over_time.extend(&command.over_time);
        }
        let whole: f64 = steps.iter().map(|step| step.seconds).sum();
        let series = |name, label: String, command: &Command| {
            let overall = Some(command.over_time.iter().map(|(_, sum, _)| sum).sum::<f64>() / whole.max(1e-9));
            Series::new(name, &label, Form::Layer, overall, command.values(steps))
        };
        let mut all: Vec<Series> =
            top.iter().map(|command| series("cpus", printable(&lossy(&command.name)), command)).collect();
        if !rest.over_time.is_empty() {
            let mut others = series("other_cpus", "all others".to_owned(), &rest);
            // Their peaks may have been at different moments of a step: what they were together then is not known.
            others.max = if steps.each() > 1 { vec![None; steps.len()] } else { others.mean.clone() };
            others.peak = others.max.iter().flatten().copied().reduce(f64::max);
            all.push(others);
        }
        let title = "CPUs by command".to_owned();
        Chart { id: "commands".to_owned(), title, unit: Unit::Cpus, whole: None, logarithmic: false, series: all }
    }
}

impl Command {
    fn take(&mut self, now: Now, step: usize, seconds: f64) {
        self.cpu_seconds += now.cpu * seconds;
        self.run_queue_seconds += now.run_queue * seconds;
        self.disk_seconds += now.disk * seconds;
        self.lock_seconds += now.lock * seconds;
        self.processes = self.processes.max(now.processes);
        self.most_cpus = self.most_cpus.max(now.cpu);
        match self.over_time.last_mut().filter(|(last, ..)| *last == step) {
            Some((_, sum, most)) => {
                *sum += now.cpu * seconds;
                *most = most.max(now.cpu);
            }
            None => self.over_time.push((step, now.cpu * seconds, now.cpu)),
        }
    }

    /// Mean and highest CPUs of each step; where it was not at work it used none.
    fn values(&self, steps: &Steps) -> Values {
        let mut sums = vec![(0.0, 0.0_f64); steps.len()];
        for &(step, sum, most) in &self.over_time {
            if let Some(cell) = sums.get_mut(step) {
                cell.0 += sum;
                cell.1 = cell.1.max(most);
            }
        }
        let mean = steps.iter().zip(&sums).map(|(step, (sum, _))| Some(rounded(sum / step.seconds.max(1e-9))));
        (mean.collect(), sums.iter().map(|(_, most)| Some(rounded(*most))).collect())
    }
}
