//! Context switches over an interval, where somebody counts them.

use super::newborn::Beginning;
use crate::ids::TaskId;
use crate::sample::switches::{Switches, TaskSwitches};
use crate::sample::task::Process;
use crate::sample::{Host, Sample};
use crate::units::PerSecond;

/// One thread that switched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchSpan {
    pub task: TaskId,
    pub rates: SwitchRates,
}

/// How often it left a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SwitchRates {
    /// Because it had to wait for something
    pub voluntary: PerSecond,
    /// Because another task was to run
    pub involuntary: PerSecond,
}

/// All threads that could be counted at its end, and at its beginning unless they are new; sorted by task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchSpans(Vec<SwitchSpan>);

impl SwitchSpans {
    /// `None` where nobody counts.
    pub(super) fn between(host: &Host, older: &Sample, newer: &Sample, seconds: f64) -> Option<SwitchSpans> {
        let now = newer.switches.as_ref().ok()?;
        let was = older.switches.as_deref().unwrap_or_default();
        let beginning = older.tasks.is_ok().then(|| Beginning::of(host, older));
        let mut before = was.iter().peekable();
        let span = |new: &TaskSwitches| {
            while before.next_if(|old| old.task < new.task).is_some() {}
            let old = before.next_if(|old| old.task == new.task).map(|old| old.switches);
            let newborn = || beginning.is_some_and(|beginning| beginning.is_before(new.task.start_ticks));
            let old = old.or_else(|| newborn().then(Switches::default))?;
            let voluntary = PerSecond::between(Some(new.switches.voluntary), Some(old.voluntary), seconds)?;
            let involuntary = PerSecond::between(Some(new.switches.involuntary), Some(old.involuntary), seconds)?;
            Some(SwitchSpan { task: new.task, rates: SwitchRates { voluntary, involuntary } })
        };
        Some(SwitchSpans(now.iter().filter_map(span).collect()))
    }

    /// `None` where it could not be counted.
    pub fn of(&self, task: TaskId) -> Option<SwitchRates> {
        let at = self.0.binary_search_by_key(&task, |span| span.task).ok()?;
        self.0.get(at).map(|span| span.rates)
    }

    /// Its threads' added; `None` where none could be counted.
    pub fn of_process(&self, process: &Process) -> Option<SwitchRates> {
        let threads = process.threads.iter().filter_map(|thread| self.of(process.task_id(thread)));
        threads.reduce(|a, b| SwitchRates {
            voluntary: PerSecond(a.voluntary.0 + b.voluntary.0),
            involuntary: PerSecond(a.involuntary.0 + b.involuntary.0),
        })
    }
}
