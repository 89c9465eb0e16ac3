//! The samples of one host: evaluated, kept for the last minutes, recorded, and passed on to the host's own screens while they are open.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, error::TrySendError};

use super::recording::FleetRecorder;
use crate::app::config::Settings;
use crate::app::evaluation::SampleEvaluator;
use crate::app::recorder::{self, Session};
use crate::app::sampling::TimedSample;
use crate::app::timeline::sample_source::SourceEvent;
use crate::baseline::Baselines;
use crate::findings::{Evaluation, Evaluator};
use crate::recording::{FrameSummary, Gap, GapReason, HistoryRing, Mark, Meta, RecordingError, SampleFrame};
use crate::report::window::Window;
use crate::sample::{Host, Instant, Sample};
use crate::units::time::nanos;

/// Samples that may wait for the screens of the host while they are being opened.
const SUBSCRIPTION_CAPACITY: usize = 256;

/// What is kept of a host.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimits {
    pub length: Duration,
    pub bytes: usize,
}

impl HistoryLimits {
    /// Bytes of all hosts together, and of one.
    const ALL_BYTES: usize = 24 << 20;
    const MAX_BYTES: usize = 16 << 20;
    const MIN_BYTES: usize = 128 << 10;

    /// Ten minutes, if they fit.
    pub fn for_hosts(hosts: usize) -> HistoryLimits {
        let bytes = (HistoryLimits::ALL_BYTES / hosts.max(1)).clamp(HistoryLimits::MIN_BYTES, HistoryLimits::MAX_BYTES);
        HistoryLimits { length: Duration::from_secs(600), bytes }
    }
}

/// Where the screens of a host get their samples from.
pub struct SampleSubscription {
    pub meta: Meta,
    pub baselines: Baselines,
    /// The samples in memory, as a recording
    pub kept: Vec<u8>,
    /// Those that follow
    pub following: mpsc::Receiver<SourceEvent>,
}

/// The samples of a host.
pub struct HostSamples {
    meta: Meta,
    host: Arc<Host>,
    evaluator: SampleEvaluator,
    last_sample_at: Option<Instant>,
    /// No sample has arrived since the connection was lost
    is_reconnecting: bool,
    ring: HistoryRing,
    subscriber: Option<mpsc::Sender<SourceEvent>>,
    session: Option<Session>,
    /// All intervals, for a result
    window: Window,
}

impl HostSamples {
    /// From the first sample of a connection on. The line says why the host is not recorded.
    pub fn new(
        name: &str,
        meta: Meta,
        baselines: &Baselines,
        settings: &Settings,
        limits: HistoryLimits,
        recorder: Option<&FleetRecorder>,
    ) -> (HostSamples, Option<String>) {
        let host = Arc::new(meta.host.clone());
        let evaluator = Evaluator::new(baselines.clone()).with_rule_config(settings.rule_config_for(&host));
        let samples = limits.length.as_nanos().div_ceil(meta.interval.as_nanos().max(1));
        let ring = HistoryRing::new(usize::try_from(samples).unwrap_or(usize::MAX).max(2), limits.bytes, meta.redaction);
        let (session, problem) = match recorder.map(|recorder| recorder.create(name, &meta, baselines)) {
            None => (None, None),
            Some(Ok(session)) => (Some(session), None),
            Some(Err(error)) => (None, Some(recorder::failure(error).to_string())),
        };
        let evaluator = SampleEvaluator::new(Arc::clone(&host), evaluator);
        let window = Window::default();
        let samples = HostSamples {
            meta,
            host,
            evaluator,
            last_sample_at: None,
            is_reconnecting: false,
            ring,
            subscriber: None,
            session,
            window,
        };
        (samples, problem)
    }

    /// Whether samples of a new connection follow these: they are of the same boot, and recorded in the same way.
    pub fn continues_with(&self, meta: &Meta) -> bool {
        self.host.is_same_boot(&meta.host) && self.meta.redaction == meta.redaction
    }

    /// Begins a new connection to the same boot of the host.
    pub fn continue_with(&mut self, meta: Meta) {
        self.host = Arc::new(meta.host.clone());
        self.meta = meta;
        self.is_reconnecting = true;
    }

    /// Evaluates the sample, records it and keeps it as it was encoded: that costs neither time nor the memory of an encoder.
    pub fn add(
        &mut self,
        sample: Arc<Sample>,
        encoded: impl FnOnce(FrameSummary) -> Option<SampleFrame>,
    ) -> Option<Evaluation> {
        if std::mem::take(&mut self.is_reconnecting)
            && let Some(gap) = self.gap_before(sample.at)
        {
            self.add_gap(gap);
        }
        self.last_sample_at = Some(sample.at);
        let evaluation = self.evaluator.evaluate_for_host(&self.host, Arc::clone(&sample));
        let summary = recorder::frame_summary(evaluation.as_ref());
        let timed = TimedSample::new(sample, 0);
        if let Some(session) = &mut self.session {
            session.offer(timed.clone(), summary);
        }
        if let Some(frame) = encoded(summary) {
            self.ring.push_encoded(frame);
        }
        self.pass_on(SourceEvent::Sample(timed));
        evaluation
    }

