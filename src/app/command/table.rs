//! `table`: figures as lines, of the running machine or of a recording; and what the whole run came to.

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
use crate::app::sampling::{SamplerCommand, SamplerThread};
use crate::app::time_range;
use crate::cli::Configuration;
use crate::cli::table::{Format as Asked, Table};
use crate::figures::{Aggregation, FigureInput, find_table};
use crate::findings::Evaluation;
use crate::kernel::Root;
use crate::report::table::{ColumnSelection, Format, Printer, ResolvedSelection, RowTime, RunAccumulator, RunTotal};
use crate::units::time::time_of_day;
use output_stream::OutputStream;

/// Time between lines where none is asked for.
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

/// Lines as they were asked for, and what all of them come to.
struct TableOutput {
    choice: ResolvedSelection,
    printer: Printer,
    stream: OutputStream,
    zone: TimeZone,
    /// All intervals, where a total is asked for
    total: Option<RunAccumulator>,
    /// No line but the total
    total_only: bool,
    lines_printed: u32,
    max_lines: u32,
}

impl TableOutput {
    fn new(options: &Table) -> Result<TableOutput, Failure> {
        let usage = |what: String| Failure::new(Exit::Usage, what, "", "try 'stalltop table --help'");
        let Some(table) = find_table(&options.what) else { return Err(usage(format!("there is no table '{}'", options.what))) };
        let wishes = ColumnSelection {
            columns: options.columns.clone(),
            sort: options.sort.clone(),
            top: options.top.and_then(|top| usize::try_from(top).ok()),
            pids: options.pids.clone(),
            name: options.name.clone(),
            without_idle: options.busy,
            divide_by_cpus: options.of_box,
        };
        let choice = ResolvedSelection::resolve(table, wishes).map_err(usage)?;
        let format = match options.format {
            Asked::Text => Format::Text,
            Asked::Csv => Format::Csv { safe_formulas: options.safe_formulas },
            Asked::Json => Format::Json,
            Asked::Parseable => Format::Parseable,
        };
        let page = if options.command.is_empty() { OutputStream::StandardOutput } else { OutputStream::StandardError };
        let printer = Printer::new(table, &choice.columns, format, page.headings());
        // Of the running machine, nothing said is one line; of a recording it is all of it.
        let endless = options.interval.is_some() || options.span.is_some() || options.from.is_some();
        let total = options.total || !options.command.is_empty();
        Ok(TableOutput {
            choice,
            printer,
            stream: page,
            zone: TimeZone::system(),
            total: total.then(RunAccumulator::default),
            total_only: total && (options.format == Asked::Csv || !options.command.is_empty() && options.interval.is_none()),
            lines_printed: 0,
            max_lines: options.count.unwrap_or(if endless || !options.command.is_empty() { u32::MAX } else { 1 }),
        })
    }

    /// One interval more; whether another one is wanted.
    fn add(&mut self, judged: &Evaluation) -> Result<bool, Failure> {
        if let Some(run) = &mut self.total {
            run.add(judged);
        }
        self.print_line(judged.into(), false)
    }

    /// Several intervals as one line. What only a single one can tell is not known of them.
    fn add_combined(&mut self, run: &RunAccumulator) -> Result<bool, Failure> {
        match run.total() {
            Some(whole) => self.print_line(whole.figure_input(), run.has_several_intervals()),
            None => Ok(true),
        }
    }

    /// The line of the time since boot; it is in no total. What only a short time can tell is not known of it.
    fn add_since_boot(&mut self, judged: Option<Evaluation>) -> Result<bool, Failure> {
        judged.map_or(Ok(true), |judged| self.print_line((&judged).into(), true))
    }

    fn print_line(&mut self, look: FigureInput, several: bool) -> Result<bool, Failure> {
        self.lines_printed += 1;
        if !self.total_only {
            let mut rows = self.choice.rows(&look);
            for (at, _) in
                self.choice.columns.iter().enumerate().filter(|(_, head)| several && head.aggregation == Aggregation::Unknown)
            {
                rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(|cell| *cell = Default::default());
            }
            let text = self.printer.lines(&stamp(&look, &self.zone), &rows);
            if self.stream.print(self.printer.format(), &text)? == ReaderState::Closed {
                self.total = None;
                return Ok(false);
            }
        }
        Ok(self.lines_printed < self.max_lines)
    }

