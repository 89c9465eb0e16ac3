//! `check`: evaluates the running machine for a while, a recording or a stream, prints the findings, and exits as a monitoring plugin does.

mod from_stream;
mod run_time;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::app::armed::triggered_command::TriggeredCommand;
use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::evaluated_recording::EvaluatedRecording;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::priority;
use crate::app::program::signals::TerminationSignals;
use crate::app::program::stdio::{self, ReaderState};
use crate::app::program::threads::{TimedOut, with_timeout};
use crate::app::recorder::{self, Session};
use crate::app::sampling::{SamplerCommand, SamplerThread, SamplingPlan};
use crate::app::time_range;
use crate::baseline::Baselines;
use crate::cli::check::Format;
use crate::cli::{Check, Configuration};
use crate::findings::{Evaluation, Severity};
use crate::kernel::Root;
use crate::recording::{Meta, RecordingError, Redaction};
use crate::report::finding_log::{self, FindingLog};
use crate::report::window::{Incomplete, KindFilter, Window};
use crate::report::{json, nagios, text};
use run_time::RunTime;

/// A finding begins after 2 of 3 intervals.
const MIN_EVALUATED: usize = 3;

/// How long the first sample waits for the file of `--save`.
const CREATE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long the machine is evaluated without `--for`.
const DEFAULT_SPAN: Duration = Duration::from_secs(5);

/// Called with each evaluated interval.
type OnEvaluation<'a> = &'a mut dyn FnMut(&Evaluation) -> Result<ReaderState, Failure>;

/// Intervals that an all-clear needs, as on the screens; a finding needs as many.
const MIN_FOR_ALL_CLEAR: usize = 2;

/// Samples that `MIN_FOR_ALL_CLEAR` intervals need.
const MIN_SAMPLES: u32 = 3;

pub fn check(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    check_usage(check).and_then(|()| run(root, configuration, check)).map_err(Failure::as_unknown)
}

/// Options that exclude each other.
fn check_usage(check: &Check) -> Result<(), Failure> {
    if check.watch && check.format() == Format::Nagios {
        let why = "a plugin's status is one line, once";
        return Err(Failure::new(Exit::Usage, "cannot --watch with --format nagios", why, "use --format text or json"));
    }
    if !check.watch && (check.on_finding.on_finding.is_some() || check.on_finding.lacks_command()) {
        let why = "check prints its findings once, at the end";
        return Err(Failure::new(Exit::Usage, "cannot use --on and --on-finding", why, "add --watch"));
    }
    if check.on_finding.lacks_command() {
        let why = "there is no --on-finding";
        return Err(Failure::new(Exit::Usage, "cannot use --on", why, "add --on-finding CMD, or select with --only"));
    }
    if is_stream(check) && check.at.is_some() {
        let why = "a stream is evaluated as it arrives";
        return Err(Failure::new(Exit::Usage, "cannot use --at with standard input", why, "use --for, or give a file"));
    }
    Ok(())
}

fn run(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    let run_time = RunTime::start();
    if check.file.is_none() {
        // The findings are evaluated on this thread. Before anything is read: a late start makes all samples late.
        priority::raise();
    }
    // A signal ends --watch in order, so that the baselines that it has learned are saved.
    let termination_signals = (check.watch && check.file.is_none()).then(TerminationSignals::block).transpose();
    let termination_signals =
        termination_signals.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let mut settings = Settings::load_and_warn(&root, configuration)?;
    settings.set_thresholds(&check.threshold);
    let source = EvaluationSource { root, settings: &settings, check, termination_signals, run_time };
    if check.watch { watch(source) } else { once(source) }
}

fn is_stream(check: &Check) -> bool {
    check.file.as_deref() == Some(Path::new("-"))
}

/// Where evaluated intervals come from, and the options.
struct EvaluationSource<'a> {
    root: Root,
    settings: &'a Settings,
    check: &'a Check,
    /// Blocked for `--watch`, which a signal ends
    termination_signals: Option<TerminationSignals>,
    run_time: RunTime,
}

fn once(source: EvaluationSource) -> Result<Exit, Failure> {
    let EvaluationSource { settings, check, .. } = source;
    let (mut window, run_time) = (Window::with_filter(kind_filter(check)), source.run_time);
    let ended = source.for_each_evaluation(&mut |evaluation| {
        window.add(evaluation);
        Ok(ReaderState::Open)
    })?;
    window.set_incomplete(ended.incomplete());
    let (fail_on, unknown) = (check.fail_on.severity(), window.unknown_reason(check.fail_on.severity()));
    match check.format() {
        Format::Text => stdio::print_localized(&text::check(&window)),
        Format::Json => stdio::print(&json::check(&window)),
        Format::Nagios => stdio::print_localized(&nagios::plugin_output(&window, fail_on, &settings.rule_config().thresholds)),
    }?;
    // JSON has only the word.
    if let Some(why) = unknown.as_ref().filter(|_| check.format() == Format::Json) {
        stdio::print_stderr(&format!("unknown: {why}"));
    }
    // The result is printed first: a file that cannot be written must not prevent it, nor the end of the program.
    let finished = ended.finish();
    if check.file.is_none() {
        let line = run_time.overrun(check.span.unwrap_or(DEFAULT_SPAN));
        line.iter().for_each(|line| stdio::print_stderr(line));
    }
    finished?;
    Ok(exit_status(unknown.is_some(), window.worst_severity(), fail_on))
}

