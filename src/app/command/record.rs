//! `record`: writes samples to a file, a directory of segments or a pipe, without a screen, until it is stopped.

mod armed;
mod destination;
mod exports;
mod size_limit;

use crate::app::armed::triggered_command::TriggeredCommand;
use crate::app::baseline_learner::BaselineLearner;
use crate::app::config::Settings;
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::mark_socket::MarkSocket;
use crate::app::operations_command::OperationsCommand;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::signals::TerminationSignals;
use crate::app::program::stdio;
use crate::app::recorder::{self, RecordingResult, Session, SharedSession};
use crate::app::sampling::{SamplerCommand, SamplerThread, SamplingPlan, TimedSample};
use crate::baseline::Baselines;
use crate::cli::{Configuration, Record};
use crate::kernel::Root;
use crate::recording::{FrameSummary, Meta, RecorderStatus, RecordingProgress, Redaction};
use crate::report::missing::missing_readings;
use crate::sample::{Instant, Sample};
use destination::Destination;
use exports::Exports;
use size_limit::SizeLimit;

pub fn record(root: Root, configuration: &Configuration, options: &Record) -> Result<Exit, Failure> {
    if let Some(directory) = &options.armed.directory {
        return armed::record_armed(root, configuration, options, directory);
    }
    if options.on_finding.lacks_command() {
        let why = "there is neither --armed nor --on-finding";
        return Err(Failure::new(Exit::Usage, "cannot use --on", why, "add --armed DIR or --on-finding CMD"));
    }
    let mut finding_command = TriggeredCommand::from_options(&options.on_finding)?;
    let destination = Destination::from_options(options)?;
    let exports = options.export.as_deref().map(|directory| Exports::start(configuration, directory)).transpose()?;
    let stop = TerminationSignals::block().map_err(|error| Failure::new(Exit::Failed, "cannot wait for signals", error, ""))?;
    let (mut evaluations, _operations) = start_sampling(root, configuration, options, stop)?;
    let Some(first) = evaluations.next_sample() else { return Err(Failure::already_reported(Exit::Failed)) };
    let meta = meta(options, &evaluations, &first.sample);
    let baselines = evaluations.pipeline().evaluator().baselines_for_recording(&first.sample);
    let session = match destination.create_session(options.max_size, &meta, &baselines) {
        // The reader has closed the pipe before the first byte.
        Err(_) if destination.is_reader_gone() => return Ok(Exit::Success),
        session => SharedSession::new(session?),
    };
    let mut recording = ActiveRecording {
        destination,
        meta,
        _mark_socket: accept_marks(session.clone()),
        session,
        max_size: options.max_size,
        size_limit: SizeLimit::new(options.max_size),
        exports,
    };
    recording.run(first, &mut evaluations, &mut finding_command);
    recording.finish(evaluations)
}

/// Starts to sample and evaluate this machine, until a signal. The second is the command of `--ops`.
fn start_sampling(
    root: Root,
    configuration: &Configuration,
    options: &Record,
    stop: TerminationSignals,
) -> Result<(LiveEvaluations, Option<OperationsCommand>), Failure> {
    let settings = Settings::load_and_warn(&root, configuration)?;
    let learner = BaselineLearner::for_root(&root);
    let operations = options.ops.as_deref().map(|command| OperationsCommand::start(command, options.interval)).transpose()?;
    let latest = operations.as_ref().map(OperationsCommand::latest);
    let plan = SamplingPlan::new(root, options.interval, options.span, settings.probes()).with_operations(latest);
    let sampler = SamplerThread::start(plan)?;
    let control = sampler.control();
    stop.on_signal(move || control.send(SamplerCommand::Stop))?;
    let rule_config = settings.rule_config_for(&sampler.host);
    Ok((LiveEvaluations::new(sampler, rule_config, learner)?, operations))
}

/// The meta frame. The first sample says what could not be read.
fn meta(options: &Record, evaluations: &LiveEvaluations, first: &Sample) -> Meta {
    let redaction = if options.redact { Redaction::Arguments } else { Redaction::Nothing };
    let mut meta = recorder::meta(&evaluations.sampler.host, options.interval, redaction);
    meta.absent = missing_readings(first).into_iter().map(|(what, why)| (what.to_owned(), why)).collect();
    meta
}

/// Accepts marks for the session. Prints why it cannot.
fn accept_marks(session: SharedSession) -> Option<MarkSocket> {
    let accept =
        move |at, text: String| session.with(|session| session.mark(at, &text)).unwrap_or(Err("its recording has ended"));
    MarkSocket::bind(accept).inspect_err(|line| stdio::print_stderr(line)).ok()
}

