//! The contents of a report on a whole recording: mean figures, findings, charts, usage by command.
//!
//! Intervals are added in the order of time; none is kept. In a long recording several intervals are one step of the charts,
//! with their mean and their maximum.

pub mod commands;
pub mod finding_groups;
pub mod latency_maps;
pub mod series_definitions;
pub mod steps;

use std::collections::BTreeMap;

use serde::Serialize;

use super::folded::FoldedStacks;
use super::formatting::printable;
use super::window::Window;
use crate::figures::FigureInput;
use crate::figures::cpu::CpuRow;
use crate::findings::{Evaluation, Thresholds};
use crate::ids::{DiskId, NicId};
use crate::interval::Interval;
use crate::interval::disk::DiskSpan;
use crate::interval::memory::MemorySpan;
use crate::interval::network::NicSpan;
use crate::sample::{Instant, Name};
use crate::units::SmallSort;
use commands::{CommandUsage, UsageByCommand};
use latency_maps::{Coverage, LatencyMap, LatencyMaps};
use series_definitions::{
    CPU_SERIES, ChartUnit, DISK_SERIES, LOAD_SERIES, MEMORY_SERIES, NIC_SERIES, PlotStyle, SeriesDefinition,
};
use steps::{MeanAndMax, SeriesAccumulator, Steps, round_to_five_digits};

/// Time that is missing from the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    pub from: Instant,
    pub to: Instant,
    /// Samples lost
    pub missing_samples: u64,
    pub reason: String,
}

impl Gap {
    /// Begin and end as written by `clock`; one time if both are equal.
    pub fn format_range(&self, clock: impl Fn(Instant) -> String) -> String {
        let (from, to) = (clock(self.from), clock(self.to));
        if from == to { from } else { format!("{from} to {to}") }
    }
}

/// A mark that a user put into the recording (`stalltop mark`).
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at: Instant,
    /// From outside
    pub text: String,
}

/// The contents of a report so far: window, gaps, marks, charts, latency maps, usage by command and stacks. Intervals are added
/// in the order of time.
pub struct ReportData {
    pub window: Window,
    pub gaps: Vec<Gap>,
    pub marks: Vec<Mark>,
    /// Why the end of the recording may be missing; `None`: complete
    pub truncation: Option<&'static str>,
    steps: Steps,
    cpu: ChartBuilder<CpuRow>,
    load: ChartBuilder<Interval>,
    memory: ChartBuilder<MemorySpan>,
    disks: BTreeMap<DiskId, DiskChart>,
    latency_maps: LatencyMaps,
    nics: BTreeMap<NicId, ChartBuilder<NicSpan>>,
    commands: UsageByCommand,
    /// Kernel stacks of stuck threads
    pub stacks: FoldedStacks,
    /// The multiple of its baseline from which a latency is a finding
    latency_multiple: f64,
    /// The share of all CPUs from which idle-but-blocked is a finding
    pub blocked_ratio: f64,
    intervals: u64,
}

/// Series over the same steps, in one unit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// `cpu`, `disk-sdb`
    pub id: String,
    #[serde(skip)]
    pub title: String,
    pub unit: ChartUnit,
    /// The top of the value axis, if fixed
    #[serde(skip)]
    pub fixed_max: Option<f64>,
    #[serde(skip)]
    pub logarithmic: bool,
    pub series: Vec<Series>,
    /// Of a disk: its number, for `ReportData::latency_maps`
    #[serde(skip)]
    pub disk: Option<DiskId>,
}

/// One figure: a value per step; `None`: unknown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    pub name: &'static str,
    pub label: String,
    #[serde(skip)]
    pub style: PlotStyle,
    /// The mean over the time in which it is known
    pub overall: Option<f64>,
    /// The maximum of all intervals
    pub peak: Option<f64>,
    pub mean: Vec<Option<f64>>,
    pub max: Vec<Option<f64>>,
}

