//! The displayed interval: the newest one, or the one to which the user went. Seeking, pausing, and the playback speed; in live mode
//! the sampling interval.

use super::event::Effect;
use super::history::IntervalSummary;
use super::notice::Notice;
use super::rows::Item;
use super::span::Span;
use super::{SourceStatus, State};
use crate::findings::Evaluation;
use crate::sample::Instant;

/// Sampling intervals of `+` and `-` in milliseconds.
const INTERVAL_STEPS_MS: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000];
/// Replay speeds of `+` and `-`, as multiples of real time.
const PLAYBACK_SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The displayed interval, and whether and how fast others follow.
#[derive(Clone, Debug)]
pub struct Playback {
    /// The displayed interval; `None` before the first one
    pub(super) current: Option<Evaluation>,
    /// Live: the newest interval, while an older one is displayed
    pub newest: Option<Evaluation>,
    /// The displayed span, if one was begun
    pub span: Option<Span>,
    /// The displayed interval is still being evaluated: its findings may be incomplete
    pub is_provisional: bool,
    pub paused: bool,
    /// Replay speed; 1.0 is real time
    pub speed: f64,
}

impl Default for Playback {
    fn default() -> Playback {
        Playback { current: None, newest: None, span: None, is_provisional: false, paused: false, speed: 1.0 }
    }
}

impl Playback {
    fn show(&mut self, evaluation: Evaluation, is_provisional: bool) {
        self.is_provisional = is_provisional;
        self.current = Some(evaluation);
    }

    /// Keeps the newest interval while this older one is displayed.
    fn keep_newest(&mut self, shown: &Evaluation) {
        let newest = self.newest.take().or_else(|| self.current.take());
        self.newest = newest.filter(|newest| newest.interval.at() > shown.interval.at());
    }
}

impl State {
    /// The displayed interval; `None` before the first one.
    pub fn current(&self) -> Option<&Evaluation> {
        self.playback.current.as_ref()
    }

    /// The end of the displayed interval.
    pub fn shown_at(&self) -> Option<Instant> {
        self.current().map(|evaluation| evaluation.interval.at())
    }

    /// Whether the newest interval is displayed, and each one that follows.
    pub fn shows_newest(&self) -> bool {
        self.capabilities().follows_newest && !self.playback.paused
    }

    /// The next interval in time order.
    pub(super) fn append_evaluation(&mut self, evaluation: Evaluation) {
        self.add_to_history(&evaluation);
        self.arrival.waiting_since = None;
        self.age_notice();
        if self.capabilities().follows_newest && self.playback.paused && self.current().is_some() {
            self.playback.newest = Some(evaluation);
            return;
        }
        self.playback.newest = None;
        self.playback.show(evaluation, false);
        self.hold_groups();
        self.hold_hot_threads();
        self.rebuild_rows();
    }

    fn add_to_history(&mut self, evaluation: &Evaluation) {
        let boot_id = |evaluation: &Evaluation| evaluation.interval.host.boot_id.clone();
        if self.current().is_some_and(|current| boot_id(current) != boot_id(evaluation)) {
            self.graphs.history.clear();
        }
        self.graphs.history.insert(IntervalSummary::from_evaluation(evaluation, self.followed_task()));
        self.finding_history.add_evaluation(evaluation);
    }

    /// Displays another interval than the newest.
    pub(super) fn complete_seek(&mut self, evaluation: Evaluation, preceding: &[Evaluation]) {
        for earlier in preceding {
            self.graphs.history.insert(IntervalSummary::from_evaluation(earlier, self.followed_task()));
        }
        self.leave_newest(&evaluation);
        self.add_to_history(&evaluation);
        self.playback.show(evaluation, false);
        self.rebuild_rows();
    }

    /// The same before its findings have been evaluated: those that are known of its time are shown.
    pub(super) fn start_seek(&mut self, mut evaluation: Evaluation) {
        self.leave_newest(&evaluation);
        let at = evaluation.interval.at();
        evaluation.active = self.finding_history.during(at, at).into();
        self.playback.show(evaluation, true);
        self.rebuild_rows();
    }

