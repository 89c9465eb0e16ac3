//! Context switches per second of threads and processes. They are read only if a screen or an option needs them.

use super::new_tasks::IntervalStart;
use super::pairing::SortedCursor;
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

/// How often a thread left a CPU, per second.
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
    /// `None` if context switches were not read.
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64) -> Option<ContextSwitchSpans> {
        let now = newer.context_switches.as_ref().ok()?;
        let was = older.context_switches.as_deref().unwrap_or_default();
        let beginning = older.tasks.is_ok().then(|| IntervalStart::new(host, older));
        let mut older_tasks = SortedCursor::new(was);
        let span = |new: &TaskContextSwitches| {
            let old = older_tasks.find(|old| old.task.cmp(&new.task)).map(|old| old.counts);
            let is_new = || beginning.is_some_and(|beginning| beginning.is_before(new.task.start_ticks));
            let old = old.or_else(|| is_new().then(ContextSwitches::default))?;
            let voluntary = PerSecond::between(Some(new.counts.voluntary), Some(old.voluntary), seconds)?;
            let involuntary = PerSecond::between(Some(new.counts.involuntary), Some(old.involuntary), seconds)?;
            Some(ContextSwitchSpan { task: new.task, rates: ContextSwitchRates { voluntary, involuntary } })
        };
        Some(ContextSwitchSpans(now.iter().filter_map(span).collect()))
    }

    /// The rates of a thread; `None` if its context switches are unknown.
    pub fn task(&self, task: TaskId) -> Option<ContextSwitchRates> {
        let at = self.0.binary_search_by_key(&task, |span| span.task).ok()?;
        self.0.get(at).map(|span| span.rates)
    }

    /// The sum over the threads of a process; `None` if none is known.
    pub fn process(&self, process: &Process) -> Option<ContextSwitchRates> {
        let threads = process.threads.iter().filter_map(|thread| self.task(process.task_id(thread)));
        threads.reduce(|a, b| ContextSwitchRates {
            voluntary: PerSecond(a.voluntary.0 + b.voluntary.0),
            involuntary: PerSecond(a.involuntary.0 + b.involuntary.0),
        })
    }
}