impl Series {
    fn new(name: &'static str, label: &str, style: PlotStyle, overall: Option<f64>, values: MeanAndMax) -> Series {
        let (mean, max) = values;
        let peak = max.iter().flatten().copied().reduce(f64::max);
        Series { name, label: label.to_owned(), style, overall: overall.map(round_to_five_digits), peak, mean, max }
    }
}

impl ReportData {
    /// For a recording with that many intervals, evaluated by these thresholds.
    pub fn new(intervals: usize, thresholds: &Thresholds) -> ReportData {
        let steps = Steps::new(intervals);
        ReportData {
            window: Window::default(),
            gaps: Vec::new(),
            marks: Vec::new(),
            truncation: None,
            latency_maps: LatencyMaps::new(intervals.div_ceil(steps.intervals_per_step())),
            steps,
            cpu: ChartBuilder::new(CPU_SERIES),
            load: ChartBuilder::new(LOAD_SERIES),
            memory: ChartBuilder::new(MEMORY_SERIES),
            disks: BTreeMap::new(),
            nics: BTreeMap::new(),
            commands: UsageByCommand::default(),
            stacks: FoldedStacks::default(),
            latency_multiple: thresholds.latency_multiple,
            blocked_ratio: thresholds.blocked_ratio,
            intervals: 0,
        }
    }

    pub fn add(&mut self, evaluation: &Evaluation) {
        let interval: &Interval = &evaluation.interval;
        let at = self.steps.add_interval(interval);
        self.intervals += 1;
        self.window.add(evaluation);
        let input = &FigureInput::from(evaluation);
        if let Some(cpu) = &interval.cpu {
            self.cpu.add(input, &CpuRow::all_cpus(cpu), at, self.latency_multiple);
        }
        self.load.add(input, interval, at, self.latency_multiple);
        if let Some(memory) = &interval.memory {
            self.memory.add(input, memory, at, self.latency_multiple);
        }
        let facts = interval.newer.disks.as_deref().unwrap_or_default();
        for span in interval.disks.iter().filter(|span| span.completed() > 0 || span.in_flight > 0) {
            let Some(disk) = facts.get(span.index) else { continue };
            let disk = self.disks.entry(span.id).or_insert_with(|| DiskChart::new(disk.name.clone()));
            disk.provisional = evaluation.latency_statuses.iter().any(|status| status.disk == span.id && status.provisional);
            disk.chart.add(input, span, at, self.latency_multiple);
        }
        let coverage = Coverage::from_interval(interval);
        for span in &interval.disks {
            self.latency_maps.add(span, coverage, at);
        }
        for span in interval.network.nics.iter().filter(|span| span.rx.packets.0 > 0.0 || span.tx.packets.0 > 0.0) {
            let chart = self.nics.entry(span.id.clone()).or_insert_with(|| ChartBuilder::new(NIC_SERIES));
            chart.add(input, span, at, self.latency_multiple);
        }
        self.commands.add(interval, at);
        self.stacks.add(interval);
    }

    pub fn intervals(&self) -> u64 {
        self.intervals
    }

    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// The commands with the most CPU and wait time, at most `most`.
    pub fn top_commands(&self, most: usize) -> Vec<&CommandUsage> {
        self.commands.top(most)
    }