    /// Before this interval is displayed in place of the newest.
    fn leave_newest(&mut self, shown: &Evaluation) {
        self.playback.restore_cursor();
        if self.capabilities().follows_newest {
            self.playback.paused = true;
            self.playback.keep_newest(shown);
        } else {
            self.arrival.status = SourceStatus::Open;
        }
    }

    /// Returns the effect, unless it leads beyond the newest sample. Pauses a replay; live the interval to which it leads pauses.
    pub(super) fn seek(&mut self, effect: Effect) -> Effect {
        if self.current().is_none() {
            return Effect::Nothing;
        }
        let forward = matches!(effect, Effect::Step(1..) | Effect::StepTime(1..) | Effect::NextFinding);
        if forward && self.shows_newest() {
            self.notify(Notice::new("this is the newest sample: [ { and N go back"));
            return Effect::Redraw;
        }
        self.playback.paused |= !self.capabilities().follows_newest;
        effect
    }

    /// Seeks to the next mark; after the last one to the first.
    pub(super) fn seek_next_mark(&mut self) -> Effect {
        let here = self.shown_at().map_or(i64::MIN, |at| at.realtime_ns);
        let Some(next) = self.timeline.next_mark(here).cloned() else {
            self.notify(Notice::new(match self.capabilities().follows_newest {
                true => "no marks yet: set one with m, or with 'stalltop mark TEXT' in another shell",
                false => "this recording has no marks",
            }));
            return Effect::Redraw;
        };
        self.notify(Notice::new(format!("mark: {}", next.text)));
        self.seek(Effect::JumpTo(next.realtime_ns))
    }

    /// Seeks to the start of the finding that is open or selected.
    pub(super) fn seek_finding_start(&mut self) -> Effect {
        match self.open_or_selected_item() {
            Some(Item::Finding { since, .. }) => {
                self.details = None;
                self.seek(Effect::GoToFinding(since.realtime_ns))
            }
            _ => Effect::Nothing,
        }
    }

    pub(super) fn toggle_pause(&mut self) -> Effect {
        self.playback.end_span();
        self.playback.paused = !self.playback.paused;
        if !self.playback.paused
            && let Some(newest) = self.playback.newest.take()
        {
            self.playback.show(newest, false);
            self.rebuild_rows();
        }
        Effect::Pause(self.playback.paused)
    }

    /// `+`: a longer sampling interval, or a faster replay.
    pub(super) fn increase_interval_or_speed(&mut self) -> Effect {
        let (interval_ms, speed) = (self.setup.interval_ms, self.playback.speed);
        self.set_interval_or_speed(
            INTERVAL_STEPS_MS.into_iter().find(|&step| step > interval_ms),
            PLAYBACK_SPEEDS.into_iter().find(|&step| step > speed * 1.001),
        )
    }

    /// `-`: a shorter sampling interval, or a slower replay.
    pub(super) fn decrease_interval_or_speed(&mut self) -> Effect {
        let (interval_ms, speed) = (self.setup.interval_ms, self.playback.speed);
        self.set_interval_or_speed(
            INTERVAL_STEPS_MS.into_iter().rev().find(|&step| step < interval_ms),
            PLAYBACK_SPEEDS.into_iter().rev().find(|&step| step < speed * 0.999),
        )
    }

    fn set_interval_or_speed(&mut self, interval_ms: Option<u64>, speed: Option<f64>) -> Effect {
        let capabilities = self.capabilities();
        match (interval_ms, speed) {
            (Some(interval_ms), _) if capabilities.set_interval => {
                self.setup.interval_ms = interval_ms;
                Effect::ChangeInterval(interval_ms)
            }
            (_, Some(speed)) if capabilities.set_speed => {
                self.playback.speed = speed;
                Effect::Speed(speed)
            }
            _ => Effect::Nothing,
        }
    }
}
