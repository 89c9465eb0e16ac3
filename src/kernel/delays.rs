//! Reads the delay accounting of active threads (runnable, blocked, or with a recent timeslice) by one taskstats request per
//! thread, a limited number in each sample. If kernel.task_delayacct is off it reads nothing; it never switches it on.

use super::host;
use super::root::Root;
use super::scan::KnownProcess;
use super::taskstats::{self, TaskStats, TaskstatsClient};
use crate::ids::TaskId;
use crate::sample::delays::{Delay, TaskDelays};
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Threads that are queried in one sample: about 2 ms.
const MAX_THREADS_PER_SAMPLE: usize = 256;
/// kernel.task_delayacct may change: it is read again after this time.
const SYSCTL_RECHECK_NS: u64 = 10_000_000_000;

/// Queries the active threads in each sample.
#[derive(Debug, Default)]
pub struct DelayReader {
    taskstats: Option<TaskstatsClient>,
    /// Whether the accounting is on, and when that was read.
    delayacct_enabled: Option<(Reading<bool>, u64)>,
    /// Index of the next part of the active threads, where there are too many for one sample.
    next_part: usize,
}

impl DelayReader {
    /// The delays of the active threads, sorted by task. `Unsupported` where the accounting is off.
    pub fn sample(&mut self, root: &Root, known: &[KnownProcess], now_ns: u64) -> Reading<Vec<TaskDelays>> {
        if !root.is_host() {
            return Err(Absent::NotRead);
        }
        if !self.is_enabled(root, now_ns)? {
            self.taskstats = None;
            return Err(Absent::Unsupported);
        }
        let link = match &mut self.taskstats {
            Some(link) => link,
            None => self.taskstats.insert(TaskstatsClient::open()?),
        };
        let active: Vec<TaskId> = known.iter().flat_map(active_threads).collect();
        let mut accounts = Vec::with_capacity(active.len().min(MAX_THREADS_PER_SAMPLE));
        for task in threads_of_this_sample(&active, &mut self.next_part) {
            match link.query_thread(task.tid) {
                Ok(account) => accounts.extend(task_delays(*task, &account)),
                // It ended since the scan.
                Err(Absent::Vanished) => {}
                Err(why) => return Err(why),
            }
        }
        accounts.sort_unstable_by_key(|account| account.task);
        Ok(accounts)
    }

    fn is_enabled(&mut self, root: &Root, now_ns: u64) -> Reading<bool> {
        match self.delayacct_enabled {
            Some((on, at)) if now_ns.saturating_sub(at) < SYSCTL_RECHECK_NS => on,
            _ => {
                let on = host::read_delay_accounting(root);
                self.delayacct_enabled = Some((on, now_ns));
                on
            }
        }
    }
}

fn active_threads(known: &KnownProcess) -> impl Iterator<Item = TaskId> {
    let hot = known.threads().1.iter();
    hot.filter_map(|&index| known.sampled.threads.get(index)).map(|thread| known.sampled.task_id(thread))
}

/// All threads, or a part that overlaps half of the part before: each thread is queried in two consecutive samples, which
/// give an interval.
fn threads_of_this_sample<'a>(active: &'a [TaskId], turn: &mut usize) -> &'a [TaskId] {
    const STEP: usize = MAX_THREADS_PER_SAMPLE / 2;
    if active.len() <= MAX_THREADS_PER_SAMPLE {
        *turn = 0;
        return active;
    }
    let end = turn.saturating_add(1).saturating_mul(STEP);
    *turn = if end.saturating_sub(STEP) >= active.len() { 0 } else { *turn + 1 };
    active.get(end.saturating_sub(2 * STEP).min(active.len())..end.min(active.len())).unwrap_or_default()
}

/// `None` where the tid belongs to another task now, and where the task has no delays recorded (all are 0).
fn task_delays(task: TaskId, account: &TaskStats) -> Option<TaskDelays> {
    let convert = |delay: taskstats::Delay| Delay { count: Counter(delay.count), total_ns: Counter(delay.total_ns) };
    let delays = TaskDelays {
        task,
        block_io: convert(account.block_io),
        swap_in: convert(account.swap_in),
        reclaim: account.reclaim.map(convert),
        thrashing: account.thrashing.map(convert),
        compaction: account.compact.map(convert),
        write_protect_copy: account.write_protect_copy.map(convert),
        irq: account.irq.map(convert),
    };
    let rest = [delays.reclaim, delays.thrashing, delays.compaction, delays.write_protect_copy, delays.irq];
    let counted = [Some(delays.block_io), Some(delays.swap_in)].into_iter().chain(rest).flatten();
    let has_account = counted.into_iter().any(|delay| delay != Delay::default());
    let is_it = account.tgid.is_none_or(|tgid| tgid == task.pid);
    (has_account && is_it).then_some(delays)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32) -> TaskId {
        TaskId { pid: number, tid: number, start_ticks: 1 }
    }

    #[test]
    fn each_of_many_threads_is_queried_in_two_consecutive_samples() {
        let all: Vec<TaskId> = (0..1000).map(task).collect();
        let mut turn = 0;
        let mut before: Vec<TaskId> = Vec::new();
        let mut paired = std::collections::BTreeSet::new();
        for _ in 0..20 {
            let now = threads_of_this_sample(&all, &mut turn).to_vec();
            assert!(now.len() <= MAX_THREADS_PER_SAMPLE);
            paired.extend(now.iter().filter(|task| before.contains(task)).copied());
            before = now;
        }
        assert_eq!(paired.len(), all.len());
        assert_eq!(threads_of_this_sample(&all[..9], &mut turn), &all[..9]);
    }
}
