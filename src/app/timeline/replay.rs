//! A recording in a file: played, stepped through, jumped in, followed while it grows. A position is a number; going
//! back is subtraction.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::background_analysis::BackgroundAnalysis;
use super::checkpoints::{CheckpointedEvaluation, IndexedSamples};
use super::recording_samples::RecordingSamples;
use super::tick_preview::TickPreview;
use crate::app::config::Settings;
use crate::app::program::exit::{Exit, Failure};
use crate::app::recording;
use crate::app::recording::time_range;
use crate::cli;
use crate::findings::Evaluator;
use crate::recording::{Replayer, Tail};
use crate::report::formatting::pluralize;
use crate::state::{Effect, Event, Notice, Position, time_spec};

/// The survey works for so long before keys and frames have their turn.
const ANALYSIS_SLICE: Duration = Duration::from_millis(8);
/// How often it tells how far it is.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(400);
/// How often a growing file is looked at.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(400);
/// How long playing may work before frames have their turn.
const PLAYBACK_SLICE: Duration = Duration::from_millis(30);
/// A silence in the recording is played as no longer than this.
const MAX_PLAYBACK_GAP: Duration = Duration::from_secs(3);
/// So far beyond the survey a jump does not wait for it.
const MAX_WAIT_FOR_ANALYSIS: u64 = 600;
/// Intervals that lead to one that was gone to, for the graphs.
const GRAPH_LEAD_INTERVALS: u64 = 60;

pub struct Replay {
    samples: RecordingSamples,
    checkpoints: CheckpointedEvaluation,
    analysis: BackgroundAnalysis,
    /// Shown until the survey comes by
    preview: TickPreview,
    last_progress: Instant,
    last_poll: Instant,
    /// The sample that ends the interval shown
    shown_index: u64,
    /// Shown before the survey came by: to be shown again when it has
    approximate: bool,
    paused: bool,
    speed: f64,
    /// When the interval shown was due
    shown_since: Instant,
    end_reported: bool,
    queued_events: Vec<Event>,
}

impl Replay {
    /// Opens the file and goes to where it shall begin.
    pub fn open(options: &cli::Replay, zone: &jiff::tz::TimeZone, settings: &Settings) -> Result<Replay, Failure> {
        let &cli::Replay { ref file, at, range: ref part, speed, .. } = options;
        let mut replayer = Replayer::open(file).map_err(recording::failure)?;
        time_range::narrow(&mut replayer, part, file, zone)?;
        if replayer.len() < 2 && !replayer.is_growing() {
            let why = format!("it holds {} of the two samples that make an interval", replayer.len());
            return Err(Failure::new(
                Exit::Damaged,
                format!("cannot replay {}", crate::app::program::exit::quoted(file)),
                why,
                "",
            ));
        }
        let host = Arc::new(replayer.meta().host.clone());
        let baselines = recording::baselines(replayer.section(recording::baselines_section()));
        let survey = BackgroundAnalysis::new(
            Arc::clone(&host),
            Evaluator::new(baselines).with_rule_config(settings.rule_config_for(&host)),
        );
        let now = Instant::now();
        let mut replay = Replay {
            shown_index: 1,
            checkpoints: CheckpointedEvaluation::default(),
            analysis: survey,
            preview: TickPreview::default(),
            samples: RecordingSamples { replayer },
            last_progress: now,
            last_poll: now,
            approximate: false,
            paused: false,
            speed,
            shown_since: now,
            end_reported: false,
            queued_events: Vec::new(),
        };
        replay.queued_events.extend(replay.damage_line().map(|text| Event::Notice(Notice::failure(text))));
        replay.queued_events.push(Event::Marks(replay.samples.marks()));
        replay.preview = TickPreview::new(replay.samples.ticks_from_summaries());
        let strip = replay.analysis.timeline_ticks(&replay.preview);
        if !strip.is_empty() {
            replay.queued_events.push(Event::Timeline(strip));
        }
        let start = replay.start_index(at, zone);
        let shown = replay.seek(start, true);
        replay.queued_events.extend(shown);
        Ok(replay)
    }

    /// Has something be told as soon as there is a screen.
    pub fn queue_notices(&mut self, lines: Vec<String>) {
        self.queued_events.extend(lines.into_iter().map(|line| Event::Notice(Notice::failure(line))));
    }

    /// The nominal time between its samples.
    pub fn interval(&self) -> Duration {
        self.samples.replayer.meta().interval
    }

