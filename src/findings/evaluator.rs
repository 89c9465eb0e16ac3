//! Evaluates the rules on each interval and tracks their candidates (hysteresis). A candidate becomes a finding when 2 of the
//! last 3 intervals show it, and ends after 5 intervals without it. Its severity changes by the same rule, so that a figure near
//! a threshold does not raise and end a finding again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::causes;
use super::finding_order;
use super::next_steps::next_steps;
use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext};
use super::rule_state::RuleState;
use super::rules::RULES;
use super::worst_candidates::worst_by_subject;
use super::{ActiveFindings, Evaluation, Finding, FindingKey, Kind, RuleConfig, Severity, Subject};
use crate::baseline::{Baselines, LatencyWindow};
use crate::interval::Interval;
use crate::interval::cgroup_names::CgroupName;
use crate::sample::{Instant, Sample};

/// The evaluator and all its state. It keeps no interval and no sample, so that checkpoints of it are small.
#[derive(Clone, Debug, Default)]
pub struct Evaluator {
    rule_config: Arc<RuleConfig>,
    baselines: Baselines,
    latency_window: LatencyWindow,
    rule_state: RuleState,
    tracked: BTreeMap<FindingKey, TrackedFinding>,
    /// The order of the active findings after the last interval
    order: Vec<FindingKey>,
    /// End and length of the last evaluated interval
    last_interval: Option<(Instant, f64)>,
}

/// A candidate or finding that is tracked.
#[derive(Clone, Debug)]
struct TrackedFinding {
    finding: Arc<Finding>,
    /// State for each of `SEVERITIES`; the first says whether the finding holds at all
    levels: [SeverityState; SEVERITIES.len()],
    /// Start times of the last intervals, the latest first
    interval_starts: [Instant; HYSTERESIS_INTERVALS],
    /// When the latest interval that showed it ended
    last_shown: Instant,
    /// When the first of the intervals began that show it as more than a note, and which of the last intervals did: bit 0 is the latest
    worse_since: Option<Instant>,
    worse_mask: u8,
    /// Its cause, as the latest interval with one showed it
    cause: Option<FindingKey>,
}

/// State of one severity of a tracked finding.
#[derive(Clone, Copy, Debug, Default)]
struct SeverityState {
    /// Which of the last intervals showed it: bit 0 is the latest
    shown_mask: u8,
    /// Number of the latest intervals that did not show it
    clean_intervals: u8,
    raised: bool,
}

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

/// Intervals that the hysteresis covers.
const HYSTERESIS_INTERVALS: usize = 3;

/// Clean intervals that end a finding.
const CLEAN_INTERVALS_TO_END: u8 = 5;

/// After a gap of more intervals than this no earlier finding is assumed to last.
const MAX_GAP_INTERVALS: f64 = 5.0;

/// Gaps shorter than this are clock jitter.
const GAP_TOLERANCE_SECONDS: f64 = 0.001;

/// Baselines are not learned from intervals with more than this share of stolen CPU time. docs/metrics.md, "Fixed thresholds".
const MAX_LEARNABLE_STEAL: f64 = 0.1;

/// Nor if the sample at their end was late by more than this share of them.
const MAX_LEARNABLE_DELAY_SHARE: f64 = 0.1;

/// An interval is not evaluated if more than this share of it was spent suspended.
const MAX_SUSPENDED_SHARE: f64 = 0.1;

impl Evaluator {
    /// An evaluator with the default configuration.
    pub fn new(baselines: Baselines) -> Evaluator {
        Evaluator { baselines, ..Evaluator::default() }
    }

    /// Sets the configuration of the rules.
    pub fn with_rule_config(mut self, rule_config: Arc<RuleConfig>) -> Evaluator {
        self.rule_config = rule_config;
        self
    }

    /// An evaluator with the same configuration and baselines, and without findings and state.
    pub fn without_history(&self) -> Evaluator {
        Evaluator::new(self.baselines.clone()).with_rule_config(Arc::clone(&self.rule_config))
    }

