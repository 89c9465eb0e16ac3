//! Seeking, pausing, and the playback speed; in live mode the sampling interval.

use super::event::{Effect, Notice};
use super::history::IntervalSummary;
use super::rows::Item;
use super::{SourceStatus, State};
use crate::findings::Evaluation;

/// Sampling intervals of `+` and `-` in milliseconds.
const INTERVAL_STEPS_MS: [u64; 13] =
    [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000];
/// Replay speeds of `+` and `-`, as multiples of real time.
const PLAYBACK_SPEEDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0];

impl State {
    /// Displays another interval than the newest.
    pub(super) fn complete_seek(&mut self, evaluation: Evaluation, preceding: &[Evaluation]) {
        for earlier in preceding {
            self.history.insert(IntervalSummary::from_evaluation(earlier, self.followed_task()));
        }
        self.keep_newest(&evaluation);
        self.add_to_history(&evaluation);
        self.is_provisional = false;
        self.current = Some(evaluation);
        self.rebuild_rows();
    }

    /// The same before its findings have been evaluated: those that are known of its time are shown.
    pub(super) fn start_seek(&mut self, mut evaluation: Evaluation) {
        self.keep_newest(&evaluation);
        let at = evaluation.interval.at();
        evaluation.active = self.finding_history.during(at, at).into();
        self.is_provisional = true;
        self.current = Some(evaluation);
        self.rebuild_rows();
    }

    /// Live: keeps the newest interval while an older one is displayed.
    fn keep_newest(&mut self, shown: &Evaluation) {
        self.restore_cursor();
        if self.capabilities().follows_newest {
            let newest = self.newest.take().or_else(|| self.current.take());
            self.newest = newest.filter(|newest| newest.interval.at() > shown.interval.at());
        } else {
            self.source_status = SourceStatus::Open;
        }
    }

    /// Pauses and returns the effect, unless it leads beyond the newest sample.
    pub(super) fn seek(&mut self, effect: Effect) -> Effect {
        if self.current.is_none() {
            return Effect::Nothing;
        }
        let forward = matches!(effect, Effect::Step(1..) | Effect::StepTime(1..) | Effect::NextFinding);
        if forward && self.capabilities().follows_newest && !self.paused {
            self.notify(Notice::new("this is the newest sample: [ { and N go back"));
            return Effect::Redraw;
        }
        self.paused = true;
        effect
    }

    /// Seeks to the next mark; after the last one to the first.
    pub(super) fn seek_next_mark(&mut self) -> Effect {
        let here = self.shown_at().map_or(i64::MIN, |at| at.realtime_ns);
        let Some(next) = self.marks.iter().find(|mark| mark.realtime_ns > here).or(self.marks.first()).cloned() else {
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
        let item = self.details.as_ref().map(|details| details.item.clone()).or_else(|| self.selected_item());
        match item {
            Some(Item::Finding { since, .. }) => {
                self.details = None;
                self.seek(Effect::GoToFinding(since.realtime_ns))
            }
            _ => Effect::Nothing,
        }
    }

    pub(super) fn toggle_pause(&mut self) -> Effect {
        self.restore_cursor();
        self.span = None;
        self.paused = !self.paused;
        if !self.paused
            && let Some(newest) = self.newest.take()
        {
            self.current = Some(newest);
            self.rebuild_rows();
        }
        Effect::Pause(self.paused)
    }

    /// `+`: a longer sampling interval, or a faster replay.
    pub(super) fn increase_interval_or_speed(&mut self) -> Effect {
        let (interval_ms, speed) = (self.setup.interval_ms, self.speed);
        self.set_interval_or_speed(
            INTERVAL_STEPS_MS.into_iter().find(|&step| step > interval_ms),
            PLAYBACK_SPEEDS.into_iter().find(|&step| step > speed * 1.001),
        )
    }

    /// `-`: a shorter sampling interval, or a slower replay.
    pub(super) fn decrease_interval_or_speed(&mut self) -> Effect {
        let (interval_ms, speed) = (self.setup.interval_ms, self.speed);
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
                self.speed = speed;
                Effect::Speed(speed)
            }
            _ => Effect::Nothing,
        }
    }
}
