//! Evaluates the rules on each interval and tracks their candidates. A candidate becomes a finding after 2 of the last 3
//! intervals and ends after 5 clean ones; its severity rises and falls by the same rule, so that a figure near a threshold
//! does not flicker.

use std::sync::Arc;

use super::rule::{Hysteresis, Rule};
use super::rule_context::{Candidate, RuleContext};
use super::rule_state::RuleState;
use super::rules::RULES;
use super::{ActiveFindings, Evaluation, Finding, Kind, RuleConfig, Severity, Subject};
use crate::baseline::{Baselines, LatencyWindow};
use crate::interval::Interval;
use crate::sample::Instant;

/// All state that the next evaluation depends on. Small and cheap to clone: it keeps no interval and no sample.
#[derive(Clone, Debug, Default)]
pub struct Evaluator {
    rule_config: Arc<RuleConfig>,
    baselines: Baselines,
    latency_window: LatencyWindow,
    rule_state: RuleState,
    tracked: Vec<TrackedFinding>,
    /// End and length of the last evaluated interval
    last_interval: Option<(Instant, f64)>,
}

/// A candidate or finding that is tracked.
#[derive(Clone, Debug)]
struct TrackedFinding {
    finding: Arc<Finding>,
    /// State for each of `SEVERITIES`; the first says whether the finding holds at all
    levels: [SeverityState; SEVERITIES.len()],
    /// When each of the last intervals began, the latest first
    interval_starts: [Instant; HYSTERESIS_INTERVALS],
    /// When the latest interval that showed it ended
    last_shown: Instant,
}

/// State of one severity of a tracked finding.
#[derive(Clone, Copy, Debug, Default)]
struct SeverityState {
    /// Which of the last intervals showed it: bit 0 is the latest
    shown_mask: u8,
    /// How many intervals have not
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

/// An interval is not evaluated if more than this share of it was spent suspended.
const MAX_SUSPENDED_SHARE: f64 = 0.1;

impl Evaluator {
    pub fn new(baselines: Baselines) -> Evaluator {
        Evaluator { baselines, ..Evaluator::default() }
    }

    /// The same, judging by these instead of the defaults.
    pub fn with_rule_config(mut self, criteria: Arc<RuleConfig>) -> Evaluator {
        self.rule_config = criteria;
        self
    }

    /// One that judges by the same and knows the same baselines, but remembers nothing.
    pub fn without_history(&self) -> Evaluator {
        Evaluator::new(self.baselines.clone()).with_rule_config(Arc::clone(&self.rule_config))
    }

    pub fn rule_config(&self) -> &RuleConfig {
        &self.rule_config
    }

    /// Judges by other baselines from the next interval on.
    pub fn set_baselines(&mut self, baselines: Baselines) {
        self.baselines = baselines;
    }

    /// What it has learned so far: what the store keeps.
    pub fn baselines(&self) -> &Baselines {
        &self.baselines
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
        let standings = self.baselines.latency_statuses(&interval, &self.latency_window);
        let baselines = self.baselines.clone();
        let mut lessons = Vec::new();
        if awake {
            let criteria = Arc::clone(&self.rule_config);
            let thresholds = &criteria.thresholds;
            self.rule_state.update(&interval, thresholds);
            let streaks = self.rule_state.clone();
            let drifts = baselines.drifts(&interval);
            let context =
                RuleContext { interval: &interval, latency_statuses: &standings, drifts: &drifts, thresholds, state: &streaks };
            for case in &mut self.tracked {
                case.begin_interval();
            }
            for rule in RULES {
                let told =
                    (rule.evaluate)(&context).into_iter().filter(|suspicion| !criteria.ignored.contains(&suspicion.subject));
                for suspicion in told {
                    self.track(rule, suspicion, &interval);
                }
            }
            self.tracked.retain(|case| match case.levels[0] {
                SeverityState { raised: true, clean_intervals: CLEAN_INTERVALS_TO_END.., .. } => {
                    ended.push(case.to_ended());
                    false
                }
                level => level.raised || level.shown_mask != 0,
            });
            lessons = self.baselines.observations(&interval, &self.latency_window);
            self.baselines.learn(&lessons);
        }
        let peers = self.rule_state.remote_hosts().cloned();
        Evaluation {
            rule_config: Arc::clone(&self.rule_config),
            active: self.active_findings(),
            interval,
            ended,
            latency_statuses: standings,
            baselines,
            observations: lessons.into(),
            remote_hosts: peers,
        }
    }

    /// Handles a gap between this interval and the last one: candidates are dropped, and after a long gap findings end.
    /// Returns the findings that ended.
    fn reset_after_gap(&mut self, interval: &Interval) -> Vec<Finding> {
        let last = self.last_interval.replace((interval.at(), interval.seconds));
        let Some((end, length)) = last else { return Vec::new() };
        let begin = interval.older.at;
        let hole = begin.boottime_ns.abs_diff(end.boottime_ns) as f64 / 1e9;
        let slept = interval.suspended_seconds > interval.seconds * MAX_SUSPENDED_SHARE;
        if hole <= GAP_TOLERANCE_SECONDS && !slept {
            return Vec::new();
        }
        self.rule_state = RuleState::default();
        self.latency_window = LatencyWindow::default();
        let away = if slept { interval.suspended_seconds } else { hole };
        let over = away > length.max(interval.seconds - interval.suspended_seconds) * MAX_GAP_INTERVALS || begin < end;
        let mut ended = Vec::new();
        self.tracked.retain_mut(|case| {
            case.levels.iter_mut().for_each(|level| level.shown_mask = 0);
            let raised = case.is_raised();
            if raised && over {
                ended.push(case.to_ended());
            }
            raised && !over
        });
        ended
    }

