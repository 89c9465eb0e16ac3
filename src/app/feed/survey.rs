//! One straight run through a recording, in slices: what the strip of time shows, and every finding of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::course::{Course, Samples};
use super::forecast::Forecast;
use crate::app::judging::Judging;
use crate::findings::{Finding, Judge, Judged, Verdict};
use crate::sample::Host;
use crate::state::Tick;

pub struct Survey {
    judging: Judging,
    /// The sample that is looked at next
    next: u64,
    ticks: Vec<Tick>,
    /// The samples that end intervals with which something began
    beginnings: Vec<u64>,
    ended: Vec<Finding>,
    open: Verdict,
    /// Something is known that nobody was told
    news: bool,
}

impl Survey {
    pub fn new(host: Arc<Host>, judge: Judge) -> Survey {
        Survey {
            judging: Judging::new(host, judge),
            next: 0,
            ticks: Vec::new(),
            beginnings: Vec::new(),
            ended: Vec::new(),
            open: Arc::from([]),
            news: false,
        }
    }

    /// Goes on for about that long; `describe` says what the recording says of the time before a sample. False at the end.
    pub fn go_on(
        &mut self,
        samples: &mut impl Samples,
        course: &mut Course,
        at_most: Duration,
        describe: impl Fn(u64) -> (bool, Option<String>),
    ) -> bool {
        let begun = Instant::now();
        let end = samples.numbers().end;
        while self.next < end && begun.elapsed() < at_most {
            let number = self.next;
            self.next += 1;
            let Some(sample) = samples.sample(number) else { continue };
            let judged = self.judging.take_of(&samples.host(number), sample);
            course.remember(number, &self.judging);
            if let Some(judged) = judged {
                let (gap, mark) = describe(number);
                self.ticks.push(tick(&judged, gap, mark));
                if begins(&judged.verdict, &self.open) {
                    self.beginnings.push(number);
                }
                self.ended.extend(judged.ended);
                self.open = judged.verdict;
                self.news = true;
            }
        }
        self.next < end
    }

    /// The sample that is looked at next: all before it are known.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// As far as it has learned.
    pub fn judge(&self) -> &Judge {
        self.judging.judge()
    }

    /// The strip and all findings, if there is anything new.
    pub fn news(&mut self, forecast: &Forecast) -> Option<(Arc<[Tick]>, Vec<Finding>)> {
        std::mem::take(&mut self.news).then(|| (self.strip(forecast), self.findings()))
    }

    /// What it has seen, and where it has not been yet what was foretold.
    pub fn strip(&self, forecast: &Forecast) -> Arc<[Tick]> {
        self.ticks.iter().chain(forecast.from(self.next).iter().map(|(_, tick)| tick)).cloned().collect()
    }

    /// All findings, those that hold at the end too.
    pub fn findings(&self) -> Vec<Finding> {
        self.ended.iter().chain(self.open.iter()).cloned().collect()
    }

    /// The intervals with which findings were first seen to hold, in order.
    pub fn beginnings(&self) -> &[u64] {
        &self.beginnings
    }
}

/// Whether something holds that did not hold before.
pub fn begins(now: &[Finding], before: &[Finding]) -> bool {
    let same = |a: &Finding, b: &Finding| (a.kind, a.since, &a.subject) == (b.kind, b.since, &b.subject);
    now.iter().any(|now| !before.iter().any(|before| same(now, before)))
}

/// An interval as the strip shows it.
pub fn tick(judged: &Judged, gap: bool, mark: Option<String>) -> Tick {
    let interval = &judged.interval;
    Tick {
        realtime_ns: interval.at().realtime_ns,
        worst: judged.verdict.iter().map(|finding| finding.severity).max(),
        busy: interval.cpu.as_ref().map_or(0.0, |cpu| cpu.busy() as f32),
        blocked: interval.blocked.as_ref().map_or(0.0, |blocked| blocked.ratio as f32),
        gap,
        mark,
    }
}
