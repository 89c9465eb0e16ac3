//! Shares of the interval that threads waited, by cause, from the kernel's delay accounting.

use crate::ids::TaskId;
use crate::sample::Sample;
use crate::sample::delays::{Delay, TaskDelays};
use crate::units::Ratio;

/// The delays of one thread, each as a share of Δt from 0 to 1. `None` if the kernel does not count it.
///
/// The kernel counts a wait when it ends: a wait that began before the interval is cut to Δt. It may count one wait under
/// several causes, so the shares must not be added. A wait for a refaulted file page is in `thrashing` and `block_io`
/// (mm/filemap.c, folio_wait_bit_common). A wait for a page from swap is in `swap_in`, `block_io` and, if the page was evicted
/// recently, `thrashing` (mm/page_io.c, swap_read_folio). Reclaim that writes is in `reclaim` and `block_io`.
///
/// Since Linux 6.12 the kernel counts too much `block_io` when CPUs are saturated (up to 140 % of a thread's time was seen): the
/// start of the wait of a task with a delayed dequeue is written to another task (kernel/sched/sched.h, __block_task). Shares
/// are cut to 1.
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
    /// Lower bound of the share of time that the thread waited for memory: in reclaim and compaction, and for the larger of
    /// swap-in and thrashing, which may be the same wait.
    pub fn memory_share(&self) -> f64 {
        let share = |part: Option<Ratio>| part.map_or(0.0, |share| share.0);
        let pages = share(self.swap_in).max(share(self.thrashing));
        (pages + share(self.reclaim) + share(self.compaction)).min(1.0)
    }
}

/// Threads whose delays both samples contain, sorted by task.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<DelaySpan> {
    let (Ok(was), Ok(now)) = (&older.delays, &newer.delays) else { return Vec::new() };
    let before = |task| was.binary_search_by_key(&task, |old| old.task).ok().and_then(|at| was.get(at));
    now.iter().filter_map(|account| Some(span(before(account.task)?, account, seconds))).collect()
}

fn span(old: &TaskDelays, new: &TaskDelays, seconds: f64) -> DelaySpan {
    let share = |new: Delay, old: Delay| {
        let passed = new.total_ns.since(old.total_ns)? as f64 / 1e9;
        Ratio::new(passed.min(seconds), seconds)
    };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Counter;

    fn account(block_io: f64, swap_in: f64, reclaim: f64, thrashing: f64) -> TaskDelays {
        let delay = |seconds: f64| Delay { count: Counter(1), total_ns: Counter((seconds * 1e9) as u64) };
        TaskDelays {
            task: TaskId { pid: 1, tid: 1, start_ticks: 1 },
            block_io: delay(block_io),
            swap_in: delay(swap_in),
            reclaim: Some(delay(reclaim)),
            thrashing: Some(delay(thrashing)),
            compaction: None,
            write_protect_copy: None,
            irq: None,
        }
    }

    #[test]
    fn memory_share_counts_a_wait_under_several_causes_once() {
        let none = account(0.0, 0.0, 0.0, 0.0);
        let pages = span(&none, &account(0.9, 0.8, 0.05, 0.9), 1.0);
        assert!((pages.memory_share() - 0.95).abs() < 1e-9, "{pages:?}");
        let swap = span(&none, &account(0.3, 0.3, 0.1, 0.0), 1.0);
        assert!((swap.memory_share() - 0.4).abs() < 1e-9, "{swap:?}");
    }

    #[test]
    fn a_wait_that_began_before_the_interval_is_cut_to_it() {
        let (none, long) = (account(0.0, 0.0, 0.0, 0.0), account(7.0, 0.0, 2.5, 7.0));
        let span = span(&none, &long, 1.0);
        assert_eq!((span.block_io, span.thrashing, span.memory_share()), (Some(Ratio(1.0)), Some(Ratio(1.0)), 1.0));
    }
}
