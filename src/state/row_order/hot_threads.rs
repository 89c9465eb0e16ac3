//! Keeps the order of the hottest threads of the overview for some seconds: a thread keeps its row unless another one uses much more.

use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use super::{HELD_ROWS, fill_vacant_places, is_held, reorder};
use crate::ids::TaskId;
use crate::interval::task::ThreadSpan;
use crate::state::State;
use crate::units::Ratio;

/// The threads that used most CPU time at some time, the first one most.
#[derive(Clone, Debug, Default)]
pub struct HeldThreads {
    since_ns: u64,
    threads: Vec<TaskId>,
}

impl State {
    /// Keeps the threads that used most CPU time in the newest interval, if those of an earlier one are old enough.
    pub(in crate::state) fn hold_hot_threads(&mut self) {
        let Some(now_ns) = self.live_time_ns() else {
            self.lists.held.threads = HeldThreads::default();
            return;
        };
        let Some(tasks) = self.playback.current.as_ref().and_then(|evaluation| evaluation.interval.tasks.as_ref()) else {
            return;
        };
        let held = &mut self.lists.held.threads;
        if is_held(held.since_ns, now_ns) {
            return;
        }
        let threads = HeldThreads::default().hottest(&tasks.threads, HELD_ROWS);
        held.threads = threads.into_iter().map(|thread| thread.id).collect();
        held.since_ns = now_ns;
    }
}

impl HeldThreads {
    /// How many times the CPU time of a kept thread another one has to use to take its row.
    const TAKES_OVER: f64 = 2.0;

    /// The threads that used a CPU or waited for one, at most `room`: kept ones in the order that is kept, each other one where it belongs.
    pub fn hottest<'a>(&self, threads: &'a [ThreadSpan], room: usize) -> Vec<&'a ThreadSpan> {
        self.select(active_threads(threads), room)
    }

    /// At most `count` of any rows, those of which the thread used most CPU time; of equal ones those that waited longest for a CPU.
    fn select<T>(&self, rows: impl Iterator<Item = (TaskId, CpuUse, T)>, count: usize) -> Vec<T> {
        let held: FxHashMap<TaskId, usize> = self.threads.iter().copied().zip(0..).collect();
        let mut hot: Vec<(Option<usize>, CpuUse, T)> =
            rows.map(|(id, time, row)| (held.get(&id).copied(), time, row)).collect();
        let weight = |row: &(Option<usize>, CpuUse, T)| row.1.times(if row.0.is_some() { Self::TAKES_OVER } else { 1.0 });
        if hot.len() > count && count > 0 {
            hot.select_nth_unstable_by(count - 1, |a, b| weight(b).total_cmp(weight(a)));
        }
        hot.truncate(count);
        hot.sort_by(|a, b| b.1.total_cmp(a.1));
        let mut places: Vec<Option<usize>> = hot.iter().map(|(place, ..)| *place).collect();
        fill_vacant_places(&mut places, self.threads.len());
        reorder(&mut hot, &places);
        hot.into_iter().map(|(.., row)| row).collect()
    }
}

/// CPU time that a thread used, and time in which it waited for a CPU, both as shares of the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct CpuUse {
    used: f64,
    waited: f64,
}

impl CpuUse {
    fn times(self, factor: f64) -> CpuUse {
        CpuUse { used: self.used * factor, waited: self.waited * factor }
    }

    fn is_some(self) -> bool {
        self.used > 0.0 || self.waited > 0.0
    }

    fn total_cmp(self, other: CpuUse) -> Ordering {
        self.used.total_cmp(&other.used).then(self.waited.total_cmp(&other.waited))
    }
}

/// The threads that used CPU time or waited for a CPU, and how much.
fn active_threads(threads: &[ThreadSpan]) -> impl Iterator<Item = (TaskId, CpuUse, &ThreadSpan)> {
    let share = |share: Option<Ratio>| share.map_or(0.0, |share| share.0);
    let active = threads.iter().map(move |thread| {
        let time = CpuUse { used: share(thread.cpu), waited: share(thread.run_queue_wait) };
        (thread.id, time, thread)
    });
    active.filter(|(_, time, _)| time.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Event, Source, update};
    use crate::synthetic::{evaluation, process, sample, screen, thread};

    #[test]
    fn a_hot_thread_keeps_its_row_unless_another_uses_twice_as_much() {
        // The hottest two after two seconds, in which threads 1, 2 and 3 run for so many milliseconds each.
        let hottest = |seconds: [[u64; 3]; 2]| {
            let mut state = screen((80, 24), Source::Live);
            let at = |second: usize| {
                let ran_ms = |thread: usize| seconds[..second].iter().map(|ran| ran[thread]).sum::<u64>();
                let threads = [0, 1, 2].map(|at| thread(at as u32 + 1, "busy").ran(ran_ms(at) * 1_000_000, 0, ran_ms(at)));
                sample(100.0 + second as f64).processes([process(1, "busy").threads(threads)])
            };
            (0..2).for_each(|second| drop(update(&mut state, Event::Evaluation(evaluation(at(second), at(second + 1))))));
            let tasks = state.current().unwrap().interval.tasks.as_ref().unwrap();
            let hottest = state.lists.held.threads.hottest(&tasks.threads, 2);
            hottest.iter().map(|thread| thread.id.tid).collect::<Vec<_>>()
        };
        let one_before_two = [500, 400, 0];
        assert_eq!(hottest([[0; 3], [300, 400, 500]]), [3, 2]);
        assert_eq!(hottest([one_before_two, [300, 400, 500]]), [1, 2], "kept in their order");
        assert_eq!(hottest([one_before_two, [300, 400, 900]]), [3, 2], "where it belongs");
        assert_eq!(hottest([one_before_two, [0, 400, 0]]), [2], "one does nothing any more");
    }

    #[test]
    fn threads_that_only_waited_for_a_cpu_stand_below_those_that_used_one() {
        // Milliseconds in which each ran and in which it waited for a CPU, of a second.
        let times = [(1, 0, 0), (2, 0, 100), (3, 1, 0), (4, 500, 0), (5, 0, 400)];
        let at = |second: u64| {
            let ns = |ms: u64| second * ms * 1_000_000;
            let threads = times.map(|(tid, ran, waited)| thread(tid, "busy").ran(ns(ran), ns(waited), second));
            sample(100.0 + second as f64).processes([process(1, "busy").threads(threads)])
        };
        let evaluation = evaluation(at(1), at(2));
        let spans = &evaluation.interval.tasks.as_ref().unwrap().threads;
        let listed = |room| {
            let hottest = HeldThreads::default().hottest(spans, room);
            hottest.iter().map(|thread| thread.id.tid).collect::<Vec<_>>()
        };
        assert_eq!(listed(10), [4, 3, 5, 2]);
        assert_eq!(listed(3), [4, 3, 5]);
        assert_eq!(listed(0), [0; 0]);
    }
}
