//! `record --armed`: keeps the last minutes in memory, and records them with what follows when something triggers.

use super::{meta, start_sampling};
use crate::app::armed::capture::{Capture, CaptureStart};
use crate::app::armed::capture_plan::{CapturePlan, EVENT_INTERVAL, Phase};
use crate::app::armed::finding_trigger::FindingTriggers;
use crate::app::armed::history::History;
use crate::app::armed::inbox::{Arrived, Inbox};
use crate::app::armed::pressure::PressureTriggers;
use crate::app::armed::trigger::{Trigger, TriggerCause};
use crate::app::finding_command::{FindingCommand, FindingNotice};
use crate::app::live_pipeline::LiveEvaluations;
use crate::app::mark_socket::MarkSocket;
use crate::app::program::exit::{Exit, Failure, quoted};
use crate::app::program::signals::{CaptureSignal, TerminationSignals};
use crate::app::program::{allocator, stdio};
use crate::app::recorder;
use crate::app::recorder::captures::Captures;
use crate::app::sampling::{SamplerCommand, TimedSample};
use crate::cli::armed::{DEFAULT_MAX_BYTES, MIN_MAX_BYTES};
use crate::cli::{Configuration, Record};
use crate::findings::{Evaluation, Finding};
use crate::kernel::Root;
use crate::recording::Redaction;
use crate::units::time;
use std::path::Path;
use std::sync::Arc;

/// Samples between two times that free memory is returned, the first time after the first slow readings.
const TRIM_EVERY_SAMPLES: u64 = 64;
const FIRST_TRIM_SAMPLE: u64 = 8;

pub fn record_armed(root: Root, configuration: &Configuration, options: &Record, directory: &Path) -> Result<Exit, Failure> {
    let max_bytes = options.max_size.unwrap_or(DEFAULT_MAX_BYTES);
    if max_bytes < MIN_MAX_BYTES {
        let why = "captures of some minutes may not fit";
        return Err(Failure::new(Exit::Usage, "cannot record --armed with this --max-size", why, "give 16M or more"));
    }
    let captures = Captures::open(directory, options.armed.max_captures, max_bytes)?;
    let cannot_wait = |error| Failure::new(Exit::Failed, "cannot wait for signals", error, "");
    let stop = TerminationSignals::block().map_err(cannot_wait)?;
    let capture_signal = CaptureSignal::block().map_err(cannot_wait)?;
    let requested = if root.is_host() { options.armed.pressure_triggers() } else { Vec::new() };
    let (pressure, problems) = PressureTriggers::register(&requested);
    problems.iter().for_each(|line| stdio::print_stderr(line));
    let command = options.on_finding.on_finding.as_deref().map(FindingCommand::start).transpose()?;
    let (mut evaluations, _operations) = start_sampling(root, configuration, options, stop)?;
    let inbox = Inbox::new(evaluations.sampler.control());
    let on_signal = inbox.clone();
    capture_signal.on_each(move || {
        // Where the inbox is full, enough has triggered.
        on_signal.add(TriggerCause::Signal);
    })?;
    pressure.watch(inbox.clone())?;
    let _mark_socket = accept_marks(inbox.clone());
    let kept = time::duration(options.armed.pre_roll.as_secs_f64());
    stdio::print_stderr(&format!("armed: the last {kept} are in memory; captures go into {}", quoted(captures.path())));
    let redaction = if options.redact { Redaction::Arguments } else { Redaction::Nothing };
    let mut recorder = ArmedRecorder {
        history: History::new(options.armed.pre_roll, options.interval, max_bytes, redaction),
        finding_triggers: FindingTriggers::new(options.on_finding.selectors()),
        redaction,
        options,
        captures,
        inbox,
        command,
        capture: None,
        event_interval: false,
    };
    let mut samples = 0_u64;
    while let Some(sample) = evaluations.next_sample() {
        recorder.add(&sample, &mut evaluations);
        if samples % TRIM_EVERY_SAMPLES == FIRST_TRIM_SAMPLE {
            allocator::trim();
        }
        samples += 1;
    }
    if let Some(capture) = recorder.capture.take() {
        capture.finish_at_exit(recorder.command.as_ref());
    }
    drop(recorder);
    evaluations.finish()?;
    Ok(Exit::Success)
}

