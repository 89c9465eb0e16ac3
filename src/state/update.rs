//! `update`, the only function that changes the state, and the events that carry data.
//!
//! Keys and clicks are in `actions`, the line editor in `prompt`, seeking and pausing in `playback`, lists in `list`.

use super::event::{Effect, Event, Notice};
use super::history::IntervalSummary;
use super::timeline_runs::TimelineRuns;
use super::{RecorderState, SourceStatus, State};
use crate::findings::Evaluation;

/// Number of intervals after which a notice is removed.
const NOTICE_INTERVALS: u8 = 6;

/// Changes the state by an event; returns what the program has to do.
pub fn update(state: &mut State, event: Event) -> Effect {
    match event {
        Event::Key(key) => return state.on_key(key),
        Event::Click(target) => return state.on_click(target),
        Event::Wheel(rows) => state.on_wheel(i64::from(rows)),
        Event::MaxScroll(max) => {
            state.clamp_scroll(max);
            return Effect::Nothing;
        }
        Event::DrawnItems(items) => {
            state.drawn_items = items;
            return Effect::Nothing;
        }
        Event::ListEndOffset(offset) => {
            state.list_end_offset = offset;
            return Effect::Nothing;
        }
        Event::Resize { width, height } => {
            state.setup.size = (width, height);
            state.scroll_to_cursor();
        }
        Event::Evaluation(evaluation) => state.append_evaluation(evaluation),
        Event::SeekCompleted { evaluation, preceding } => state.complete_seek(evaluation, &preceding),
        Event::SeekStarted(evaluation) => state.start_seek(evaluation),
        Event::Span { interval, intervals } => state.show_span(interval, intervals),
        Event::Position(position) => state.position = Some(position),
        Event::Timeline(timeline) => {
            state.timeline_runs = TimelineRuns::new(&timeline);
            state.timeline = timeline;
        }
        Event::Summaries(summaries) => summaries.iter().for_each(|summary| state.recording_series.add(summary)),
        Event::GraphIntervals(summaries) => summaries.into_iter().for_each(|summary| state.history.insert(summary)),
        Event::TaskPast(points) => points.into_iter().for_each(|point| state.history.add_task(point)),
        Event::Marks(marks) => state.marks = marks,
        Event::Findings(findings) => {
            state.finding_history.replace(findings);
            state.rebuild_rows();
        }
        Event::Recorder(recorder) => state.set_recorder(recorder),
        Event::Notice(notice) => state.notify(notice),
        Event::SourceEnded(error) => state.source_status = error.map_or(SourceStatus::Ended, SourceStatus::Failed),
        Event::Now(now) => {
            let displayed = state.late_seconds().map(|late| late as u64);
            state.now = Some(now);
            state.waiting_since.get_or_insert(now);
            if state.late_seconds().map(|late| late as u64) == displayed {
                return Effect::Nothing;
            }
        }
        Event::TerminalIsSlow => {
            state.setup.terminal.is_slow = true;
            state.notify(Notice::new("slow terminal: a frame every 2 s, no graphs"));
        }
        Event::Redraw => {}
    }
    Effect::Redraw
}

impl State {
    /// The next interval in time order.
    fn append_evaluation(&mut self, evaluation: Evaluation) {
        self.add_to_history(&evaluation);
        self.waiting_since = None;
        self.notice_intervals_left = self.notice_intervals_left.saturating_sub(1);
        if self.notice_intervals_left == 0 {
            self.notice = None;
        }
        if self.capabilities().follows_newest && self.paused && self.current.is_some() {
            self.newest = Some(evaluation);
            return;
        }
        self.newest = None;
        self.is_provisional = false;
        self.current = Some(evaluation);
        self.hold_groups();
        self.hold_hot_threads();
        self.rebuild_rows();
    }

    pub(super) fn add_to_history(&mut self, evaluation: &Evaluation) {
        let boot_id = |evaluation: &Evaluation| evaluation.interval.host.boot_id.clone();
        if self.current.as_ref().is_some_and(|current| boot_id(current) != boot_id(evaluation)) {
            self.history.clear();
        }
        self.history.insert(IntervalSummary::from_evaluation(evaluation, self.followed_task()));
        self.finding_history.add_evaluation(evaluation);
    }

    fn set_recorder(&mut self, recorder: RecorderState) {
        if let (RecorderState::Off, RecorderState::On { file, .. }) = (&self.recorder, &recorder) {
            self.notify(Notice::new(format!("recording (with the samples in memory) to {file}: R stops it")));
        }
        self.recorder = recorder;
    }

    pub(super) fn notify(&mut self, notice: Notice) {
        self.notice = Some(notice);
        self.notice_intervals_left = NOTICE_INTERVALS;
    }
}