/// Prints a line for each change until the span or the recording ends, or a signal. The exit status is that of all intervals.
fn watch(source: EvaluationSource) -> Result<Exit, Failure> {
    let check = source.check;
    let mut log = FindingLog::new(kind_filter(check));
    let mut command = TriggeredCommand::from_options(&check.on_finding)?;
    let ended = source.for_each_evaluation(&mut |evaluation| {
        let entries = log.update(evaluation);
        if let Some(command) = &mut command {
            command.update(evaluation, || check.file.as_ref().map(|file| file.to_string_lossy().into_owned()));
        }
        let host = &evaluation.interval.host;
        match check.format() {
            _ if entries.is_empty() => Ok(ReaderState::Open),
            Format::Json => stdio::print(&entries.iter().map(|entry| finding_log::json(host, entry)).collect::<String>()),
            _ => stdio::print_localized(&entries.iter().map(|entry| finding_log::text(host, entry)).collect::<String>()),
        }
    })?;
    let (reason, fail_on) = (ended.reason, check.fail_on.severity());
    let unknown = log.is_empty() || (ended.incomplete().is_some() && log.worst_severity() < Some(fail_on));
    ended.finish()?;
    match reason {
        EndReason::Completed => Ok(exit_status(unknown, log.worst_severity(), fail_on)),
        EndReason::Interrupted => Ok(Exit::Success),
    }
}

fn kind_filter(check: &Check) -> KindFilter {
    KindFilter { only: check.only.clone(), ignore: check.ignore.clone() }
}

fn exit_status(unknown: bool, worst: Option<Severity>, fail_on: Severity) -> Exit {
    match worst.filter(|&worst| worst >= fail_on) {
        _ if unknown => Exit::Unknown,
        Some(worst) => Exit::Found(worst),
        None => Exit::Success,
    }
}

/// Whether all intervals were evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    Completed,
    /// By a signal, or a closed standard output
    Interrupted,
}

/// The end of the evaluation. What may block is done after the result was printed.
struct Ended {
    reason: EndReason,
    /// Number of intervals, with those before the selected time, which findings also follow from
    evaluated: usize,
    ends_in_damage: bool,
    live: Option<LiveEnd>,
}

/// What remains to be done after a live evaluation.
struct LiveEnd {
    evaluations: LiveEvaluations,
    saved: SavedSamples,
    /// Says that the last sample did not come in time
    late_sample: Option<String>,
}

impl Ended {
    /// Why that nothing is found does not mean that nothing is wrong.
    fn incomplete(&self) -> Option<Incomplete> {
        match self.evaluated {
            _ if self.ends_in_damage => Some(Incomplete::EndsInDamage),
            evaluated if evaluated < MIN_FOR_ALL_CLEAR => Some(Incomplete::TooFewIntervals),
            _ => None,
        }
    }

    /// Ends the recording and writes what was learned. What cannot be written is reported and does not change the exit status;
    /// fails where the sampling thread has panicked.
    fn finish(self) -> Result<(), Failure> {
        let Some(LiveEnd { evaluations, saved, late_sample }) = self.live else { return Ok(()) };
        for line in late_sample.into_iter().chain(saved.finish()) {
            stdio::print_stderr(&line);
        }
        evaluations.finish()
    }
}

/// The recording of `--save`.
enum SavedSamples {
    /// Not requested, or no sample has come yet
    NotCreated,
    Recording(Session),
    /// Why the file could not be created
    Failed(String),
}

impl SavedSamples {
    /// Creates the file. Fails where the user has given a wrong one; a disk that does not answer or is full only costs the recording.
    fn create(path: &Path, meta: Meta, baselines: Baselines) -> Result<SavedSamples, Failure> {
        let name = quoted(path);
        let path = path.to_owned();
        Ok(match with_timeout(CREATE_TIMEOUT, move || Session::create(&path, &meta, &baselines)) {
            Ok(Ok(session)) => SavedSamples::Recording(session),
            Ok(Err(error @ RecordingError::Write { .. })) => SavedSamples::Failed(error.to_string()),
            Ok(Err(error)) => return Err(recorder::failure(error)),
            Err(TimedOut::NoAnswer) => SavedSamples::Failed(format!("cannot write {name}: its file system does not answer")),
            Err(TimedOut::NoCpu) => SavedSamples::Failed(format!("cannot write {name}: this process gets no CPU")),
        })
    }

