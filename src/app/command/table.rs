//! `table`: figures as lines, of the running machine or of a recording, and their total over the whole run.

mod command;
mod output_stream;

use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals;
use crate::app::program::stdio::ReaderState;
use crate::app::sampling::{SamplerCommand, SamplerThread, SamplingPlan};
use crate::app::time_range;
use crate::cli::table::{Format as FormatOption, Table};
use crate::cli::{Configuration, ProbeMode};
use crate::figures::{Aggregation, FigureInput, find_table};
use crate::findings::Evaluation;
use crate::kernel::Root;
use crate::report::table::{ColumnSelection, EvaluatedRun, Format, Printer, ResolvedSelection, RowTime, RunTotal};
use crate::units::time::time_of_day;
use output_stream::OutputStream;

/// Time between lines without INTERVAL.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

pub fn table(root: Root, configuration: &Configuration, options: &Table) -> Result<Exit, Failure> {
    let mut lines = TableOutput::new(options)?;
    let settings = Settings::load_and_warn(&root, configuration)?;
    match &options.from {
        Some(file) => from_recording(file, &settings, options, &mut lines),
        None if options.command.is_empty() => live(root, &settings, options, &mut lines),
        None => command::measure(root, &settings, options, &mut lines),
    }
}

/// Prints lines as the options request, and accumulates the total.
struct TableOutput {
    selection: ResolvedSelection,
    printer: Printer,
    stream: OutputStream,
    zone: TimeZone,
    /// All intervals, with `--total` or a command
    total: Option<EvaluatedRun>,
    /// Print no lines but the total
    total_only: bool,
    lines_printed: u32,
    max_lines: u32,
}

impl TableOutput {
    fn new(options: &Table) -> Result<TableOutput, Failure> {
        let usage = |what: String, remedy: &str| Failure::new(Exit::Usage, what, "", remedy);
        let unknown = || usage(format!("unknown table '{}'", options.what), "try 'stalltop table --help'");
        let table = find_table(&options.what).ok_or_else(unknown)?;
        let requested = ColumnSelection {
            columns: options.columns.clone(),
            sort: options.sort.clone(),
            top: options.top.and_then(|top| usize::try_from(top).ok()),
            pids: options.pids.clone(),
            name: options.name.clone(),
            without_idle: options.busy,
            divide_by_cpus: options.of_host,
        };
        let selection = ResolvedSelection::resolve(table, requested).map_err(|what| usage(what, ""))?;
        let format = match options.format {
            FormatOption::Text => Format::Text,
            FormatOption::Csv => Format::Csv { safe_formulas: options.safe_formulas },
            FormatOption::Json => Format::Json,
            FormatOption::Parseable => Format::Parseable,
        };
        let stream = if options.command.is_empty() { OutputStream::StandardOutput } else { OutputStream::StandardError };
        let printer = Printer::new(table, &selection.columns, format, stream.headings());
        // Without these options: one line of the running machine, all lines of a recording.
        let endless = options.interval.is_some() || options.span.is_some() || options.from.is_some();
        let total = options.total || !options.command.is_empty();
        Ok(TableOutput {
            selection,
            printer,
            stream,
            zone: TimeZone::system(),
            total: total.then(EvaluatedRun::default),
            total_only: total
                && (options.format == FormatOption::Csv || !options.command.is_empty() && options.interval.is_none()),
            lines_printed: 0,
            max_lines: options.count.unwrap_or(if endless || !options.command.is_empty() { u32::MAX } else { 1 }),
        })
    }

    /// Adds an interval. Returns whether more lines are to be printed.
    fn add(&mut self, evaluation: &Evaluation) -> Result<bool, Failure> {
        if let Some(run) = &mut self.total {
            run.add(evaluation);
        }
        self.print_line(evaluation.into(), false)
    }

    /// Adds several intervals as one line. Columns that only a single interval can have are unknown (`-`).
    fn add_combined(&mut self, run: &EvaluatedRun) -> Result<bool, Failure> {
        match run.total() {
            Some(total) => self.print_line(total.figure_input(), run.has_several_intervals()),
            None => Ok(true),
        }
    }

    /// Adds an interval to `step`, which becomes a line when it has lasted for `interval`, or ends with the boot.
    fn add_to_step(&mut self, evaluation: &Evaluation, step: &mut EvaluatedRun, interval: Duration) -> Result<bool, Failure> {
        if let Some(run) = &mut self.total {
            run.add(evaluation);
        }
        if !step.is_same_boot(evaluation) && !self.add_combined(&std::mem::take(step))? {
            return Ok(false);
        }
        step.add(evaluation);
        // A sample up to half an interval early still ends the line.
        let is_due = step.seconds() + evaluation.interval.seconds / 2.0 >= interval.as_secs_f64();
        if is_due { self.add_combined(&std::mem::take(step)) } else { Ok(true) }
    }

    /// Adds the line of the time since boot, which is not part of the total. Columns of a single interval are unknown (`-`).
    fn add_since_boot(&mut self, evaluation: Option<Evaluation>) -> Result<bool, Failure> {
        evaluation.map_or(Ok(true), |evaluation| self.print_line((&evaluation).into(), true))
    }

