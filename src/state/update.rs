//! `update`, the only function that changes the state. What an event does is in the file of its subject: keys and clicks in `actions`,
//! what is open above the screen in `overlay`, the line editor in `prompt`, intervals, seeking and pausing in `playback`, lists in `list`.

use super::event::{Effect, Event};
use super::notice::Notice;
use super::{RecorderState, SourceStatus, State};

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
            state.lists.drawn_items = items;
            return Effect::Nothing;
        }
        Event::PageItems(items) => {
            if let Some(details) = &mut state.details {
                details.items = items;
            }
            return Effect::Nothing;
        }
        Event::ListEndOffset(offset) => {
            state.lists.end_offset = offset;
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
        Event::Position(position) => state.timeline.position = Some(position),
        Event::Timeline(ticks) => state.timeline.set_ticks(ticks),
        Event::Summaries(summaries) => summaries.iter().for_each(|summary| state.graphs.recording_series.add(summary)),
        Event::GraphIntervals(summaries) => summaries.into_iter().for_each(|summary| state.graphs.history.insert(summary)),
        Event::TaskPast(points) => points.into_iter().for_each(|point| state.graphs.history.add_task(point)),
        Event::Marks(marks) => state.timeline.marks = marks,
        Event::Findings(findings) => {
            state.finding_history.replace(findings);
            state.rebuild_rows();
        }
        Event::Recorder(recorder) => state.set_recorder(recorder),
        Event::Notice(notice) => state.notify(notice),
        Event::SourceEnded(error) => state.arrival.status = error.map_or(SourceStatus::Ended, SourceStatus::Failed),
        Event::FirstSample => state.set_first_sample(),
        Event::Now(now) => return state.set_now(now),
        Event::TerminalIsSlow => {
            state.setup.terminal.is_slow = true;
            state.notify(Notice::new("slow terminal: a frame every 2 s, no graphs"));
        }
        Event::Redraw => {}
    }
    Effect::Redraw
}

impl State {
    fn set_recorder(&mut self, recorder: RecorderState) {
        if let (RecorderState::Off, RecorderState::On { file, .. }) = (&self.recorder, &recorder) {
            self.notify(Notice::new(format!("recording (with the samples in memory) to {file}: R stops it")));
        }
        self.recorder = recorder;
    }
}
