//! A span of time from an anchor to the cursor: all tables show its figures.

use std::sync::Arc;

use super::State;
use super::event::Effect;
use super::notice::Notice;
use super::playback::Playback;
use crate::findings::{Evaluation, Finding};
use crate::interval::Interval;
use crate::sample::Instant;

/// A span that is displayed.
#[derive(Clone, Debug)]
pub struct Span {
    pub from: Instant,
    pub to: Instant,
    /// Number of intervals
    pub intervals: u64,
    /// The interval at the cursor, while `Playback::current` is that of the span
    cursor: Option<Evaluation>,
}

impl Playback {
    /// The interval at the cursor becomes the displayed one.
    pub(super) fn restore_cursor(&mut self) {
        if let Some(cursor) = self.span.as_mut().and_then(|span| span.cursor.take()) {
            self.current = Some(cursor);
        }
    }

    pub(super) fn end_span(&mut self) {
        self.restore_cursor();
        self.span = None;
    }
}

impl State {
    /// The end of the interval at the cursor of the timeline: of a span, its moving end.
    pub fn cursor_at(&self) -> Option<Instant> {
        let at_cursor = self.playback.span.as_ref().and_then(|span| span.cursor.as_ref());
        at_cursor.or(self.current()).map(|evaluation| evaluation.interval.at())
    }

    /// `v`: begins a span at the displayed interval, or ends it.
    pub(super) fn toggle_span(&mut self) -> Effect {
        if self.playback.span.is_some() {
            return self.end_span();
        }
        let Some(evaluation) = &self.playback.current else { return Effect::Nothing };
        let (from, to) = (evaluation.interval.older.at, evaluation.interval.at());
        self.playback.span = Some(Span { from, to, intervals: 1, cursor: None });
        self.playback.paused = true;
        self.notify(Notice::new("span: [ ] { } ← → extend it, w saves it, Esc ends it"));
        Effect::BeginSpan
    }

    /// Returns to the interval at the cursor.
    pub(super) fn end_span(&mut self) -> Effect {
        self.playback.end_span();
        self.rebuild_rows();
        Effect::EndSpan
    }

    /// Displays the figures of the span, and all findings of its time.
    pub(super) fn show_span(&mut self, interval: Arc<Interval>, intervals: u64) {
        if self.playback.span.is_none() {
            return;
        }
        self.playback.restore_cursor();
        let Some(cursor) = self.playback.current.take() else { return };
        let (from, to) = (interval.older.at, interval.at());
        let mut shown = Evaluation { ended: Vec::new(), ..cursor.clone() };
        // One interval has its own waits and findings.
        if intervals > 1 {
            let during = self.finding_history.during(from, to).into_iter();
            // They are those of the span, whenever they were last shown in it.
            shown.active = during.map(|finding| Finding { figures_at: to, ..finding }).collect::<Vec<_>>().into();
            shown.latency_statuses = shown.latency_statuses.iter().map(|status| status.over(&interval)).collect();
            shown.interval = interval;
        }
        self.playback.current = Some(shown);
        self.playback.span = Some(Span { from, to, intervals, cursor: Some(cursor) });
        self.rebuild_rows();
    }
}