    pub fn rule_config(&self) -> &RuleConfig {
        &self.rule_config
    }

    /// Replaces the baselines from the next interval on.
    pub fn set_baselines(&mut self, baselines: Baselines) {
        self.baselines = baselines;
    }

    /// The baselines with everything learned so far.
    pub fn baselines(&self) -> &Baselines {
        &self.baselines
    }

    /// The baselines for a recording that begins with this sample: those learned before it, and those of the configuration, which
    /// a replay on another machine does not have.
    pub fn baselines_for_recording(&self, first: &Sample) -> Baselines {
        let mut baselines = self.baselines.clone();
        if let Ok(disks) = &first.disks {
            self.rule_config.apply_baseline_overrides(disks, &mut baselines);
        }
        baselines
    }

    /// Evaluates the next interval.
    pub fn evaluate(&mut self, interval: Interval) -> Evaluation {
        if let Ok(disks) = &interval.newer.disks {
            self.rule_config.apply_baseline_overrides(disks, &mut self.baselines);
        }
        let interval = Arc::new(interval);
        let mut ended = self.reset_after_gap(&interval);
        let awake = interval.suspended_seconds <= interval.seconds * MAX_SUSPENDED_SHARE;
        if awake {
            self.latency_window.push(&interval);
        }
        let statuses = self.baselines.latency_statuses(&interval, &self.latency_window);
        let baselines = self.baselines.clone();
        let mut observations = Vec::new();
        if awake {
            let rule_config = Arc::clone(&self.rule_config);
            let thresholds = &rule_config.thresholds;
            self.rule_state.update(&interval, thresholds);
            let rule_state = self.rule_state.clone();
            let drifts = baselines.drifts(&interval, &self.latency_window);
            let raised = self.tracked.iter().filter(|(_, tracked)| tracked.is_raised());
            let active: Vec<FindingKey> = raised.map(|(key, _)| key.clone()).collect();
            let context = RuleContext {
                interval: &interval,
                latency_statuses: &statuses,
                drifts: &drifts,
                thresholds,
                state: &rule_state,
                active: &active,
            };
            for tracked in self.tracked.values_mut() {
                tracked.begin_interval();
            }
            for rule in RULES {
                let mut candidates = (rule.evaluate)(&context);
                candidates.retain(|candidate| !rule_config.ignored.contains(&candidate.subject));
                for candidate in worst_by_subject(candidates) {
                    self.track(rule, candidate, &interval);
                }
            }
            self.tracked.retain(|_, tracked| match tracked.levels[0] {
                SeverityState { raised: true, clean_intervals: CLEAN_INTERVALS_TO_END.., .. } => {
                    ended.push(tracked.to_ended());
                    false
                }
                level => level.raised || level.shown_mask != 0,
            });
            self.update_causes(&context);
            if is_undisturbed(&interval) {
                observations = self.baselines.observations(&interval, &self.latency_window);
            }
            self.baselines.learn(&observations);
        }
        let active = self.active_findings();
        self.order = active.iter().map(Finding::key).collect();
        let remote_hosts = self.rule_state.remote_hosts().cloned();
        Evaluation {
            rule_config: Arc::clone(&self.rule_config),
            active,
            interval,
            ended,
            latency_statuses: statuses,
            baselines,
            observations: observations.into(),
            remote_hosts,
        }
    }

    /// Resets the state if there is a gap between this interval and the last one: candidates are dropped, and after a long gap
    /// findings end.
    /// Returns the findings that ended.
    fn reset_after_gap(&mut self, interval: &Interval) -> Vec<Finding> {
        let last = self.last_interval.replace((interval.at(), interval.seconds));
        let Some((end, length)) = last else { return Vec::new() };
        let begin = interval.older.at;
        let gap_seconds = begin.boottime_ns.abs_diff(end.boottime_ns) as f64 / 1e9;
        let slept = interval.suspended_seconds > interval.seconds * MAX_SUSPENDED_SHARE;
        if gap_seconds <= GAP_TOLERANCE_SECONDS && !slept {
            return Vec::new();
        }
        self.rule_state = RuleState::default();
        self.latency_window = LatencyWindow::default();
        let away = if slept { interval.suspended_seconds } else { gap_seconds };
        let over = away > length.max(interval.seconds - interval.suspended_seconds) * MAX_GAP_INTERVALS || begin < end;
        let mut ended = Vec::new();
        self.tracked.retain(|_, tracked| {
            tracked.levels.iter_mut().for_each(|level| level.shown_mask = 0);
            tracked.worse_mask = 0;
            let raised = tracked.is_raised();
            if raised && over {
                ended.push(tracked.to_ended());
            }
            raised && !over
        });
        ended
    }