    /// Why the recording is missing or incomplete.
    fn finish(self) -> Option<String> {
        match self {
            SavedSamples::NotCreated => None,
            SavedSamples::Recording(session) => session.finish().failure(),
            SavedSamples::Failed(why) => Some(why),
        }
    }
}

impl EvaluationSource<'_> {
    fn for_each_evaluation(self, each: OnEvaluation) -> Result<Ended, Failure> {
        match &self.check.file {
            Some(_) if is_stream(self.check) => from_stream::from_stream(self.settings, self.check.span, each),
            Some(file) => from_recording(file, self.settings, self.check, each),
            None => self.live(each),
        }
    }

    fn live(self, each: OnEvaluation) -> Result<Ended, Failure> {
        let EvaluationSource { root, settings, check, termination_signals, run_time } = self;
        let span = check.span.or((!check.watch).then_some(DEFAULT_SPAN));
        let longest = span.unwrap_or(Duration::MAX);
        let interval = check.interval.unwrap_or_else(|| default_interval(longest)).min(longest);
        let baseline_learner = BaselineLearner::for_root(&root);
        // With fewer samples nothing would be known: on a slow machine it takes longer than the span.
        let plan = SamplingPlan::new(root, interval, span, settings.probes()).with_min_samples(MIN_SAMPLES);
        let sampler = SamplerThread::start(plan)?;
        let stopped = Arc::new(AtomicBool::new(false));
        if let Some(signals) = termination_signals {
            let (control, stopped) = (sampler.control(), Arc::clone(&stopped));
            signals.on_signal(move || {
                stopped.store(true, Ordering::SeqCst);
                control.send(SamplerCommand::Stop);
            })?;
        }
        let rule_config = settings.rule_config_for(&sampler.host);
        let mut evaluations = LiveEvaluations::new(sampler, rule_config, baseline_learner)?;
        let meta = recorder::meta(&evaluations.sampler.host, interval, Redaction::Nothing);
        let (mut saved, mut late_sample) = (SavedSamples::NotCreated, None);
        // With too few intervals no finding begins: so many are waited for.
        let (deadline, mut evaluated) = (span.and_then(|span| run_time.deadline(span)), 0_usize);
        loop {
            let sample = match deadline.filter(|_| evaluated >= MIN_EVALUATED) {
                Some(deadline) => evaluations.next_sample_before(deadline),
                None => Ok(evaluations.next_sample()),
            };
            let sample = match sample {
                Ok(Some(sample)) => sample,
                Ok(None) => break,
                Err(_) => {
                    late_sample = Some(run_time.late_sample());
                    break;
                }
            };
            let evaluation = evaluations.evaluate(&sample);
            if let Some(path) = &check.save {
                if let SavedSamples::NotCreated = saved {
                    let baselines = evaluations.pipeline().evaluator().baselines_for_recording(&sample.sample);
                    saved = SavedSamples::create(path, meta.clone(), baselines)?;
                }
                if let SavedSamples::Recording(session) = &mut saved {
                    session.offer(sample.clone(), recorder::frame_summary(evaluation.as_ref()));
                }
            }
            let Some(evaluation) = evaluation else { continue };
            evaluated = evaluated.saturating_add(1);
            if each(&evaluation)? == ReaderState::Closed {
                stopped.store(true, Ordering::SeqCst);
                break;
            }
        }
        let reason = if stopped.load(Ordering::SeqCst) { EndReason::Interrupted } else { EndReason::Completed };
        Ok(Ended { reason, evaluated, ends_in_damage: false, live: Some(LiveEnd { evaluations, saved, late_sample }) })
    }
}

fn from_recording(file: &Path, settings: &Settings, check: &Check, each: OnEvaluation) -> Result<Ended, Failure> {
    let mut recording = EvaluatedRecording::open(file, settings)?;
    if !check.watch {
        recording = recording.with_progress();
    }
    let span = check.span.or(check.at.as_ref().map(|_| DEFAULT_SPAN));
    let samples = time_range::at_interval(recording.replayer(), check.at.as_ref(), span, file, &TimeZone::system())?;
    let mut reason = EndReason::Completed;
    while let Some(evaluation) = recording.next_in(&samples) {
        if each(&evaluation)? == ReaderState::Closed {
            reason = EndReason::Interrupted;
            break;
        }
    }
    recording.warn_of_damage();
    let ends_in_damage = samples.end >= recording.replayer().len() && recording.ends_in_damage();
    Ok(Ended { reason, evaluated: recording.interval_count(), ends_in_damage, live: None })
}

/// A second, or less if the span would have fewer than four intervals.
fn default_interval(span: Duration) -> Duration {
    const MIN_INTERVALS: u32 = 4;
    (span / MIN_INTERVALS).clamp(Duration::from_millis(100), Duration::from_secs(1))
}