    fn track(&mut self, rule: &Rule, suspicion: Candidate, interval: &Interval) {
        let began = interval.older.at;
        let limit_seconds = self.rule_config.thresholds.limit_seconds;
        let at = self.tracked.iter().position(|case| case.matches(rule.kind, &suspicion.subject));
        let case = match at.and_then(|at| self.tracked.get_mut(at)) {
            Some(case) => case,
            None => {
                self.tracked.push(TrackedFinding::new(new_finding(rule, suspicion.clone(), began), interval.at()));
                let Some(case) = self.tracked.last_mut() else { return };
                case
            }
        };
        case.observe(rule, suspicion, interval, limit_seconds);
    }

    /// Current findings, worst first, then by the share of the host that they explain.
    fn active_findings(&self) -> ActiveFindings {
        let mut holding: Vec<Finding> =
            self.tracked.iter().filter(|case| case.is_raised()).map(|case| Finding::clone(&case.finding)).collect();
        holding.sort_by(|a, b| {
            let worst = b.severity.cmp(&a.severity).then(b.explained_share.total_cmp(&a.explained_share));
            worst.then_with(|| a.kind.cmp(&b.kind)).then_with(|| a.subject.cmp(&b.subject))
        });
        holding.into()
    }
}

impl TrackedFinding {
    fn new(finding: Finding, at: Instant) -> TrackedFinding {
        let began = finding.since;
        TrackedFinding {
            finding: Arc::new(finding),
            levels: Default::default(),
            interval_starts: [began; HYSTERESIS_INTERVALS],
            last_shown: at,
        }
    }

    fn matches(&self, kind: Kind, subject: &Subject) -> bool {
        self.finding.kind == kind && self.finding.subject == *subject
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
    }

    fn observe(&mut self, rule: &Rule, suspicion: Candidate, interval: &Interval, limit_seconds: f64) {
        self.interval_starts[0] = interval.older.at;
        self.last_shown = interval.at();
        self.levels[0].shown_mask |= 1;
        let since = if self.is_raised() { self.finding.since } else { self.first_shown() };
        let lasted = interval.at().boottime_ns.saturating_sub(since.boottime_ns) as f64 / 1e9;
        let suspicion = match rule.hysteresis {
            Hysteresis::Sustained if lasted < limit_seconds => Candidate { severity: Severity::Note, ..suspicion },
            _ => suspicion,
        };
        for (level, severity) in self.levels.iter_mut().zip(SEVERITIES) {
            let enough = match rule.hysteresis {
                Hysteresis::Immediate => 1,
                // Its duration is enough for a warning, but a single figure is not enough for critical.
                Hysteresis::Sustained if severity == Severity::Warning => 1,
                Hysteresis::Sustained | Hysteresis::TwoOfThree => 2,
            };
            if suspicion.severity >= severity {
                level.shown_mask |= 1;
                level.clean_intervals = 0;
            }
            level.raised =
                level.clean_intervals < CLEAN_INTERVALS_TO_END && (level.raised || level.shown_mask.count_ones() >= enough);
        }
        let raised = self.levels.iter().zip(SEVERITIES).rev().find(|(level, _)| level.raised);
        let severity = raised.map_or(suspicion.severity, |(_, severity)| severity);
        // An interval of lower severity changes the finding only once the higher severity has ended.
        if suspicion.severity >= severity {
            self.finding = Arc::new(new_finding(rule, Candidate { severity, ..suspicion }, since));
        }
    }

    /// When the earliest of the last intervals that showed it began.
    fn first_shown(&self) -> Instant {
        let shown = self.levels[0].shown_mask;
        let ago = (0..HYSTERESIS_INTERVALS).rev().find(|ago| shown & (1 << ago) != 0);
        ago.map_or(self.last_shown, |ago| self.interval_starts[ago])
    }

    fn to_ended(&self) -> Finding {
        Finding { until: Some(self.last_shown), ..Finding::clone(&self.finding) }
    }
}

fn new_finding(rule: &Rule, suspicion: Candidate, since: Instant) -> Finding {
    Finding {
        kind: rule.kind,
        severity: suspicion.severity,
        subject: suspicion.subject,
        since,
        until: None,
        value: suspicion.value,
        threshold: suspicion.threshold,
        unit: suspicion.unit,
        sentence: suspicion.sentence,
        evidence: suspicion.evidence,
        next: rule.next_steps.iter().map(|&line| line.to_owned()).collect(),
        explained_share: suspicion.explained_share,
    }
}