/// Marks are triggers. Prints why they cannot come.
fn accept_marks(inbox: Inbox) -> Option<MarkSocket> {
    let accept = move |at, text: String| {
        let added = inbox.add_at(Trigger { at, cause: TriggerCause::Mark(text) });
        if added { Ok(()) } else { Err("too many marks are waiting") }
    };
    MarkSocket::bind(accept).inspect_err(|line| stdio::print_stderr(line)).ok()
}

/// What is in memory, and the capture that goes on.
struct ArmedRecorder<'a> {
    options: &'a Record,
    redaction: Redaction,
    captures: Captures,
    history: History,
    inbox: Inbox,
    finding_triggers: FindingTriggers,
    command: Option<FindingCommand>,
    capture: Option<Capture>,
    /// Samples come every 100 ms
    event_interval: bool,
}

impl ArmedRecorder<'_> {
    /// Adds the next sample, and what has triggered since the one before.
    fn add(&mut self, sample: &TimedSample, evaluations: &mut LiveEvaluations) {
        let at = sample.sample.at;
        // They came before the sample: a mark stands between the samples around it.
        let arrived = self.inbox.take_arrived();
        arrived.iter().for_each(|arrived| self.mark(&arrived.trigger));
        let evaluation = evaluations.evaluate(sample);
        let summary = recorder::frame_summary(evaluation.as_ref());
        if !self.event_interval || self.history.is_due(sample) {
            let baselines = || evaluations.pipeline().evaluator().baselines_for_recording(&sample.sample);
            self.history.add(sample, summary, baselines);
        }
        if let Some(capture) = &mut self.capture {
            capture.offer(sample, summary);
        }
        for Arrived { trigger, .. } in arrived.iter().filter(|arrived| !arrived.repeated) {
            self.trigger(trigger, sample, evaluations);
        }
        if let Some(evaluation) = &evaluation {
            for finding in self.finding_triggers.update(at, &evaluation.active) {
                self.finding(finding, evaluation, sample, evaluations);
            }
        }
        self.follow_plan(at.boottime_ns, evaluations);
    }

    /// A finding has begun that counts.
    fn finding(&mut self, finding: &Finding, evaluation: &Evaluation, sample: &TimedSample, evaluations: &LiveEvaluations) {
        let trigger = Trigger::from_finding(sample.sample.at.into(), finding);
        self.mark(&trigger);
        self.trigger(&trigger, sample, evaluations);
        if let Some(capture) = self.capture.as_mut().filter(|_| self.command.is_some()) {
            let host = Arc::clone(&evaluation.interval.host);
            capture.report(FindingNotice { host, at: sample.sample.at, finding: finding.clone(), file: None });
        }
    }

    /// Adds the mark of a trigger to what is in memory and to the capture.
    fn mark(&mut self, trigger: &Trigger) {
        let text = trigger.text(self.redaction);
        self.history.mark(trigger.at, &text);
        if let Some(capture) = &mut self.capture {
            capture.mark(trigger.at, &text);
        }
    }

    /// Starts a capture, or extends the one that goes on.
    fn trigger(&mut self, trigger: &Trigger, sample: &TimedSample, evaluations: &LiveEvaluations) {
        let at_ns = sample.sample.at.boottime_ns;
        match &mut self.capture {
            Some(capture) => capture.plan.extend(at_ns),
            None => {
                let (history, baselines) = self.history.backlog();
                let start = CaptureStart {
                    history,
                    baselines,
                    meta: meta(self.options, evaluations, &sample.sample),
                    text: trigger.text(self.redaction),
                    slug: trigger.slug(self.redaction),
                };
                let plan = CapturePlan::new(at_ns, self.options.armed.after);
                self.capture = Some(Capture::start(plan, &self.captures, start));
            }
        }
    }

    /// Samples at the interval of the capture's phase, and ends it when it is over.
    fn follow_plan(&mut self, at_ns: u64, evaluations: &LiveEvaluations) {
        let Some(capture) = &mut self.capture else { return };
        let goes_on = capture.poll(self.command.as_ref());
        let phase = if goes_on { capture.plan.phase(at_ns) } else { Phase::Over };
        let event_interval = phase == Phase::Event && self.options.interval > EVENT_INTERVAL;
        if event_interval != self.event_interval {
            self.event_interval = event_interval;
            let interval = if event_interval { EVENT_INTERVAL } else { self.options.interval };
            evaluations.sampler.send(SamplerCommand::SetInterval(interval));
        }
        if phase == Phase::Over
            && let Some(capture) = self.capture.take()
        {
            capture.finish(self.command.as_ref());
        }
    }
}