/// The recording that is being written.
struct ActiveRecording {
    destination: Destination,
    meta: Meta,
    session: SharedSession,
    max_size: Option<u64>,
    size_limit: SizeLimit,
    exports: Option<Exports>,
    /// Accepts marks until it is dropped
    _mark_socket: Option<MarkSocket>,
}

/// What follows a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextStep {
    Continue,
    /// The next sample begins a new segment
    Rotate,
    Stop,
}

impl ActiveRecording {
    /// Records until sampling ends, the recording fails, or its size limit is reached.
    fn run(&mut self, first: TimedSample, evaluations: &mut LiveEvaluations, command: &mut Option<TriggeredCommand>) {
        let mut next = Some(first);
        let mut next_step = NextStep::Continue;
        while next_step != NextStep::Stop
            && let Some(sample) = next.take().or_else(|| evaluations.next_sample())
        {
            let at = sample.sample.at;
            if next_step == NextStep::Rotate {
                self.rotate(at, &evaluations.pipeline().evaluator().baselines_for_recording(&sample.sample));
            }
            let evaluation = evaluations.evaluate(&sample);
            if let (Some(command), Some(evaluation)) = (command.as_mut(), &evaluation) {
                command.update(evaluation, || self.session.with(|session| session.location()));
            }
            next_step = match self.offer(sample, recorder::frame_summary(evaluation.as_ref())) {
                Some(status) => self.next_step(at, &status),
                None => NextStep::Stop,
            };
        }
    }

    /// Gives the sample to the recorder and prints a change of its status.
    fn offer(&self, sample: TimedSample, summary: FrameSummary) -> Option<RecorderStatus> {
        let (status, change) = self.session.with(|session| {
            session.offer(sample, summary);
            (session.status(), session.status_change())
        })?;
        if let Some(change) = change {
            stdio::print_stderr(&change);
        }
        Some(status)
    }

    fn next_step(&mut self, at: Instant, status: &RecorderStatus) -> NextStep {
        let full = self.size_limit.is_reached(status);
        let empty = matches!(status, RecorderStatus::LimitReached(RecordingProgress { samples: 0, .. }));
        if empty || matches!(status, RecorderStatus::Failed { .. }) {
            return NextStep::Stop;
        }
        match self.destination.segments() {
            None if full => NextStep::Stop,
            None => NextStep::Continue,
            Some(segments) => {
                let rotate = segments.should_rotate(at, full);
                segments.delete_expired(&self.meta.host, at);
                if rotate { NextStep::Rotate } else { NextStep::Continue }
            }
        }
    }

    /// Begins a new segment, then ends the old one, so that a replay that follows the directory finds the next file. If it
    /// cannot be created, the old one goes on.
    fn rotate(&mut self, at: Instant, baselines: &Baselines) {
        let created = self.destination.create_session(self.max_size, &self.meta, baselines);
        let Some(segments) = self.destination.segments() else { return };
        match created {
            Ok(session) => {
                segments.rotated();
                self.size_limit = SizeLimit::new(self.max_size);
                if let Some(ended) = self.session.replace(Some(session)).map(Session::finish) {
                    stdio::print_stderr(&ended.failure().unwrap_or_else(|| ended.summary()));
                    self.export(&ended);
                }
            }
            Err(failure) => segments.postpone_rotation(at, &failure),
        }
    }

    /// What could not be written completely is exported as far as it is readable.
    fn export(&self, ended: &RecordingResult) {
        if let Some(exports) = &self.exports {
            ended.files().for_each(|file| exports.add(file));
        }
    }

    fn finish(mut self, evaluations: LiveEvaluations) -> Result<Exit, Failure> {
        evaluations.sampler.send(SamplerCommand::Stop);
        let Some(ended) = self.session.replace(None).map(Session::finish_patiently) else {
            return Err(Failure::already_reported(Exit::Failed));
        };
        let learned = evaluations.finish();
        self.export(&ended);
        let exported = self.exports.take().map_or(Ok(()), Exports::finish);
        learned?;
        match ended.failure() {
            // The reader of standard output needs no more.
            Some(_) if self.destination.is_reader_gone() => Ok(Exit::Success),
            Some(line) => Err(Failure::new(Exit::CannotWrite, line, "", "")),
            None => {
                stdio::print_stderr(&ended.summary());
                exported?;
                Ok(Exit::Success)
            }
        }
    }
}
