//! One straight run through a recording, in slices: what the strip of time shows, and every finding of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoints::{CheckpointedEvaluation, IndexedSamples};
use super::tick_preview::TickPreview;
use crate::app::evaluation::SampleEvaluator;
use crate::findings::{ActiveFindings, Evaluation, Evaluator, Finding};
use crate::sample::Host;
use crate::state::TimelineTick;

pub struct BackgroundAnalysis {
    evaluator: SampleEvaluator,
    /// The sample that is looked at next
    next_index: u64,
    ticks: Vec<TimelineTick>,
    /// The samples that end intervals with which something began
    finding_starts: Vec<u64>,
    ended_findings: Vec<Finding>,
    active_findings: ActiveFindings,
    /// Something is known that nobody was told
    changed: bool,
}

impl BackgroundAnalysis {
    pub fn new(host: Arc<Host>, judge: Evaluator) -> BackgroundAnalysis {
        BackgroundAnalysis {
            evaluator: SampleEvaluator::new(host, judge),
            next_index: 0,
            ticks: Vec::new(),
            finding_starts: Vec::new(),
            ended_findings: Vec::new(),
            active_findings: Arc::from([]),
            changed: false,
        }
    }

    /// Goes on for about that long; `describe` says what the recording says of the time before a sample. False at the end.
    pub fn advance(
        &mut self,
        samples: &mut impl IndexedSamples,
        course: &mut CheckpointedEvaluation,
        at_most: Duration,
        describe: impl Fn(u64) -> (bool, Option<String>),
    ) -> bool {
        let begun = Instant::now();
        let end = samples.indices().end;
        while self.next_index < end && begun.elapsed() < at_most {
            let number = self.next_index;
            self.next_index += 1;
            let Some(sample) = samples.sample(number) else { continue };
            let judged = self.evaluator.evaluate_for_host(&samples.host(number), sample);
            course.save_checkpoint(number, &self.evaluator);
            if let Some(judged) = judged {
                let (gap, mark) = describe(number);
                self.ticks.push(tick(&judged, gap, mark));
                if has_new_finding(&judged.active, &self.active_findings) {
                    self.finding_starts.push(number);
                }
                self.ended_findings.extend(judged.ended);
                self.active_findings = judged.active;
                self.changed = true;
            }
        }
        self.next_index < end
    }

    /// The sample that is looked at next: all before it are known.
    pub fn next_index(&self) -> u64 {
        self.next_index
    }

    /// As far as it has learned.
    pub fn evaluator(&self) -> &Evaluator {
        self.evaluator.evaluator()
    }

    /// The strip and all findings, if there is anything new.
    pub fn take_update(&mut self, forecast: &TickPreview) -> Option<(Arc<[TimelineTick]>, Vec<Finding>)> {
        std::mem::take(&mut self.changed).then(|| (self.timeline_ticks(forecast), self.findings()))
    }

    /// What it has seen, and where it has not been yet what was foretold.
    pub fn timeline_ticks(&self, forecast: &TickPreview) -> Arc<[TimelineTick]> {
        self.ticks.iter().chain(forecast.ticks_from(self.next_index).iter().map(|(_, tick)| tick)).cloned().collect()
    }

    /// All findings, those that hold at the end too.
    pub fn findings(&self) -> Vec<Finding> {
        self.ended_findings.iter().chain(self.active_findings.iter()).cloned().collect()
    }

    /// The intervals with which findings were first seen to hold, in order.
    pub fn finding_starts(&self) -> &[u64] {
        &self.finding_starts
    }
}

/// Whether something holds that did not hold before.
pub fn has_new_finding(now: &[Finding], before: &[Finding]) -> bool {
    let same = |a: &Finding, b: &Finding| (a.kind, a.since, &a.subject) == (b.kind, b.since, &b.subject);
    now.iter().any(|now| !before.iter().any(|before| same(now, before)))
}

/// An interval as the strip shows it.
pub fn tick(judged: &Evaluation, gap: bool, mark: Option<String>) -> TimelineTick {
    let interval = &judged.interval;
    TimelineTick {
        realtime_ns: interval.at().realtime_ns,
        worst_severity: judged.active.iter().map(|finding| finding.severity).max(),
        busy: interval.cpu.as_ref().map_or(0.0, |cpu| cpu.busy() as f32),
        blocked: interval.idle_blocked.as_ref().map_or(0.0, |blocked| blocked.ratio as f32),
        gap,
        mark,
    }
}
