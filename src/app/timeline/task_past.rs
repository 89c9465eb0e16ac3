//! The past of the process or thread whose page is open. The screen keeps the figures of the most active processes of each interval;
//! of another task they are computed from the samples.

use std::ops::Range;
use std::time::Instant;

use super::Timeline;
use super::checkpoints::IndexedSamples;
use crate::state::Event;
use crate::state::history::{FollowedTask, MAX_PAGE_COLUMNS, TaskPoint};

/// The task of the open page, and the intervals whose figures the screen still lacks.
#[derive(Default)]
pub struct TaskPast {
    pub task: Option<FollowedTask>,
    /// Replay: the intervals of the stretch that the page shows
    stretch: Range<u64>,
    /// By the sample that ends each
    missing: Range<u64>,
}

impl TaskPast {
    /// What the page still lacks when it shows another stretch: what it had not been given yet, and what the stretch has beside the
    /// earlier one.
    fn missing_of(&self, stretch: &Range<u64>) -> Range<u64> {
        let (old, left) = (&self.stretch, &self.missing);
        let added = match stretch.start < old.start {
            true => stretch.start..old.start.min(stretch.end),
            false => old.end.max(stretch.start)..stretch.end,
        };
        let left = left.start.max(stretch.start)..left.end.min(stretch.end);
        match (left.is_empty(), added.is_empty()) {
            (true, _) => added,
            (false, true) => left,
            (false, false) => left.start.min(added.start)..left.end.max(added.end),
        }
    }
}

impl Timeline {
    /// The screen shows the page of this task. `lacks_past`: whether it lacks figures of intervals that it knows.
    pub fn follow_task(&mut self, task: Option<FollowedTask>, lacks_past: impl FnOnce(FollowedTask) -> bool) {
        let stretch = self.graph_intervals.wanted();
        if self.task_past.task == task && self.task_past.stretch == stretch {
            return;
        }
        let is_same = self.task_past.task == task;
        let missing = match (task.filter(|&task| lacks_past(task)), self.shown_index()) {
            (Some(_), Some(_)) if is_same => self.task_past.missing_of(&stretch),
            (Some(_), Some(_)) if !stretch.is_empty() => stretch.clone(),
            (Some(_), Some(shown)) => {
                let first = self.store.indices().start + 1;
                shown.saturating_sub(u64::from(MAX_PAGE_COLUMNS)).max(first)..shown + 1
            }
            _ => 0..0,
        };
        self.task_past = TaskPast { task, stretch, missing };
    }

    pub(super) fn has_task_past_to_add(&self) -> bool {
        !self.task_past.missing.is_empty()
    }

    /// The oldest interval first: samples are decoded in their order.
    pub(super) fn add_task_past(&mut self, until: Instant) -> Vec<Event> {
        let TaskPast { task: Some(task), stretch, missing } = &mut self.task_past else { return Vec::new() };
        let mut points = Vec::new();
        for index in missing.by_ref() {
            // The other intervals of the stretch arrive with the figures of the task.
            if !stretch.is_empty() && !self.known_intervals.contain(index..index + 1) {
                continue;
            }
            let evaluation = self.evaluation.provisional_evaluation_at(&mut self.store, index);
            points.extend(evaluation.and_then(|evaluation| TaskPoint::new(&evaluation.interval, *task)));
            if Instant::now() >= until {
                break;
            }
        }
        if points.is_empty() { Vec::new() } else { vec![Event::TaskPast(points)] }
    }
}
