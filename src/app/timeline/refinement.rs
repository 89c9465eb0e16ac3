//! A move in time in two steps: the interval is shown at once with its figures, and is then evaluated exactly, with the intervals
//! before it for the graphs.

use std::time::Instant;

use super::checkpoints::IndexedSamples;
use super::{Position, Timeline};
use crate::findings::Evaluation;
use crate::state::Event;

/// Intervals before the one on the screen, for its graphs; fewer are evaluated anew where so many are known.
const GRAPH_LEAD_INTERVALS: u64 = 60;
const MIN_KNOWN_LEAD: u64 = 30;

/// Evaluations that a move may cost before its interval is shown.
const MAX_DIRECT_EVALUATIONS: u64 = 2;

/// The second step of a move.
pub struct Refinement {
    /// The interval on the screen
    to: u64,
    next: u64,
    evaluated: Vec<Evaluation>,
}

impl Timeline {
    /// Shows the interval that ends with this sample; `None` if it is damaged.
    pub(super) fn show(&mut self, to: u64) -> Option<Vec<Event>> {
        self.refinement = None;
        self.forget_other_boot(to);
        let direct = self.evaluation.evaluations_to(&self.store, to) <= MAX_DIRECT_EVALUATIONS;
        let first = self.store.indices().start + 1;
        let is_lead_known = self.known_intervals.contain(to.saturating_sub(MIN_KNOWN_LEAD).max(first)..to);
        let event = if direct && is_lead_known {
            let evaluation = self.evaluation.evaluation_at(&mut self.store, to)?;
            self.known_intervals.add(to..to + 1);
            Event::SeekCompleted { evaluation, preceding: Vec::new() }
        } else {
            let first = to.saturating_sub(GRAPH_LEAD_INTERVALS).max(first);
            let next = if is_lead_known { to } else { first };
            let evaluation = self.evaluation.provisional_evaluation_at(&mut self.store, to)?;
            self.refinement = Some(Refinement { to, next, evaluated: Vec::new() });
            Event::SeekStarted(evaluation)
        };
        self.position = Position::At(to);
        if let Some(playback) = self.store.playback_mut() {
            playback.clear_end();
        }
        let mut events = vec![event];
        events.extend(self.position_event());
        events.extend(self.span_event());
        Some(events)
    }

    /// Returns the exact interval when it is there.
    pub(super) fn refine(&mut self, until: Instant) -> Vec<Event> {
        let Some(mut refinement) = self.refinement.take() else { return Vec::new() };
        if self.position != Position::At(refinement.to) {
            return Vec::new();
        }
        loop {
            let index = refinement.next;
            if !self.evaluation.advance_to(&mut self.store, index, until) {
                self.refinement = Some(refinement);
                return Vec::new();
            }
            let evaluation = self.evaluation.evaluation_at(&mut self.store, index);
            if index >= refinement.to {
                let Some(evaluation) = evaluation else { return Vec::new() };
                let preceding = std::mem::take(&mut refinement.evaluated);
                let first = index.saturating_sub(preceding.len() as u64);
                self.known_intervals.add(first..index + 1);
                let mut events = vec![Event::SeekCompleted { evaluation, preceding }];
                events.extend(self.span_event());
                return events;
            }
            refinement.evaluated.extend(evaluation);
            refinement.next += 1;
        }
    }
}
