//! The totals of a span, with the processes and threads that ended in it. A span that is extended at its end only adds the new
//! intervals.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use super::Timeline;
use super::checkpoints::IndexedSamples;
use crate::app::evaluation::SamplePairing;
use crate::interval::Interval;
use crate::interval::run::RunAccumulator;
use crate::state::Event;

/// Longer spans have the difference of their first and last sample only: without what ended in between.
const MAX_INTERVALS: u64 = 3600;

/// The intervals of a span that have been added.
pub struct SpanTotals {
    /// The sample that ends the first interval, and the next one to add
    first: u64,
    next: u64,
    pairing: SamplePairing,
    accumulator: RunAccumulator,
    is_reported: bool,
}

impl SpanTotals {
    /// Whether these are all intervals of that span.
    fn is_of(&self, span: &RangeInclusive<u64>) -> bool {
        self.first == *span.start() && self.next == span.end() + 1
    }

    /// The figures of all intervals that were added; which threads are blocked is that of the last one.
    fn total(&self) -> Option<Arc<Interval>> {
        let mut total = Arc::unwrap_or_clone(self.accumulator.total()?);
        if let Some(last) = self.accumulator.last() {
            total.set_blocked_groups_of(last);
        }
        Some(Arc::new(total))
    }
}

impl Timeline {
    /// Whether intervals of the span are still to be added.
    pub(super) fn has_span_to_add(&self) -> bool {
        let Some(span) = self.span_indices() else { return false };
        let count = span.end() - span.start() + 1;
        let is_done = self.span_totals.as_ref().is_some_and(|totals| totals.is_of(&span) && totals.is_reported);
        (2..=MAX_INTERVALS).contains(&count) && !is_done
    }

    /// The totals of this span, if all its intervals have been added.
    pub(super) fn known_span_totals(&self, span: &RangeInclusive<u64>) -> Option<Arc<Interval>> {
        self.span_totals.as_ref().filter(|totals| totals.is_of(span))?.total()
    }

    /// Returns the totals when all intervals are added.
    pub(super) fn add_to_span(&mut self, until: Instant) -> Vec<Event> {
        let Some(span) = self.span_indices() else { return Vec::new() };
        let known = self.span_totals.take();
        let mut totals = match known.filter(|known| known.first == *span.start() && known.next <= span.end() + 1) {
            Some(totals) => totals,
            None => self.new_span_totals(*span.start()),
        };
        while totals.next <= *span.end() && Instant::now() < until {
            let host = self.store.host(totals.next);
            let sample = self.store.sample(totals.next);
            if let Some(interval) = sample.and_then(|sample| totals.pairing.interval_for_host(&host, sample)) {
                totals.accumulator.add(&Arc::new(interval));
            }
            totals.next += 1;
            totals.is_reported = false;
        }
        let mut events = Vec::new();
        if totals.next > *span.end() {
            totals.is_reported = true;
            let intervals = span.end() - span.start() + 1;
            events.extend(totals.total().map(|interval| Event::Span { interval, intervals }));
        }
        self.span_totals = Some(totals);
        events
    }

    fn new_span_totals(&mut self, first: u64) -> SpanTotals {
        let links = Arc::clone(&self.evaluation.rule_config().link_overrides);
        let mut pairing = SamplePairing::new(self.store.host(first), links);
        if let Some(sample) = first.checked_sub(1).and_then(|older| self.store.sample(older)) {
            pairing.start_from(sample);
        }
        SpanTotals { first, next: first, pairing, accumulator: RunAccumulator::default(), is_reported: false }
    }
}
