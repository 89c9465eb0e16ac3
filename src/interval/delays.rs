//! Shares of the time in which threads were kept waiting, by delay accounting.

use crate::ids::TaskId;
use crate::sample::Sample;
use crate::sample::delays::{Delay, TaskDelays};
use crate::units::Ratio;

/// One thread over the interval; each a share of Δt. `None` where the kernel does not count it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySpan {
    pub task: TaskId,
    pub block_io: Option<Ratio>,
    pub swap_in: Option<Ratio>,
    pub reclaim: Option<Ratio>,
    pub thrashing: Option<Ratio>,
    pub compaction: Option<Ratio>,
    pub write_protect_copy: Option<Ratio>,
    pub irq: Option<Ratio>,
}

impl DelaySpan {
    /// For want of memory: in reclaim and compaction, for pages from swap and for pages that came back.
    pub fn memory(&self) -> f64 {
        let parts = [self.swap_in, self.reclaim, self.thrashing, self.compaction];
        parts.into_iter().flatten().map(|share| share.0).sum()
    }
}

/// Threads with an account at both samples, sorted by task.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<DelaySpan> {
    let (Ok(was), Ok(now)) = (&older.delays, &newer.delays) else { return Vec::new() };
    let before = |task| was.binary_search_by_key(&task, |old| old.task).ok().and_then(|at| was.get(at));
    now.iter().filter_map(|account| Some(span(before(account.task)?, account, seconds))).collect()
}

fn span(old: &TaskDelays, new: &TaskDelays, seconds: f64) -> DelaySpan {
    let share = |new: Delay, old: Delay| Ratio::of(new.total_ns.since(old.total_ns)? as f64 / 1e9, seconds);
    let maybe = |new: Option<Delay>, old: Option<Delay>| share(new?, old?);
    DelaySpan {
        task: new.task,
        block_io: share(new.block_io, old.block_io),
        swap_in: share(new.swap_in, old.swap_in),
        reclaim: maybe(new.reclaim, old.reclaim),
        thrashing: maybe(new.thrashing, old.thrashing),
        compaction: maybe(new.compaction, old.compaction),
        write_protect_copy: maybe(new.write_protect_copy, old.write_protect_copy),
        irq: maybe(new.irq, old.irq),
    }
}