    fn print_line(&mut self, input: FigureInput, several: bool) -> Result<bool, Failure> {
        self.lines_printed += 1;
        if !self.total_only {
            let mut rows = self.selection.rows(&input);
            for (at, _) in self
                .selection
                .columns
                .iter()
                .enumerate()
                .filter(|(_, head)| several && head.aggregation == Aggregation::Unknown)
            {
                rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(|cell| *cell = Default::default());
            }
            let text = self.printer.lines(&stamp(&input, &self.zone), &rows).map_err(format_failure)?;
            if self.stream.print(self.printer.format(), &text)? == ReaderState::Closed {
                self.total = None;
                return Ok(false);
            }
        }
        Ok(self.lines_printed < self.max_lines)
    }

    /// Prints the total, if it was requested.
    fn print_total(&mut self) -> Result<Option<RunTotal>, Failure> {
        let Some(total) = self.total.as_ref().and_then(EvaluatedRun::total) else { return Ok(None) };
        let input = total.figure_input();
        let rows = self.selection.rows(&input);
        let capacity = self.selection.table().capacity(&input);
        let text = self.printer.total_lines(&stamp(&input, &self.zone), capacity, &rows).map_err(format_failure)?;
        self.stream.print(self.printer.format(), &text)?;
        Ok(Some(total))
    }
}

fn format_failure(error: std::io::Error) -> Failure {
    Failure::new(Exit::Failed, "cannot format the lines", error, "")
}

/// The end of an interval, in that time zone.
pub(super) fn stamp(input: &FigureInput, zone: &TimeZone) -> RowTime {
    let at = input.interval.at();
    RowTime { clock: time_of_day(at.realtime_ns, zone), at, seconds: input.interval.seconds }
}

/// Starts sampling, without throttling, so that lines keep their interval. Only the table of disks has baselines.
fn start(
    root: Root,
    settings: &Settings,
    interval: Duration,
    requested: (&Table, &ResolvedSelection),
) -> Result<LiveEvaluations, Failure> {
    let (options, selection) = requested;
    let baseline_learner = if options.what == "disk" { BaselineLearner::for_root(&root) } else { BaselineLearner::empty() };
    // Only the table of disks has figures of probes.
    let probes = if options.what == "disk" { settings.probes() } else { ProbeMode::Off };
    let plan = SamplingPlan::new(root, interval, options.span, probes).unthrottled();
    let sampler = SamplerThread::start(plan.with_context_switches(selection.is_expensive()))?;
    let rule_config = settings.rule_config_for(&sampler.host);
    LiveEvaluations::new(sampler, rule_config, baseline_learner)
}

fn live(root: Root, settings: &Settings, options: &Table, lines: &mut TableOutput) -> Result<Exit, Failure> {
    // With a total, a signal ends the run and prints it.
    let stop = lines.total.is_some().then(signals::TerminationSignals::block).transpose();
    let stop = stop.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let interval = options.interval.unwrap_or(DEFAULT_INTERVAL).min(options.span.unwrap_or(Duration::MAX));
    let mut evaluations = start(root, settings, interval, (options, &lines.selection))?;
    if let Some(stop) = stop {
        let control = evaluations.sampler.control();
        stop.on_signal(move || control.send(SamplerCommand::FinalSample))?;
    }
    let mut since_boot = options.since_boot;
    while let Some(sample) = evaluations.next_sample() {
        if std::mem::take(&mut since_boot)
            && !lines.add_since_boot(evaluations.pipeline().evaluate_since_boot(&sample.sample))?
        {
            break;
        }
        let Some(evaluation) = evaluations.evaluate(&sample) else { continue };
        if !lines.add(&evaluation)? {
            break;
        }
    }
    lines.print_total()?;
    evaluations.finish()?;
    Ok(Exit::Success)
}

/// Evaluates the recording from its beginning, so that baselines are as they were at that time.
fn from_recording(file: &Path, settings: &Settings, options: &Table, lines: &mut TableOutput) -> Result<Exit, Failure> {
    let mut recording = EvaluatedRecording::open(file, settings)?.for_tables(&[lines.selection.table()]);
    let samples = time_range::at_interval(recording.replayer(), options.at.as_ref(), options.span, file, &lines.zone)?;
    let mut step = EvaluatedRun::default();
    let mut since_boot = options.since_boot;
    let mut go_on = true;
    while go_on && let Some(evaluation) = recording.next_in(&samples) {
        if std::mem::take(&mut since_boot) {
            go_on = lines.add_since_boot(recording.evaluate_since_boot(&evaluation.interval.older))?;
        }
        go_on = go_on
            && match options.interval {
                None => lines.add(&evaluation)?,
                Some(interval) => lines.add_to_step(&evaluation, &mut step, interval)?,
            };
    }
    if go_on {
        // What is left, shorter than INTERVAL.
        lines.add_combined(&step)?;
    }
    lines.print_total()?;
    recording.warn_of_damage();
    Ok(if recording.replayer().damage().is_empty() { Exit::Success } else { Exit::Damaged })
}
