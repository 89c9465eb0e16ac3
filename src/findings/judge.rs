//! The judge: remembers between intervals what must be remembered, so that a finding neither flickers nor forgets since
//! when it has held. A suspicion becomes a finding after 2 of the last 3 intervals, and ends after 5 clean ones; its
//! severity rises and falls by the same rule, so that a figure on the edge does not flicker between two of them.

use std::sync::Arc;

use super::rule::{Patience, RULES, Rule};
use super::scene::{Scene, Suspicion};
use super::streaks::Streaks;
use super::{Criteria, Finding, Judged, Kind, Severity, Subject, Verdict};
use crate::baseline::{Baselines, Gathering};
use crate::interval::Interval;
use crate::sample::Instant;

/// Everything that the next judgement depends on. Small and cheap to clone: it keeps no interval and no sample.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    criteria: Arc<Criteria>,
    baselines: Baselines,
    gathering: Gathering,
    streaks: Streaks,
    cases: Vec<Case>,
    /// The end and the length of the interval that was judged last
    last: Option<(Instant, f64)>,
}

/// One suspicion or finding that is followed.
#[derive(Clone, Debug)]
struct Case {
    finding: Arc<Finding>,
    /// How long it has been at least so bad, for each of `SEVERITIES`; the first says whether it holds at all
    levels: [Level; SEVERITIES.len()],
    /// When each of the last intervals began, the latest first
    began: [Instant; WINDOW],
    /// When the latest interval that showed it ended
    last_shown: Instant,
}

/// One severity of a case.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// Which of the last intervals showed it: bit 0 is the latest
    shown: u8,
    /// How many intervals have not
    clean: u8,
    raised: bool,
}

const SEVERITIES: [Severity; 3] = [Severity::Note, Severity::Warning, Severity::Critical];

/// Intervals that patience looks back on.
const WINDOW: usize = 3;

/// So many clean intervals end a finding.
const CLEAN: u8 = 5;

/// After a hole of more than so many intervals nothing of before is taken to last still.
const HOLE_INTERVALS: f64 = 5.0;

/// A hole shorter than this is the jitter of clocks.
const SEAM_SECONDS: f64 = 0.001;

/// An interval of which this share was spent suspended says nothing about the rest of it.
const SUSPENDED_SHARE: f64 = 0.1;

impl Judge {
    pub fn new(baselines: Baselines) -> Judge {
        Judge { baselines, ..Judge::default() }
    }

    /// The same, judging by these instead of the defaults.
    pub fn by(mut self, criteria: Arc<Criteria>) -> Judge {
        self.criteria = criteria;
        self
    }

    /// One that judges by the same and knows the same baselines, but remembers nothing.
    pub fn afresh(&self) -> Judge {
        Judge::new(self.baselines.clone()).by(Arc::clone(&self.criteria))
    }

    pub fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// Judges by other baselines from the next interval on.
    pub fn adopt(&mut self, baselines: Baselines) {
        self.baselines = baselines;
    }

    /// What it has learned so far: what the store keeps.
    pub fn baselines(&self) -> &Baselines {
        &self.baselines
    }

    /// Judge the next interval.
    pub fn judge(&mut self, mut interval: Interval) -> Judged {
        self.criteria.assume_links(&mut interval);
        if let Ok(disks) = &interval.newer.disks {
            self.criteria.set_baselines(disks, &mut self.baselines);
        }
        let interval = Arc::new(interval);
        let mut ended = self.mind_the_gap(&interval);
        let awake = interval.suspended_seconds <= interval.seconds * SUSPENDED_SHARE;
        if awake {
            self.gathering.take(&interval);
        }
        let standings = self.baselines.standings(&interval, &self.gathering);
        let baselines = self.baselines.clone();
        let mut lessons = Vec::new();
        if awake {
            let criteria = Arc::clone(&self.criteria);
            let thresholds = &criteria.thresholds;
            self.streaks.observe(&interval, thresholds);
            let streaks = self.streaks.clone();
            let drifts = baselines.drifts(&interval);
            let scene = Scene { interval: &interval, standings: &standings, drifts: &drifts, thresholds, streaks: &streaks };
            for case in &mut self.cases {
                case.pass();
            }
            for rule in RULES {
                let told = (rule.suspect)(&scene).into_iter().filter(|suspicion| !criteria.ignored.holds(&suspicion.subject));
                for suspicion in told {
                    self.take(rule, suspicion, &interval);
                }
            }
            self.cases.retain(|case| match case.levels[0] {
                Level { raised: true, clean: CLEAN.., .. } => {
                    ended.push(case.ended());
                    false
                }
                level => level.raised || level.shown != 0,
            });
            lessons = self.baselines.lessons(&interval, &self.gathering);
            self.baselines.learn(&lessons);
        }
        let peers = self.streaks.peers().cloned();
        Judged { verdict: self.verdict(), interval, ended, standings, baselines, lessons: lessons.into(), peers }
    }

