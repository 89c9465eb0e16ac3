//! A recording, and what arrives while it is open: the results of its analysis, and new samples if it is still being written.

use std::path::PathBuf;

use tokio::time::Instant;

use super::background_analysis::{BackgroundAnalysis, Batch};
use super::playback::PlaybackTimer;
use super::recording_samples::RecordingSamples;
use super::sample_source::SampleSource;
use super::store::Store;
use super::{Position, Timeline};
use crate::state::{Direction, Event, Notice};

pub struct FileInput {
    pub samples: RecordingSamples,
    pub playback: PlaybackTimer,
    /// Evaluates all samples in the background
    pub analysis: BackgroundAnalysis,
    pub path: PathBuf,
}

impl Timeline {
    pub(super) fn queue_opening_events(&mut self) {
        let Store::File(file) = &self.store else { return };
        let problem = file.samples.problem();
        self.queued_events.extend(problem.map(|text| Event::Notice(Notice::failure(text))));
        self.queued_events.push(Event::Marks(self.store.marks()));
        let ticks = file.analysis.timeline_ticks();
        self.queued_events.extend((!ticks.is_empty()).then_some(Event::Timeline(ticks)));
    }

    /// The results of the analysis so far.
    pub(super) fn add_analysis(&mut self, mut batch: Batch) -> Vec<Event> {
        let Store::File(file) = &mut self.store else { return Vec::new() };
        let mut events = file.analysis.add(&mut batch);
        if let Some(damage) = batch.damage {
            file.samples.add_damage(damage);
            events.extend(file.samples.problem().map(|text| Event::Notice(Notice::failure(text))));
        }
        let was_exact = self.evaluation.is_exact();
        self.evaluation.extend(batch.until, batch.checkpoints);
        self.finding_starts.append(batch.finding_starts);
        // The interval on the screen was evaluated ahead of the analysis: it may know less.
        if let Position::At(index) = self.position
            && !was_exact
            && index < batch.until
        {
            events.extend(self.seek(index, Direction::Forward));
        }
        events
    }

    /// Checks whether a growing recording has new samples.
    pub(super) fn poll_growth(&mut self) -> Vec<Event> {
        let Store::File(file) = &mut self.store else { return Vec::new() };
        let growth = match file.samples.replayer.refresh() {
            Ok(growth) if growth.new_samples > 0 || !growth.growing => growth,
            Ok(_) => return Vec::new(),
            Err(error) => {
                self.source = SampleSource::Closed;
                return vec![Event::SourceEnded(Some(error.to_string()))];
            }
        };
        file.analysis.refresh();
        let mut events = vec![Event::Marks(self.store.marks())];
        events.extend(self.position_event());
        let due = self.next_due();
        if let (Some(playback), Some(due)) = (self.store.playback_mut(), due) {
            playback.skip_wait(due, Instant::now());
        }
        if !growth.growing {
            self.source = SampleSource::Closed;
            if due.is_none() && self.store.playback().is_some_and(|playback| !playback.is_paused()) {
                events.push(Event::SourceEnded(None));
            }
        }
        events
    }
}
