//! Moves to another interval: by steps, to a time, to a finding, or because the recording is played.

use std::ops::Range;
use std::time::Duration;

use jiff::tz::TimeZone;
use tokio::time::Instant;

use super::checkpoints::IndexedSamples;
use super::store::Store;
use super::{Position, SampleSource, Timeline};
use crate::state::{self, Direction, Effect, Event, Notice};
use crate::units::time_spec::TimeSpec;

/// How long intervals are played before keys and frames have their turn.
const PLAYBACK_SLICE: Duration = Duration::from_millis(30);

/// Intervals from the start of a finding to the one in which it is raised, at most.
const MAX_INTERVALS_TO_RAISE: u64 = 4;

const NS_PER_SECOND: i64 = 1_000_000_000;

impl Timeline {
    /// Pause, speed and all moves in time.
    pub(super) fn navigate(&mut self, effect: Effect) -> Vec<Event> {
        if let Some(playback) = self.store.playback_mut() {
            playback.restart_at(Instant::now());
            // A move in time pauses, so that its interval stays on the screen.
            if !matches!(effect, Effect::Pause(_) | Effect::Speed(_)) {
                playback.set_paused(true);
            }
        }
        let Some(at) = self.shown_index() else { return Vec::new() };
        match effect {
            Effect::Step(by) => {
                self.seek(at.saturating_add_signed(by), if by < 0 { Direction::Back } else { Direction::Forward })
            }
            Effect::StepTime(seconds) => {
                let from = self.store.realtime_ns(at).unwrap_or_default();
                let to = from.saturating_add(seconds.saturating_mul(NS_PER_SECOND));
                let Some(to) = self.store.index_at_time(to) else { return Vec::new() };
                let to = if seconds > 0 { to.max(at + 1) } else { to.min(at.saturating_sub(1)) };
                self.seek(to, if seconds > 0 { Direction::Forward } else { Direction::Back })
            }
            // An interval ends with the first sample after the times in it.
            Effect::JumpTo(realtime_ns) => {
                self.store.index_at_time(realtime_ns).map(|index| self.seek(index + 1, Direction::Forward)).unwrap_or_default()
            }
            // A finding is raised after more than one interval that shows it.
            Effect::GoToFinding(since_ns) => {
                let Some(begin) = self.store.index_at_time(since_ns) else { return Vec::new() };
                let raised = self.finding_starts.next_after(begin).filter(|&raised| raised <= begin + MAX_INTERVALS_TO_RAISE);
                self.seek(raised.unwrap_or(begin + 1), Direction::Forward)
            }
            Effect::NextFinding => self.seek_to_finding(Direction::Forward),
            Effect::PreviousFinding => self.seek_to_finding(Direction::Back),
            Effect::BeginSpan => self.begin_span(),
            Effect::EndSpan => {
                (self.span_anchor, self.span_totals) = (None, None);
                Vec::new()
            }
            Effect::Pause(paused) => {
                (self.span_anchor, self.span_totals) = (None, None);
                match self.store.playback_mut() {
                    Some(playback) => playback.set_paused(paused),
                    None if paused => self.position = Position::At(at),
                    None => self.position = Position::Follow,
                }
                Vec::new()
            }
            Effect::Speed(speed) => {
                if let Some(playback) = self.store.playback_mut() {
                    playback.set_speed(speed);
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// Shows the interval that ends with this sample, or the nearest intact one in that direction.
    pub(super) fn seek(&mut self, to: u64, direction: Direction) -> Vec<Event> {
        let Range { start, end } = self.store.indices();
        // A single sample is no interval.
        let Some(newest) = end.checked_sub(1).filter(|&newest| newest > start) else { return Vec::new() };
        let mut to = to.clamp(start + 1, newest);
        if self.leaves_boot(to) {
            return vec![Event::Notice(Notice::failure("a span ends where the machine was rebooted: counters start again"))];
        }
        loop {
            if let Some(events) = self.show(to) {
                return events;
            }
            to = match direction {
                Direction::Forward => to + 1,
                Direction::Back => to - 1,
            };
            if to <= start || to >= end {
                return Vec::new();
            }
        }
    }

    /// Shows the start of the next finding, or of the previous one.
    fn seek_to_finding(&mut self, direction: Direction) -> Vec<Event> {
        let Some(at) = self.shown_index() else { return Vec::new() };
        let to = match direction {
            Direction::Forward => self.finding_starts.next_after(at),
            Direction::Back => self.finding_starts.last_before(at),
        };
        if let Some(to) = to {
            return self.seek(to, Direction::Forward);
        }
        let is_analyzed = match &self.store {
            Store::Live(_) => true,
            Store::File(file) => file.analysis.is_complete(),
        };
        vec![Event::Notice(Notice::new(match (direction, &self.store) {
            (Direction::Forward, _) if !is_analyzed => "no later finding so far: the recording is still being analyzed",
            (Direction::Forward, _) => "no later finding",
            (Direction::Back, Store::Live(_)) => "no earlier finding in memory",
            (Direction::Back, Store::File(_)) => "no earlier finding",
        }))]
    }

    /// The sample that ends the interval on the screen.
    pub(super) fn shown_index(&self) -> Option<u64> {
        match self.position {
            Position::At(index) => Some(index),
            Position::Follow => self.store.indices().end.checked_sub(1),
        }
    }

    /// Where the interval on the screen is among all.
    pub(super) fn position_event(&self) -> Option<Event> {
        let Range { start, end } = self.store.indices();
        let first = start + 1;
        Some(Event::Position(state::Position {
            index: usize::try_from(self.shown_index()?.saturating_sub(first)).ok()?,
            length: usize::try_from(end.saturating_sub(first)).ok()?,
            first: self.store.instant(first)?,
            last: self.store.instant(end.checked_sub(1)?)?,
        }))
    }

    /// Where a recording is opened: at the requested time, at the end of a growing one, else at its beginning.
    pub(super) fn start_index(&self, at: Option<TimeSpec>, zone: &TimeZone) -> u64 {
        let last = self.store.indices().end.saturating_sub(1);
        match (at, self.store.realtime_ns(0), self.store.realtime_ns(last)) {
            (Some(at), Some(first_ns), Some(last_ns)) => {
                let at = at.resolve(first_ns, last_ns, zone).and_then(|at| self.store.index_at_time(at));
                at.map_or(1, |index| index + 1)
            }
            _ if matches!(self.source, SampleSource::GrowingFile(_)) => last,
            _ => 1,
        }
    }

    /// When to show the next interval of the recording; `None` where none is to be shown by itself, or the displayed one is not exact
    /// yet.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let (playback, Position::At(shown)) = (self.store.playback()?, self.position) else { return None };
        if self.refinement.is_some() {
            return None;
        }
        let next = shown + 1;
        if next >= self.store.indices().end {
            return None;
        }
        playback.due(self.store.timestamp(shown)?, self.store.timestamp(next)?)
    }

    /// Shows the intervals that are due.
    pub(super) fn play(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let now = Instant::now();
        while let Some(due) = self.next_due().filter(|&due| due <= now) {
            let (Position::At(shown), Some(playback)) = (self.position, self.store.playback_mut()) else { break };
            let next = shown + 1;
            playback.restart_at(due);
            // At a speed that takes longer to evaluate than to play: as fast as possible.
            let is_late = now.elapsed() > PLAYBACK_SLICE;
            if is_late {
                playback.restart_at(Instant::now());
            }
            self.forget_other_boot(next);
            self.position = Position::At(next);
            let evaluation = self.evaluation.evaluation_at(&mut self.store, next);
            self.known_intervals.add(next..next + 1);
            events.extend(evaluation.map(Event::Evaluation));
            if is_late {
                break;
            }
        }
        events.extend(self.position_event());
        let at_end = self.next_due().is_none() && self.shown_index().is_some_and(|shown| shown + 1 >= self.store.indices().end);
        let is_growing = matches!(self.source, SampleSource::GrowingFile(_));
        if let Some(playback) = self.store.playback_mut()
            && at_end
            && !is_growing
            && playback.reach_end()
        {
            events.push(Event::SourceEnded(None));
        }
        events
    }
}
