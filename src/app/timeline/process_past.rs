//! The past of the process whose page is open. The screen keeps the figures of the most active processes of each interval; of another
//! process they are computed from the samples, in slices, so that a key is answered meanwhile.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::Timeline;
use super::checkpoints::IndexedSamples;
use crate::ids::ProcessId;
use crate::state::Event;
use crate::state::history::{MAX_PAGE_COLUMNS, ProcessPoint};

/// How long intervals are computed before keys and frames have their turn.
const SLICE: Duration = Duration::from_millis(6);

/// The process of the open page, and the intervals whose figures the screen still lacks.
#[derive(Default)]
pub struct ProcessPast {
    pub process: Option<ProcessId>,
    /// By the sample that ends each
    missing: Range<u64>,
}

impl Timeline {
    /// The screen shows the page of this process. `lacks_past`: whether it lacks figures of past intervals.
    pub fn follow_process(&mut self, process: Option<ProcessId>, lacks_past: impl FnOnce(ProcessId) -> bool) {
        if self.process_past.process == process {
            return;
        }
        let missing = match (process.filter(|&process| lacks_past(process)), self.shown_index()) {
            (Some(_), Some(shown)) => {
                let first = self.store.indices().start + 1;
                shown.saturating_sub(u64::from(MAX_PAGE_COLUMNS)).max(first)..shown + 1
            }
            _ => 0..0,
        };
        self.process_past = ProcessPast { process, missing };
    }

    pub(super) fn has_process_past_to_add(&self) -> bool {
        !self.process_past.missing.is_empty()
    }

    /// Computes intervals for a few milliseconds, the oldest first: samples are decoded in their order.
    pub(super) fn add_process_past(&mut self) -> Vec<Event> {
        let ProcessPast { process: Some(process), missing } = &mut self.process_past else { return Vec::new() };
        let (until, mut points) = (Instant::now() + SLICE, Vec::new());
        for index in missing.by_ref() {
            let evaluation = self.evaluation.provisional_evaluation_at(&mut self.store, index);
            points.extend(evaluation.and_then(|evaluation| ProcessPoint::new(&evaluation.interval, *process)));
            if Instant::now() >= until {
                break;
            }
        }
        if points.is_empty() { Vec::new() } else { vec![Event::ProcessPast(points)] }
    }
}
