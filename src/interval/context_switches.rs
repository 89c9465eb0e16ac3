//! Context switches over an interval, where somebody counts them.

use super::new_tasks::IntervalStart;
use crate::ids::TaskId;
use crate::sample::context_switches::{ContextSwitches, TaskContextSwitches};
use crate::sample::task::Process;
use crate::sample::{Host, Sample};
use crate::units::PerSecond;

/// One thread that switched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSwitchSpan {
    pub task: TaskId,
    pub rates: ContextSwitchRates,
}

/// How often it left a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContextSwitchRates {
    /// Because it had to wait for something
    pub voluntary: PerSecond,
    /// Because another task was to run
    pub involuntary: PerSecond,
}

/// All threads that could be counted at its end, and at its beginning unless they are new; sorted by task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContextSwitchSpans(Vec<ContextSwitchSpan>);

impl ContextSwitchSpans {
    /// `None` where nobody counts.
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64) -> Option<ContextSwitchSpans> {
        let now = newer.context_switches.as_ref().ok()?;
        let was = older.context_switches.as_deref().unwrap_or_default();
        let beginning = older.tasks.is_ok().then(|| IntervalStart::new(host, older));
        let mut before = was.iter().peekable();
        let span = |new: &TaskContextSwitches| {
            while before.next_if(|old| old.task < new.task).is_some() {}
            let old = before.next_if(|old| old.task == new.task).map(|old| old.counts);
            let newborn = || beginning.is_some_and(|beginning| beginning.is_before(new.task.start_ticks));
            let old = old.or_else(|| newborn().then(ContextSwitches::default))?;
            let voluntary = PerSecond::between(Some(new.counts.voluntary), Some(old.voluntary), seconds)?;
            let involuntary = PerSecond::between(Some(new.counts.involuntary), Some(old.involuntary), seconds)?;
            Some(ContextSwitchSpan { task: new.task, rates: ContextSwitchRates { voluntary, involuntary } })
        };
        Some(ContextSwitchSpans(now.iter().filter_map(span).collect()))
    }

    /// `None` where it could not be counted.
    pub fn task(&self, task: TaskId) -> Option<ContextSwitchRates> {
        let at = self.0.binary_search_by_key(&task, |span| span.task).ok()?;
        self.0.get(at).map(|span| span.rates)
    }

    /// Its threads' added; `None` where none could be counted.
    pub fn process(&self, process: &Process) -> Option<ContextSwitchRates> {
        let threads = process.threads.iter().filter_map(|thread| self.task(process.task_id(thread)));
        threads.reduce(|a, b| ContextSwitchRates {
            voluntary: PerSecond(a.voluntary.0 + b.voluntary.0),
            involuntary: PerSecond(a.involuntary.0 + b.involuntary.0),
        })
    }
}