    /// The total, where it is asked for.
    fn print_total(&mut self) -> Result<Option<RunTotal>, Failure> {
        let Some(whole) = self.total.as_ref().and_then(RunAccumulator::total) else { return Ok(None) };
        let look = whole.figure_input();
        let rows = self.choice.rows(&look);
        let text = self.printer.total_lines(&stamp(&look, &self.zone), self.choice.table().capacity(&look), &rows);
        self.stream.print(self.printer.format(), &text)?;
        Ok(Some(whole))
    }
}

/// The time of an interval, on clocks of that zone.
pub(super) fn stamp(look: &FigureInput, zone: &TimeZone) -> RowTime {
    let at = look.interval.at();
    RowTime { clock: time_of_day(at.realtime_ns, zone), at, seconds: look.interval.seconds }
}

/// Starts sampling. Unthrottled: a late line does not delay the next one. Only the table of disks shows baselines.
fn start(
    root: Root,
    settings: &Settings,
    interval: Duration,
    asked: (&Table, &ResolvedSelection),
) -> Result<LiveEvaluations, Failure> {
    let (options, choice) = asked;
    let baseline_learner = if options.what == "disk" { BaselineLearner::for_root(&root) } else { BaselineLearner::empty() };
    let sampler = SamplerThread::start_unthrottled(root, interval, options.span, choice.is_expensive())?;
    let rule_config = settings.rule_config_for(&sampler.host);
    Ok(LiveEvaluations::new(sampler, rule_config, baseline_learner))
}

fn live(root: Root, settings: &Settings, options: &Table, lines: &mut TableOutput) -> Result<Exit, Failure> {
    // A signal that ends a run with a total prints the total.
    let stop = lines.total.is_some().then(signals::TerminationSignals::block).transpose();
    let stop = stop.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let interval = options.interval.unwrap_or(DEFAULT_INTERVAL).min(options.span.unwrap_or(Duration::MAX));
    let mut evaluations = start(root, settings, interval, (options, &lines.choice))?;
    if let Some(stop) = stop {
        let control = evaluations.sampler.control();
        stop.on_signal(move || {
            control.send(SamplerCommand::FinalSample);
        });
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

/// Evaluation from its beginning, so that baselines are what they were by then.
fn from_recording(file: &Path, settings: &Settings, options: &Table, lines: &mut TableOutput) -> Result<Exit, Failure> {
    let mut recorded = EvaluatedRecording::open(file, settings)?.for_tables(&[lines.choice.table()]);
    let samples = time_range::at(recorded.replayer(), options.at, options.span, &lines.zone);
    let outside = || Failure::new(Exit::Usage, "--at is no time of that recording", "", "try 'stalltop info FILE'");
    let samples = samples.ok_or_else(outside)?;
    let mut step = RunAccumulator::default();
    let mut since_boot = options.since_boot;
    while let Some(judged) = recorded.next_in(&samples) {
        if std::mem::take(&mut since_boot) && !lines.add_since_boot(recorded.evaluate_since_boot(&judged.interval.older))? {
            break;
        }
        let go_on = match options.interval {
            None => lines.add(&judged)?,
            Some(interval) => {
                if let Some(run) = &mut lines.total {
                    run.add(&judged);
                }
                let ends = !step.is_same_boot(&judged);
                if ends && !lines.add_combined(&std::mem::take(&mut step))? {
                    break;
                }
                step.add(&judged);
                // A sample that was a little early belongs to the line all the same.
                let due = step.seconds() + judged.interval.seconds / 2.0 >= interval.as_secs_f64();
                let go_on = !due || lines.add_combined(&step)?;
                if due {
                    step = RunAccumulator::default();
                }
                go_on
            }
        };
        if !go_on {
            break;
        }
    }
    lines.print_total()?;
    recorded.warn_of_damage();
    Ok(if recorded.replayer().damage().is_empty() { Exit::Success } else { Exit::Damaged })
}