    /// The samples that were due while there was no connection.
    fn gap_before(&self, at: Instant) -> Option<Gap> {
        let last = self.last_sample_at?;
        let (elapsed_ns, interval_ns) = (at.boottime_ns.checked_sub(last.boottime_ns)?, nanos(self.meta.interval).max(1));
        // The new connection samples at other times of the interval.
        let lost_samples = (elapsed_ns.saturating_add(interval_ns / 2) / interval_ns).saturating_sub(1);
        let reason = GapReason::BetweenRecordings;
        (lost_samples > 0).then(|| Gap { samples_before: 0, lost_samples, from: last.into(), to: at.into(), reason })
    }

    /// Adds the interval to the result of `--once`.
    pub fn add_to_result(&mut self, evaluation: &Evaluation) {
        self.window.add(evaluation);
    }

    pub fn result(&self) -> &Window {
        &self.window
    }

    pub fn add_gap(&mut self, gap: Gap) {
        self.ring.add_gap(&gap);
        if let Some(session) = &mut self.session {
            session.gap(&gap);
        }
        self.pass_on(SourceEvent::Gap(gap));
    }

    pub fn add_mark(&mut self, mark: Mark) {
        self.ring.add_mark(mark.at, &mark.text);
        if let Some(session) = &mut self.session {
            // Its recorder says why it has failed.
            let _ = session.mark(mark.at, &mark.text);
        }
        self.pass_on(SourceEvent::Mark(mark.at, mark.text));
    }

    /// A change of its recording: a disk that is full, or failed.
    pub fn recording_change(&mut self) -> Option<String> {
        self.session.as_mut()?.status_change()
    }

    /// The recording, to be ended.
    pub fn take_session(&mut self) -> Option<Session> {
        self.session.take()
    }

    /// A recording of the samples in memory, its host, and their number.
    pub fn kept(&self) -> Result<(Vec<u8>, usize), RecordingError> {
        let mut bytes = Vec::new();
        self.ring.write_to(&mut bytes, &self.meta, &recorder::sections(&self.baselines()))?;
        Ok((bytes, self.ring.len()))
    }

    /// The samples in memory and those that follow.
    pub fn subscribe(&mut self) -> Result<SampleSubscription, RecordingError> {
        let (kept, _) = self.kept()?;
        let (sender, following) = mpsc::channel(SUBSCRIPTION_CAPACITY);
        self.subscriber = Some(sender);
        Ok(SampleSubscription { meta: self.meta.clone(), baselines: self.baselines(), kept, following })
    }

    /// The screens of the host get no more samples.
    pub fn end_subscription(&mut self, why: &str) {
        self.pass_on(SourceEvent::Ended(Some(why.to_owned())));
        self.subscriber = None;
    }

    /// Those of the evaluation so far: the screens of the host, which evaluate these samples again, then show the same findings.
    fn baselines(&self) -> Baselines {
        self.evaluator.evaluator().baselines().clone()
    }

    /// Never waits.
    fn pass_on(&mut self, event: SourceEvent) {
        let Some(subscriber) = &self.subscriber else { return };
        // Without room the sample is left out: the next interval is longer.
        if let Err(TrySendError::Closed(_)) = subscriber.try_send(event) {
            self.subscriber = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Redaction;
    use crate::synthetic;

    #[test]
    fn a_lost_connection_is_a_gap() {
        let meta = recorder::meta(&synthetic::host(), Duration::from_secs(1), Redaction::Nothing);
        let (baselines, limits) = (Baselines::default(), HistoryLimits::for_hosts(1));
        let (mut samples, _) = HostSamples::new("web1", meta.clone(), &baselines, &Settings::default(), limits, None);
        let mut following = samples.subscribe().unwrap().following;
        let add = |samples: &mut HostSamples, seconds: f64| drop(samples.add(synthetic::sample(seconds).shared(), |_| None));
        add(&mut samples, 1.0);
        add(&mut samples, 2.0);
        for first in [12.4, 13.3] {
            samples.continue_with(meta.clone());
            add(&mut samples, first);
        }
        add(&mut samples, 30.0);
        let gaps: Vec<Gap> = std::iter::from_fn(|| following.try_recv().ok())
            .filter_map(|event| if let SourceEvent::Gap(gap) = event { Some(gap) } else { None })
            .collect();
        let [gap] = gaps.as_slice() else { panic!("{gaps:?}") };
        assert_eq!((gap.lost_samples, gap.to.boottime_ns - gap.from.boottime_ns), (9, 10_400_000_000));
    }
}