    fn track(&mut self, rule: &Rule, candidate: Candidate, interval: &Interval) {
        let began = interval.older.at;
        let limit_seconds = self.rule_config.thresholds.limit_seconds;
        let key = FindingKey { kind: rule.kind, subject: candidate.subject.clone() };
        let new = || TrackedFinding::new(new_finding(rule, candidate.clone(), began, interval), interval.at());
        let tracked = self.tracked.entry(key).or_insert_with(new);
        tracked.observe(rule, candidate, interval, limit_seconds);
    }

    /// Updates the cause of each active finding. A cause that this interval does not show remains until it ends: findings of one
    /// incident do not separate for a moment.
    fn update_causes(&mut self, context: &RuleContext) {
        let raised = self.tracked.values().filter(|tracked| tracked.is_raised());
        let causes: Vec<Arc<Finding>> =
            raised.map(|tracked| &tracked.finding).filter(|finding| causes::may_be_cause(finding.kind)).cloned().collect();
        let is_active = |key: &FindingKey| causes.iter().any(|cause| cause.kind == key.kind && cause.subject == key.subject);
        for tracked in self.tracked.values_mut().filter(|tracked| tracked.is_raised()) {
            let cause = causes::direct_cause(context, &tracked.finding, &causes);
            tracked.cause = cause.or(tracked.cause.take().filter(is_active));
        }
    }

    /// Active findings, root causes first. A device that was found slow is not called "not saturated" before that ends.
    fn active_findings(&self) -> ActiveFindings {
        let raised = || self.tracked.values().filter(|tracked| tracked.is_raised());
        let slow: Vec<&Subject> = raised()
            .map(|tracked| &tracked.finding)
            .filter(|finding| finding.kind == Kind::DiskLatency)
            .map(|finding| &finding.subject)
            .collect();
        let is_contradicted =
            |finding: &Finding| finding.kind == Kind::DiskBusyNotSaturated && slow.contains(&&finding.subject);
        let raised = raised().filter(|tracked| !is_contradicted(&tracked.finding));
        let finding =
            |tracked: &TrackedFinding| Finding { follows_from: tracked.cause.clone(), ..Finding::clone(&tracked.finding) };
        finding_order::order(raised.map(finding).collect(), &self.order).into()
    }
}

/// Whether latencies of this interval are those of the devices: a machine that gets no CPU sees completions late.
fn is_undisturbed(interval: &Interval) -> bool {
    let stolen = interval.cpu.as_ref().map_or(0.0, |cpu| cpu.total.steal);
    let late_seconds = interval.newer.cost.start_delay_ns as f64 / 1e9;
    stolen <= MAX_LEARNABLE_STEAL && late_seconds <= interval.seconds * MAX_LEARNABLE_DELAY_SHARE
}

impl TrackedFinding {
    fn new(finding: Finding, at: Instant) -> TrackedFinding {
        let began = finding.since;
        TrackedFinding {
            finding: Arc::new(finding),
            levels: Default::default(),
            interval_starts: [began; HYSTERESIS_INTERVALS],
            last_shown: at,
            worse_since: None,
            worse_mask: 0,
            cause: None,
        }
    }

    fn is_raised(&self) -> bool {
        self.levels[0].raised
    }

