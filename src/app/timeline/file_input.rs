//! What arrives while a recording is open: the results of its analysis, and new samples if it is still being written.

use tokio::time::Instant;

use super::background_analysis::{BackgroundAnalysis, Batch};
use super::recording_samples::RecordingSamples;
use super::sample_source::SampleSource;
use super::store::Store;
use super::{Position, Timeline};
use crate::state::{Event, Notice};

impl Timeline {
    pub(super) fn queue_opening_events(&mut self) {
        let problem = self.recording().and_then(RecordingSamples::problem);
        self.queued_events.extend(problem.map(|text| Event::Notice(Notice::failure(text))));
        self.queued_events.push(Event::Marks(self.store.marks()));
        let ticks = self.analysis.as_ref().map(BackgroundAnalysis::timeline_ticks).filter(|ticks| !ticks.is_empty());
        self.queued_events.extend(ticks.map(Event::Timeline));
    }

    /// The results of the analysis so far.
    pub(super) fn add_analysis(&mut self, mut batch: Batch) -> Vec<Event> {
        let (Store::File(samples), Some(analysis)) = (&mut self.store, &mut self.analysis) else { return Vec::new() };
        let mut events = analysis.add(&mut batch);
        if let Some(damage) = batch.damage {
            samples.add_damage(damage);
            events.extend(samples.problem().map(|text| Event::Notice(Notice::failure(text))));
        }
        let was_exact = self.evaluation.is_exact();
        self.evaluation.extend(batch.until, batch.checkpoints);
        self.finding_starts.append(batch.finding_starts);
        // The interval on the screen was evaluated ahead of the analysis: it may know less.
        if let Position::At(index) = self.position
            && !was_exact
            && index < batch.until
        {
            events.extend(self.seek(index, true));
        }
        events
    }

    /// Checks whether a growing recording has new samples.
    pub(super) fn poll_growth(&mut self) -> Vec<Event> {
        let Store::File(samples) = &mut self.store else { return Vec::new() };
        let growth = match samples.replayer.refresh() {
            Ok(growth) if growth.new_samples > 0 || !growth.growing => growth,
            Ok(_) => return Vec::new(),
            Err(error) => {
                self.source = SampleSource::Closed;
                return vec![Event::SourceEnded(Some(error.to_string()))];
            }
        };
        if let Some(analysis) = &mut self.analysis {
            analysis.refresh();
        }
        let mut events = vec![Event::Marks(self.store.marks())];
        events.extend(self.position_event());
        let due = self.next_due();
        if let (Some(playback), Some(due)) = (&mut self.playback, due) {
            playback.skip_wait(due, Instant::now());
        }
        if !growth.growing {
            self.source = SampleSource::Closed;
            if due.is_none() && self.playback.as_ref().is_some_and(|playback| !playback.paused) {
                events.push(Event::SourceEnded(None));
            }
        }
        events
    }
}
