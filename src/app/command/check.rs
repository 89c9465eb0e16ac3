//! `check`: watches for a while (or reads a recording), says what is wrong, and exits as a monitoring plugin does.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::app::config::Settings;
use crate::app::evaluation::{BaselineLearner, SampleEvaluator};
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::TerminationSignals;
use crate::app::program::stdio::{self, ReaderState};
use crate::app::program::time_zone;
use crate::app::recording::evaluated_recording::EvaluatedRecording;
use crate::app::recording::{self, Session};
use crate::app::sampling::{SamplerCommand, SamplerThread};
use crate::cli::check::Format;
use crate::cli::{Check, Configuration};
use crate::findings::{Evaluation, Severity};
use crate::kernel::Root;
use crate::recording::{Redaction, Replayer};
use crate::report::finding_log::{self, FindingLog};
use crate::report::window::{KindFilter, Window};
use crate::report::{json, nagios, text};
use crate::sample::Instant;

/// How long is looked unless it is said.
const DEFAULT_SPAN: Duration = Duration::from_secs(5);

/// What is done with each judged interval.
type OnEvaluation<'a> = &'a mut dyn FnMut(&Evaluation) -> Result<ReaderState, Failure>;

pub fn check(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    if check.watch && check.format() == Format::Nagios {
        let why = "a plugin's status is one line, once";
        return Err(Failure::new(Exit::Usage, "cannot --watch with --format nagios", why, "use --format text or json"));
    }
    run(root, configuration, check).map_err(as_unknown)
}

fn run(root: Root, configuration: &Configuration, check: &Check) -> Result<Exit, Failure> {
    // What was learned in hours is kept when somebody ends them.
    let ending = (check.watch && check.file.is_none()).then(TerminationSignals::block).transpose();
    let ending = ending.map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let mut settings = Settings::load_and_warn(&root, configuration)?;
    settings.set_thresholds(&check.threshold);
    let source = EvaluationSource { root, settings: &settings, check, termination_signals: ending };
    if check.watch { watch(source) } else { once(source) }
}

/// A monitoring system takes any other code than 3 for a verdict.
fn as_unknown(mut failure: Failure) -> Failure {
    failure.exit = Exit::Unknown;
    failure
}

/// Where judged intervals come from, and what is asked of them.
struct EvaluationSource<'a> {
    root: Root,
    settings: &'a Settings,
    check: &'a Check,
    /// Held back for a watch, which somebody ends
    termination_signals: Option<TerminationSignals>,
}

fn once(source: EvaluationSource) -> Result<Exit, Failure> {
    let EvaluationSource { settings, check, .. } = source;
    let mut window = Window::with_filter(kind_filter(check));
    source.for_each_evaluation(&mut |judged| {
        window.add(judged);
        Ok(ReaderState::Open)
    })?;
    let fail_on = check.fail_on.severity();
    match check.format() {
        Format::Text => stdio::print_localized(&text::check(&window)),
        Format::Json => stdio::print(&json::check(&window)),
        Format::Nagios => stdio::print_localized(&nagios::plugin_output(&window, fail_on, &settings.rule_config().thresholds)),
    }?;
    Ok(exit_status(window.is_empty(), window.worst_severity(), fail_on))
}

/// A line for each change, until the span or the recording ends (with the verdict on all of it), or somebody has enough.
fn watch(source: EvaluationSource) -> Result<Exit, Failure> {
    let check = source.check;
    let mut log = FindingLog::new(kind_filter(check));
    let ended = source.for_each_evaluation(&mut |judged| {
        let entries = log.update(judged);
        let host = &judged.interval.host;
        match check.format() {
            _ if entries.is_empty() => Ok(ReaderState::Open),
            Format::Json => stdio::print(&entries.iter().map(|entry| finding_log::json(host, entry)).collect::<String>()),
            _ => stdio::print_localized(&entries.iter().map(|entry| finding_log::text(host, entry)).collect::<String>()),
        }
    })?;
    match ended {
        EndReason::Completed => Ok(exit_status(log.is_empty(), log.worst_severity(), check.fail_on.severity())),
        EndReason::Interrupted => Ok(Exit::Success),
    }
}

fn kind_filter(check: &Check) -> KindFilter {
    KindFilter { only: check.only.clone(), ignore: check.ignore.clone() }
}

fn exit_status(empty: bool, worst: Option<Severity>, fail_on: Severity) -> Exit {
    match worst.filter(|&worst| worst >= fail_on) {
        _ if empty => Exit::Unknown,
        Some(worst) => Exit::Found(worst),
        None => Exit::Success,
    }
}

/// Whether all was judged that was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    Completed,
    /// By a signal, or because nobody reads any more
    Interrupted,
}