    pub async fn next(&mut self) -> Vec<Event> {
        loop {
            if !self.queued_events.is_empty() {
                return std::mem::take(&mut self.queued_events);
            }
            let now = Instant::now();
            let due = self.next_due();
            if due.is_some_and(|due| due <= now) {
                self.play(now);
                continue;
            }
            let end = self.samples.indices().end;
            if self.preview.is_needed(self.analysis.next_index(), end) {
                yield_now().await;
                self.advance_preview();
                continue;
            }
            if self.analysis.next_index() < end {
                yield_now().await;
                self.advance_analysis();
                continue;
            }
            let look = self.samples.replayer.is_growing().then(|| self.last_poll + FILE_POLL_INTERVAL);
            if look.is_some_and(|look| look <= now) {
                self.poll_growth(now);
                continue;
            }
            match [due, look].into_iter().flatten().min() {
                Some(when) => sleep_until(when).await,
                None => pending().await,
            }
        }
    }

    pub fn act(&mut self, effect: Effect) -> Vec<Event> {
        let moves = matches!(
            effect,
            Effect::Step(_) | Effect::StepTime(_) | Effect::JumpTo(_) | Effect::NextFinding | Effect::PreviousFinding
        );
        self.paused |= moves;
        self.shown_since = Instant::now();
        match effect {
            Effect::Step(by) => self.seek(self.shown_index.saturating_add_signed(by), by >= 0),
            Effect::StepTime(seconds) => {
                let from = self.samples.realtime_ns(self.shown_index).unwrap_or_default();
                let to = self.samples.index_at_time(from.saturating_add(seconds.saturating_mul(1_000_000_000)));
                let to = if seconds > 0 { to.max(self.shown_index + 1) } else { to.min(self.shown_index.saturating_sub(1)) };
                self.seek(to, seconds > 0)
            }
            Effect::JumpTo(realtime_ns) => self.seek(self.samples.index_at_time(realtime_ns) + 1, true),
            Effect::NextFinding => self.seek_to_finding(true),
            Effect::PreviousFinding => self.seek_to_finding(false),
            Effect::Pause(paused) => {
                self.paused = paused;
                Vec::new()
            }
            Effect::Speed(speed) => {
                self.speed = speed;
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// A damaged recording is told at the end too, when the screen is gone.
    pub fn close(self) -> Option<Failure> {
        let damage = self.samples.replayer.damage();
        let lost = damage.iter().map(|damage| damage.lost_samples).fold(0, u64::saturating_add);
        let first = damage.first()?;
        if let Some(unreadable) = self.samples.replayer.unreadable().first() {
            let what = format!("the recording is not whole: {}", unreadable.reason);
            return Some(Failure::new(Exit::Damaged, what, "", "everything sound was shown; 'stalltop info' tells more"));
        }
        let what = format!("the recording is damaged at byte {}", first.bytes.start);
        let (places, lost) = (pluralize(damage.len() as u64, "place"), pluralize(lost, "sample"));
        let why = format!("{} ({places}, {lost} lost)", first.kind);
        Some(Failure::new(Exit::Damaged, what, why, "everything sound was shown; 'stalltop info --verify' tells more"))
    }

    fn start_index(&self, at: Option<time_spec::TimeSpec>, zone: &jiff::tz::TimeZone) -> u64 {
        let last = self.samples.indices().end.saturating_sub(1);
        match (at, self.samples.realtime_ns(0), self.samples.realtime_ns(last)) {
            (Some(at), Some(first_ns), Some(last_ns)) => {
                at.resolve(first_ns, last_ns, zone).map_or(1, |at| self.samples.index_at_time(at) + 1)
            }
            // One that is still being written is watched as it grows.
            _ if self.samples.replayer.is_growing() => last,
            _ => 1,
        }
    }

    /// What is not as it should be, in a line.
    fn damage_line(&self) -> Option<String> {
        let replayer = &self.samples.replayer;
        let damage = replayer.damage();
        if let Some(first) = damage.first() {
            if let Some(unreadable) = replayer.unreadable().first() {
                return Some(format!("not whole: {}", unreadable.reason));
            }
            let places = pluralize(damage.len() as u64, "place");
            return Some(format!("damaged in {places}, first at byte {}: {}", first.bytes.start, first.kind));
        }
        match replayer.tail() {
            Tail::Torn { offset, .. } => {
                Some(format!("the last frame, at byte {offset}, is incomplete: the recorder was stopped"))
            }
            Tail::Unfinished => Some("the recorder was stopped without an end: all that it wrote is here".to_owned()),
            Tail::Closed | Tail::Growing => None,
        }
    }

    /// Shows the interval that ends with this sample, or the nearest sound one in that direction.
    fn seek(&mut self, to: u64, forward: bool) -> Vec<Event> {
        let end = self.samples.indices().end;
        let mut to = to.clamp(1, end.saturating_sub(1).max(1));
        // Before the survey has begun nobody knows more than a guess would.
        self.approximate = self.analysis.next_index() == 0 || to > self.analysis.next_index() + MAX_WAIT_FOR_ANALYSIS;
        self.start_without_checkpoint(to);
        // Those that lead to it first: whoever goes back behind a guess begins where the survey is, hours before it may be.
        let first = to.saturating_sub(GRAPH_LEAD_INTERVALS).max(1);
        let leading = if self.shown_index + 1 == to { to..to } else { first..to };
        let before = self.checkpoints.evaluate_range(&mut self.samples, leading);
        let shown = loop {
            if let Some(judged) = self.checkpoints.evaluation_at(&mut self.samples, to) {
                break judged;
            }
            to = if forward { to + 1 } else { to.saturating_sub(1) };
            if to == 0 || to >= end {
                return Vec::new();
            }
            if !forward {
                self.start_without_checkpoint(to);
            }
        };
        let before = before.into_iter().filter(|(number, _)| *number < to).map(|(_, judged)| judged).collect();
        self.shown_index = to;
        self.end_reported = false;
        let mut events = vec![Event::SeekCompleted { evaluation: shown, preceding: before }];
        events.extend(self.position());
        events
    }

    /// Where the survey has not come by, what leads to that sample is judged by somebody who knows nothing of before.
    fn start_without_checkpoint(&mut self, to: u64) {
        if self.approximate {
            self.checkpoints.start_without_checkpoint(
                &mut self.samples,
                to.saturating_sub(2 * GRAPH_LEAD_INTERVALS),
                self.analysis.evaluator(),
            );
        }
    }

    fn seek_to_finding(&mut self, forward: bool) -> Vec<Event> {
        let places = self.analysis.finding_starts();
        let to = match forward {
            true => places.iter().copied().find(|&place| place > self.shown_index),
            false => places.iter().copied().rev().find(|&place| place < self.shown_index),
        };
        match to {
            Some(to) => self.seek(to, true),
            None if forward && self.analysis.next_index() < self.samples.indices().end => {
                vec![Event::Notice(Notice::new("no later finding so far: the recording is still being read"))]
            }
            None => vec![Event::Notice(Notice::new(if forward { "no later finding" } else { "no earlier finding" }))],
        }
    }

    fn position(&self) -> Option<Event> {
        let last = self.samples.indices().end.checked_sub(1)?;
        Some(Event::Position(Position {
            index: usize::try_from(self.shown_index.checked_sub(1)?).ok()?,
            length: usize::try_from(last).ok()?,
            first: self.samples.instant(1)?,
            last: self.samples.instant(last)?,
        }))
    }

    /// When the next interval is due; `None` while nothing is played.
    fn next_due(&self) -> Option<Instant> {
        let next = self.shown_index + 1;
        if self.paused || next >= self.samples.indices().end {
            return None;
        }
        let (shown, next) = (self.samples.timestamp(self.shown_index)?, self.samples.timestamp(next)?);
        let apart = Duration::from_nanos(next.boottime_ns.saturating_sub(shown.boottime_ns));
        let apart = apart.min(MAX_PLAYBACK_GAP.max(self.interval() * 2));
        Some(self.shown_since + apart.div_f64(self.speed.max(0.001)))
    }

    fn play(&mut self, now: Instant) {
        while let Some(due) = self.next_due().filter(|&due| due <= now) {
            self.shown_index += 1;
            self.shown_since = due;
            let judged = self.checkpoints.evaluation_at(&mut self.samples, self.shown_index);
            self.queued_events.extend(judged.map(Event::Evaluation));
            if now.elapsed() > PLAYBACK_SLICE {
                // Faster than can be judged: as fast as it goes.
                self.shown_since = Instant::now();
                break;
            }
        }
        self.queued_events.extend(self.position());
        let over = self.shown_index + 1 >= self.samples.indices().end && !self.samples.replayer.is_growing();
        if over && !self.end_reported {
            self.end_reported = true;
            self.queued_events.push(Event::SourceEnded(None));
        }
    }

    fn advance_preview(&mut self) {
        let Replay { preview: forecast, analysis: survey, samples, .. } = self;
        let notes = samples.annotations(survey.next_index());
        if !forecast.advance(samples, survey.evaluator(), ANALYSIS_SLICE, |number| notes.before(number)) {
            self.queued_events.push(Event::Timeline(survey.timeline_ticks(forecast)));
        }
    }

    fn advance_analysis(&mut self) {
        let damage = self.samples.replayer.damage().len();
        let Replay { analysis: survey, checkpoints: course, samples, .. } = self;
        let notes = samples.annotations(survey.next_index());
        let more = survey.advance(samples, course, ANALYSIS_SLICE, |number| notes.before(number));
        if self.last_progress.elapsed() >= PROGRESS_INTERVAL || !more {
            self.last_progress = Instant::now();
            if let Some((strip, findings)) = self.analysis.take_update(&self.preview) {
                self.queued_events.extend([Event::Timeline(strip), Event::Findings(findings)]);
            }
        }
        if self.samples.replayer.damage().len() > damage {
            self.queued_events.extend(self.damage_line().map(|text| Event::Notice(Notice::failure(text))));
        }
        if !more {
            self.preview = TickPreview::default();
        }
        if self.approximate && self.analysis.next_index() > self.shown_index {
            self.checkpoints.reset_cursor();
            let shown = self.seek(self.shown_index, true);
            self.queued_events.extend(shown);
        }
    }

    fn poll_growth(&mut self, now: Instant) {
        self.last_poll = now;
        match self.samples.replayer.refresh() {
            Ok(growth) if growth.new_samples > 0 || !growth.growing => {
                self.queued_events.push(Event::Marks(self.samples.marks()));
                self.queued_events.extend(self.position());
                // It had reached the end and waited: what is new is due now, not in arrears.
                if self.next_due().is_some_and(|due| due + MAX_PLAYBACK_GAP < now) {
                    self.shown_since = now;
                }
                if !growth.growing && self.next_due().is_none() && !self.paused {
                    self.queued_events.push(Event::SourceEnded(None));
                }
            }
            Ok(_) => {}
            Err(error) => self.queued_events.push(Event::SourceEnded(Some(error.to_string()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::app::timeline::synthetic::{Made, host};
    use crate::recording::{FrameSummary, Recorder, RecorderOptions, Redaction, SummarySeverity};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn open(path: &Path) -> Replay {
        let at_usual = cli::Replay {
            file: path.to_owned(),
            at: None,
            range: cli::time_range::TimeRange::default(),
            speed: 1.0,
            appearance: cli::Appearance::default(),
        };
        Replay::open(&at_usual, &jiff::tz::TimeZone::UTC, &Settings::default()).unwrap()
    }

    /// The ticks of the first strip that covers so many samples, and how far the survey was by then.
    async fn strip(replay: &mut Replay, samples: u64) -> (usize, u64) {
        loop {
            for event in replay.next().await {
                match event {
                    Event::Timeline(strip) if strip.last().is_some_and(|tick| tick.realtime_ns == second(samples)) => {
                        return (strip.len(), replay.analysis.next_index());
                    }
                    _ => {}
                }
            }
        }
    }

    fn second(samples: u64) -> i64 {
        i64::try_from(samples * 1_000_000_000).unwrap()
    }

    /// Of a recording that is not closed the last samples, 60 of these 300, have no digest.
    #[tokio::test]
    async fn the_strip_is_whole_before_all_was_judged_though_nobody_closed_the_recording() {
        let folder = tempfile::tempdir().unwrap();
        let (growing, killed) = (folder.path().join("growing.stalltop"), folder.path().join("killed.stalltop"));
        let meta = recording::meta(&host("first"), Duration::from_secs(1), Redaction::Nothing);
        let options = RecorderOptions { queue_capacity: 400, ..RecorderOptions::default() };
        let mut recorder = Recorder::create(&growing, &meta, options).unwrap();
        let mut samples = Made::new(None, 400);
        let mut record = |from: u64, to: u64| {
            for number in from..to {
                // The first one ends no interval.
                let worst = if number == 0 { SummarySeverity::NotEvaluated } else { SummarySeverity::NoFinding };
                recorder.offer_with_summary(
                    samples.sample(number).unwrap(),
                    FrameSummary { worst_severity: worst, ..FrameSummary::default() },
                );
            }
            let begun = std::time::Instant::now();
            while Replayer::open(&growing).map_or(0, |replayer| replayer.len() as u64) < to {
                assert!(begun.elapsed() < PATIENCE, "it is not written");
                std::thread::yield_now();
            }
        };
        record(0, 300);
        fs::copy(&growing, &killed).unwrap();
        for (path, is_growing) in [(&killed, false), (&growing, true)] {
            let mut replay = open(path);
            assert_eq!(replay.samples.replayer.is_growing(), is_growing);
            let foretold = replay.preview.ticks_from(0).len();
            assert_eq!(foretold, 239, "the recorder told of two key groups");
            assert_eq!(strip(&mut replay, 300).await, (299, 0), "growing: {is_growing}");
        }
        // What comes while the survey is far from it is there at once too.
        let mut replay = open(&growing);
        record(300, 310);
        replay.poll_growth(Instant::now());
        assert_eq!(strip(&mut replay, 310).await, (309, 0));
        recorder.finish(PATIENCE);
    }
}
