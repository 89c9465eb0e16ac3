//! A span of time from an anchor to the interval on the screen: its figures, and saving it as a recording.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::checkpoints::IndexedSamples;
use super::file_input::FileInput;
use super::live_input::LiveInput;
use super::store::Store;
use super::{Position, Timeline};
use crate::app::recorder;
use crate::interval::{Interval, IntervalContext};
use crate::recording::{RecordingError, Replayer};
use crate::state::{Event, Notice};

impl Timeline {
    /// Begins a span with the interval on the screen.
    pub(super) fn begin_span(&mut self) -> Vec<Event> {
        let Some(at) = self.shown_index() else { return Vec::new() };
        self.position = Position::At(at);
        if let Some(playback) = self.store.playback_mut() {
            playback.set_paused(true);
        }
        self.span_anchor = Some(at);
        self.span_event().into_iter().collect()
    }

    /// The intervals of the span, by the sample that ends each; older ones may have left the memory.
    pub(super) fn span_indices(&self) -> Option<RangeInclusive<u64>> {
        let first = self.store.indices().start + 1;
        let (anchor, at) = (self.span_anchor?.max(first), self.shown_index()?.max(first));
        Some(anchor.min(at)..=anchor.max(at))
    }

    /// Whether the span may be extended to that sample: counters of two boots cannot be subtracted.
    pub(super) fn leaves_boot(&self, to: u64) -> bool {
        let host = |index: u64| self.store.host(index);
        self.span_anchor.is_some_and(|anchor| !host(anchor).is_same_boot(&host(to)))
    }

    /// The figures between the first and the last sample of the span. `add_to_span` adds what ended in between.
    pub(super) fn span_event(&mut self) -> Option<Event> {
        let indices = self.span_indices()?;
        if let Some(interval) = self.known_span_totals(&indices) {
            return Some(Event::Span { interval, intervals: indices.end() - indices.start() + 1 });
        }
        let older = self.store.sample(indices.start() - 1)?;
        let newer = self.store.sample(*indices.end())?;
        let links = Arc::clone(&self.evaluation.rule_config().link_overrides);
        let context = IntervalContext { links, ..IntervalContext::default() };
        let mut interval = Interval::with_context(&self.store.host(*indices.end()), &older, &newer, context)?;
        // The sub-samples of the newer sample are those of its own interval.
        if indices.start() < indices.end() {
            let shares: Vec<f64> = indices.clone().filter_map(|index| self.store.blocked_share(index)).collect();
            let mean = (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64);
            interval.set_mean_blocked_ratio(mean);
        }
        Some(Event::Span { interval: Arc::new(interval), intervals: indices.end() - indices.start() + 1 })
    }

    /// Writes the samples of the span to a new recording, in the background.
    pub(super) fn save_span(&mut self) -> Vec<Event> {
        let Some(indices) = self.span_indices() else { return Vec::new() };
        let (first, last) = (indices.start() - 1, *indices.end());
        match &self.store {
            Store::File(FileInput { samples, path, .. }) => {
                let sequence = |index: u64| samples.replayer.sequence(usize::try_from(index).ok()?);
                let (Some(first), Some(last)) = (sequence(first), sequence(last)) else {
                    return Vec::new();
                };
                let name = recorder::saved_name(&samples.replayer.meta().host);
                let path = path.clone();
                let open = move || Replayer::open(&path);
                self.jobs.save_range(name, open, first..=last);
            }
            Store::Live(LiveInput { samples, pipeline, recorder, .. }) => {
                let oldest = self.evaluation.oldest_checkpoint().unwrap_or(pipeline.evaluator());
                let meta = recorder.meta();
                let mut bytes = Vec::new();
                // Of a recording of all samples in memory, whose sequence numbers begin at 0.
                let evicted = samples.ring.evicted();
                let sections = recorder::sections(oldest.baselines());
                if let Err(error) = samples.ring.write_to(&mut bytes, meta, &sections) {
                    return vec![Event::Notice(Notice::failure(error.to_string()))];
                }
                let name = recorder::saved_name(&meta.host);
                let open = move || -> Result<Replayer, RecordingError> { Replayer::from_bytes(bytes) };
                self.jobs.save_range(name, open, first.saturating_sub(evicted)..=last.saturating_sub(evicted));
            }
        }
        Vec::new()
    }
}