impl EvaluationSource<'_> {
    fn for_each_evaluation(self, each: OnEvaluation) -> Result<EndReason, Failure> {
        match &self.check.file {
            Some(file) => from_recording(file, self.settings, self.check, each),
            None => self.live(each),
        }
    }

    fn live(self, each: OnEvaluation) -> Result<EndReason, Failure> {
        let EvaluationSource { root, settings, check, termination_signals: ending } = self;
        let span = check.span.or((!check.watch).then_some(DEFAULT_SPAN));
        let most = span.unwrap_or(Duration::MAX);
        let interval = check.interval.unwrap_or_else(|| default_interval(most)).min(most);
        let mut lessons = if root.is_host() { BaselineLearner::load_and_warn() } else { BaselineLearner::empty() };
        let mut sampling = SamplerThread::start(root, interval, span)?;
        let stopped = Arc::new(AtomicBool::new(false));
        if let Some(ending) = ending {
            let (orders, stopped) = (sampling.control(), Arc::clone(&stopped));
            ending.on_signal(move || {
                stopped.store(true, Ordering::SeqCst);
                orders.send(SamplerCommand::Stop);
            });
        }
        let criteria = settings.rule_config_for(&sampling.host);
        let mut judging = SampleEvaluator::new(sampling.host.clone(), lessons.new_evaluator(criteria));
        let mut session = None;
        while let Some(taken) = sampling.samples.blocking_recv() {
            let judged = judging.evaluate(taken.sample.clone());
            if let Some(path) = &check.save {
                let session = match &mut session {
                    Some(session) => session,
                    None => {
                        let meta = recording::meta(&sampling.host, interval, Redaction::Nothing);
                        session.insert(Session::create(path, &meta, lessons.initial_baselines()).map_err(recording::failure)?)
                    }
                };
                session.offer(taken, recording::frame_summary(judged.as_ref()));
            }
            let Some(judged) = judged else { continue };
            lessons.observe(&judged);
            if each(&judged)? == ReaderState::Closed {
                stopped.store(true, Ordering::SeqCst);
                break;
            }
            if let Some(line) = lessons.write_periodically() {
                stdio::print_stderr(&format!("what was learned of disks is not kept: {line}"));
            }
        }
        if let Some(line) = session.and_then(|session| session.finish().failure()) {
            return Err(Failure::new(Exit::Unknown, line, "", ""));
        }
        if let Some(line) = lessons.write_before_exit() {
            stdio::print_stderr(&line);
        }
        match stopped.load(Ordering::SeqCst) {
            _ if crate::app::program::panics::has_panicked() => Err(Failure::already_reported(Exit::Failed)),
            true => Ok(EndReason::Interrupted),
            false => Ok(EndReason::Completed),
        }
    }
}

/// Judged from its beginning in any case: what was learned and what had begun before is known.
fn from_recording(file: &Path, settings: &Settings, check: &Check, each: OnEvaluation) -> Result<EndReason, Failure> {
    let mut recorded = EvaluatedRecording::open(file, settings)?;
    let stretch = TimeRange::new(recorded.replayer(), check);
    let mut ended = EndReason::Completed;
    for judged in recorded.by_ref() {
        let at = judged.interval.at();
        if stretch.is_past_end(at) {
            break;
        }
        if stretch.is_after_start(at) && each(&judged)? == ReaderState::Closed {
            ended = EndReason::Interrupted;
            break;
        }
    }
    recorded.warn_of_damage();
    Ok(ended)
}

/// What of a recording is judged: intervals that end after `from` and not after `to`.
struct TimeRange {
    /// Nanoseconds after 1970, as `at` names it
    from_realtime_ns: i64,
    /// Nanoseconds after boot, where its length counts
    from_boottime_ns: u64,
    to_boottime_ns: u64,
}

impl TimeRange {
    fn new(replayer: &Replayer, check: &Check) -> TimeRange {
        let (first, last) = (replayer.timestamp(0), replayer.len().checked_sub(1).and_then(|last| replayer.timestamp(last)));
        let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
        let length = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let all = TimeRange { from_realtime_ns: i64::MIN, from_boottime_ns: 0, to_boottime_ns: u64::MAX };
        let Some(at) = check.at else {
            let from = check.span.map_or(0, |span| last.boottime_ns.saturating_sub(length(span)));
            return TimeRange { from_boottime_ns: from, ..all };
        };
        let zone = time_zone::local();
        let from = at.resolve(first.realtime_ns, last.realtime_ns, &zone).unwrap_or(i64::MAX);
        // The clock may have been set while it was recorded: by the last sample before it.
        let behind =
            (0..replayer.len()).map_while(|index| replayer.timestamp(index)).take_while(|at| at.realtime_ns <= from).last();
        let behind = behind.unwrap_or(first);
        // Negative where it lies before all of it.
        let since = from.saturating_sub(behind.realtime_ns);
        let to = behind.boottime_ns.saturating_add_signed(since).saturating_add(length(check.span.unwrap_or(DEFAULT_SPAN)));
        TimeRange { from_realtime_ns: from, to_boottime_ns: to, ..all }
    }

    fn is_after_start(&self, at: Instant) -> bool {
        at.realtime_ns > self.from_realtime_ns && at.boottime_ns > self.from_boottime_ns
    }

    fn is_past_end(&self, at: Instant) -> bool {
        at.boottime_ns > self.to_boottime_ns
    }
}

/// A second, or less where that would be too few intervals to tell a state from a moment.
fn default_interval(span: Duration) -> Duration {
    const ENOUGH: u32 = 4;
    (span / ENOUGH).clamp(Duration::from_millis(100), Duration::from_secs(1))
}