    /// Begins an interval: it is clean unless `observe` is called.
    fn begin_interval(&mut self) {
        self.interval_starts.rotate_right(1);
        for level in &mut self.levels {
            level.shown_mask = (level.shown_mask << 1) & ((1 << HYSTERESIS_INTERVALS) - 1);
            level.clean_intervals = level.clean_intervals.saturating_add(1);
        }
        self.worse_mask = (self.worse_mask << 1) & ((1 << HYSTERESIS_INTERVALS) - 1);
        let is_worse = self.levels.get(1).is_some_and(|warning| warning.raised);
        if self.worse_mask == 0 && !is_worse {
            self.worse_since = None;
        }
    }

    fn observe(&mut self, rule: &Rule, candidate: Candidate, interval: &Interval, limit_seconds: f64) {
        self.interval_starts[0] = interval.older.at;
        self.last_shown = interval.at();
        self.levels[0].shown_mask |= 1;
        let since = if self.is_raised() { self.finding.since } else { self.first_shown() };
        let lasted = self.worse_seconds(candidate.severity, interval);
        let candidate = match rule.hysteresis {
            Hysteresis::Sustained if lasted < limit_seconds => Candidate { severity: Severity::Note, ..candidate },
            _ => candidate,
        };
        for (level, severity) in self.levels.iter_mut().zip(SEVERITIES) {
            let enough = match rule.hysteresis {
                Hysteresis::Immediate => 1,
                // Its duration is enough for a warning, but a single figure is not enough for critical.
                Hysteresis::Sustained if severity == Severity::Warning => 1,
                Hysteresis::Sustained | Hysteresis::TwoOfThree => 2,
            };
            if candidate.severity >= severity {
                level.shown_mask |= 1;
                level.clean_intervals = 0;
            }
            level.raised =
                level.clean_intervals < CLEAN_INTERVALS_TO_END && (level.raised || level.shown_mask.count_ones() >= enough);
        }
        let raised = self.levels.iter().zip(SEVERITIES).rev().find(|(level, _)| level.raised);
        let severity = raised.map_or(candidate.severity, |(_, severity)| severity);
        // An interval of lower severity changes the finding only once the higher severity has ended.
        if candidate.severity >= severity {
            self.finding = Arc::new(new_finding(rule, Candidate { severity, ..candidate }, since, interval));
        }
    }

    /// Seconds for which it has been more than a note, this interval included: a long note is no reason for a warning at once.
    fn worse_seconds(&mut self, severity: Severity, interval: &Interval) -> f64 {
        if severity == Severity::Note {
            return 0.0;
        }
        self.worse_mask |= 1;
        let since = *self.worse_since.get_or_insert(interval.older.at);
        interval.at().boottime_ns.saturating_sub(since.boottime_ns) as f64 / 1e9
    }

    /// When the earliest of the last intervals that showed it began.
    fn first_shown(&self) -> Instant {
        let shown = self.levels[0].shown_mask;
        let ago = (0..HYSTERESIS_INTERVALS).rev().find(|ago| shown & (1 << ago) != 0);
        ago.map_or(self.last_shown, |ago| self.interval_starts[ago])
    }

    fn to_ended(&self) -> Finding {
        Finding { until: Some(self.last_shown), follows_from: self.cause.clone(), ..Finding::clone(&self.finding) }
    }
}

fn new_finding(rule: &Rule, candidate: Candidate, since: Instant, interval: &Interval) -> Finding {
    let cgroup_name = match &candidate.subject {
        Subject::Cgroup(id) => Some(Box::new(CgroupName::from_path(&interval.newer, id.path.as_bytes()))),
        _ => None,
    };
    Finding {
        kind: rule.kind,
        severity: candidate.severity,
        next: next_steps(rule, &candidate.subject, &candidate.evidence),
        subject: candidate.subject,
        since,
        figures_at: interval.at(),
        until: None,
        value: candidate.value,
        threshold: candidate.threshold,
        unit: candidate.unit,
        sentence: candidate.sentence,
        evidence: candidate.evidence,
        // A sum of nothing is −0.0.
        explained_share: candidate.explained_share + 0.0,
        cgroup_name,
        follows_from: None,
    }
}