    /// How long the requests of a disk took, for each operation of which that was measured.
    pub fn latency_maps(&self, disk: DiskId) -> Vec<LatencyMap<'_>> {
        let name = self.disks.get(&disk).map(|known| printable(&known.name.to_string_lossy())).unwrap_or_default();
        self.latency_maps.of_disk(disk, &name)
    }

    /// Disks whose single requests were measured, and of which no map is kept.
    pub fn disks_without_latency_map(&self) -> usize {
        self.latency_maps.left_out_disks()
    }

    /// All charts in the order of the page.
    pub fn charts(&self) -> Vec<Chart> {
        let steps = self.steps.len();
        let mut charts = vec![
            Chart { fixed_max: Some(1.0), ..self.cpu.chart("cpu", "CPU", ChartUnit::Ratio, steps) },
            self.load.chart("load", "Load average, and what it is made of", ChartUnit::Threads, steps),
        ];
        let mut disks: Vec<(&DiskId, &DiskChart)> = self.disks.iter().collect();
        disks.small_sort_by(|a, b| b.1.chart.weight().total_cmp(&a.1.chart.weight()));
        charts
            .extend(disks.into_iter().map(|(id, disk)| Chart { disk: Some(*id), ..disk.chart(steps, self.latency_multiple) }));
        let mut nics: Vec<(&NicId, &ChartBuilder<NicSpan>)> = self.nics.iter().collect();
        nics.small_sort_by(|a, b| b.1.weight().total_cmp(&a.1.weight()));
        for (id, builder) in nics {
            let name = printable(&id.name.to_string_lossy());
            charts.push(builder.chart(&format!("nic-{name}"), &format!("Network {name}"), ChartUnit::BytesPerSecond, steps));
        }
        charts.push(self.memory.chart("memory", "Memory", ChartUnit::Bytes, steps));
        charts.push(self.commands.chart(&self.steps));
        charts.retain(|chart| !chart.series.is_empty());
        charts
    }
}

/// The chart of a disk with I/O.
struct DiskChart {
    name: Name,
    chart: ChartBuilder<DiskSpan>,
    /// A baseline was provisional in the last interval
    provisional: bool,
}

impl DiskChart {
    fn new(name: Name) -> DiskChart {
        DiskChart { name, chart: ChartBuilder::new(DISK_SERIES), provisional: false }
    }

    /// Limits are that multiple of the baselines.
    fn chart(&self, steps: usize, latency_multiple: f64) -> Chart {
        let name = printable(&self.name.to_string_lossy());
        let mut chart = self.chart.chart(&format!("disk-{name}"), &format!("Disk {name}: await"), ChartUnit::Seconds, steps);
        chart.logarithmic = true;
        let note = if self.provisional { " (~ not learned yet)" } else { "" };
        for series in chart.series.iter_mut().filter(|series| series.style == PlotStyle::Limit) {
            series.label = format!("{latency_multiple}× {}{note}", series.label);
        }
        chart
    }
}

/// The series of one subject with their values.
struct ChartBuilder<S: 'static> {
    definitions: &'static [SeriesDefinition<S>],
    accumulators: Vec<SeriesAccumulator>,
}

impl<S> ChartBuilder<S> {
    fn new(definitions: &'static [SeriesDefinition<S>]) -> ChartBuilder<S> {
        ChartBuilder { definitions, accumulators: vec![SeriesAccumulator::default(); definitions.len()] }
    }

    /// Adds the figures of a row; limits are that multiple of the baselines.
    fn add(&mut self, input: &FigureInput, row: &S, step: usize, latency_multiple: f64) {
        for (series, accumulator) in self.definitions.iter().zip(&mut self.accumulators) {
            let factor = if series.style == PlotStyle::Limit { latency_multiple } else { 1.0 };
            if let Some(value) = series.figure.number(input, row) {
                accumulator.add(step, value * factor, input.interval.seconds);
            }
        }
    }

    /// The sum over time of all series but limits: charts of one kind are sorted by it.
    fn weight(&self) -> f64 {
        let weighty =
            self.definitions.iter().zip(&self.accumulators).filter(|(definition, _)| definition.style != PlotStyle::Limit);
        weighty.map(|(_, accumulator)| accumulator.sum()).sum()
    }

    fn chart(&self, id: &str, title: &str, unit: ChartUnit, steps: usize) -> Chart {
        let known = self.definitions.iter().zip(&self.accumulators).filter(|(_, accumulator)| !accumulator.is_empty());
        let series = known.map(|(definition, accumulator)| {
            Series::new(
                definition.name,
                definition.label,
                definition.style,
                accumulator.mean(),
                accumulator.mean_and_max(steps),
            )
        });
        Chart {
            id: id.to_owned(),
            title: title.to_owned(),
            unit,
            fixed_max: None,
            logarithmic: false,
            series: series.collect(),
            disk: None,
        }
    }
}