    /// An interval that does not begin where the last one ended is not the next one: what was only suspected is dropped,
    /// and after a long hole what held is over.
    fn mind_the_gap(&mut self, interval: &Interval) -> Vec<Finding> {
        let last = self.last.replace((interval.at(), interval.seconds));
        let Some((end, length)) = last else { return Vec::new() };
        let begin = interval.older.at;
        let hole = begin.boottime_ns.abs_diff(end.boottime_ns) as f64 / 1e9;
        let slept = interval.suspended_seconds > interval.seconds * SUSPENDED_SHARE;
        if hole <= SEAM_SECONDS && !slept {
            return Vec::new();
        }
        self.streaks = Streaks::default();
        self.gathering = Gathering::default();
        let away = if slept { interval.suspended_seconds } else { hole };
        let over = away > length.max(interval.seconds - interval.suspended_seconds) * HOLE_INTERVALS || begin < end;
        let mut ended = Vec::new();
        self.cases.retain_mut(|case| {
            case.levels.iter_mut().for_each(|level| level.shown = 0);
            let raised = case.is_raised();
            if raised && over {
                ended.push(case.ended());
            }
            raised && !over
        });
        ended
    }

    fn take(&mut self, rule: &Rule, suspicion: Suspicion, interval: &Interval) {
        let began = interval.older.at;
        let limit_seconds = self.criteria.thresholds.limit_seconds;
        let at = self.cases.iter().position(|case| case.is(rule.kind, &suspicion.subject));
        let case = match at.and_then(|at| self.cases.get_mut(at)) {
            Some(case) => case,
            None => {
                self.cases.push(Case::new(finding(rule, suspicion.clone(), began), interval.at()));
                let Some(case) = self.cases.last_mut() else { return };
                case
            }
        };
        case.show(rule, suspicion, interval, limit_seconds);
    }

    /// What holds now: worst first, then what explains most of the box.
    fn verdict(&self) -> Verdict {
        let mut holding: Vec<Finding> =
            self.cases.iter().filter(|case| case.is_raised()).map(|case| Finding::clone(&case.finding)).collect();
        holding.sort_by(|a, b| {
            let worst = b.severity.cmp(&a.severity).then(b.explains.total_cmp(&a.explains));
            worst.then_with(|| a.kind.cmp(&b.kind)).then_with(|| a.subject.cmp(&b.subject))
        });
        holding.into()
    }
}

impl Case {
    fn new(finding: Finding, at: Instant) -> Case {
        let began = finding.since;
        Case { finding: Arc::new(finding), levels: Default::default(), began: [began; WINDOW], last_shown: at }
    }

    fn is(&self, kind: Kind, subject: &Subject) -> bool {
        self.finding.kind == kind && self.finding.subject == *subject
    }

    fn is_raised(&self) -> bool {
        self.levels[0].raised
    }

    /// One interval more: clean, unless `show` says otherwise.
    fn pass(&mut self) {
        self.began.rotate_right(1);
        for level in &mut self.levels {
            level.shown = (level.shown << 1) & ((1 << WINDOW) - 1);
            level.clean = level.clean.saturating_add(1);
        }
    }

    fn show(&mut self, rule: &Rule, suspicion: Suspicion, interval: &Interval, limit_seconds: f64) {
        self.began[0] = interval.older.at;
        self.last_shown = interval.at();
        self.levels[0].shown |= 1;
        let since = if self.is_raised() { self.finding.since } else { self.first_shown() };
        let lasted = interval.at().boottime_ns.saturating_sub(since.boottime_ns) as f64 / 1e9;
        let suspicion = match rule.patience {
            Patience::Lasting if lasted < limit_seconds => Suspicion { severity: Severity::Note, ..suspicion },
            _ => suspicion,
        };
        for (level, severity) in self.levels.iter_mut().zip(SEVERITIES) {
            let enough = match rule.patience {
                Patience::AtOnce => 1,
                // That it has lasted is patience enough, but one figure out of many is not the worst there is.
                Patience::Lasting if severity == Severity::Warning => 1,
                Patience::Lasting | Patience::TwoOfThree => 2,
            };
            if suspicion.severity >= severity {
                level.shown |= 1;
                level.clean = 0;
            }
            level.raised = level.clean < CLEAN && (level.raised || level.shown.count_ones() >= enough);
        }
        let raised = self.levels.iter().zip(SEVERITIES).rev().find(|(level, _)| level.raised);
        let severity = raised.map_or(suspicion.severity, |(_, severity)| severity);
        // An interval that shows it less bad does not speak for it, until it has been less bad for long enough.
        if suspicion.severity >= severity {
            self.finding = Arc::new(finding(rule, Suspicion { severity, ..suspicion }, since));
        }
    }

    /// When the earliest of the last intervals that showed it began.
    fn first_shown(&self) -> Instant {
        let shown = self.levels[0].shown;
        let ago = (0..WINDOW).rev().find(|ago| shown & (1 << ago) != 0);
        ago.map_or(self.last_shown, |ago| self.began[ago])
    }

    fn ended(&self) -> Finding {
        Finding { until: Some(self.last_shown), ..Finding::clone(&self.finding) }
    }
}

fn finding(rule: &Rule, suspicion: Suspicion, since: Instant) -> Finding {
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
        next: rule.next.iter().map(|&line| line.to_owned()).collect(),
        explains: suspicion.explains,
    }
}
