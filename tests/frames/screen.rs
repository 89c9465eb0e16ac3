//! Builds a state from a synthetic machine, and returns its frame as text.

use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stalltop::findings::Evaluation;
use stalltop::state::{Event, Key, Setup, Source, State, TerminalCapabilities, update};
use stalltop::view;

use crate::machine::Machine;

pub fn setup(size: (u16, u16), source: Source) -> Setup {
    Setup { terminal: TerminalCapabilities::default(), source, time_zone: TimeZone::UTC, size, interval_ms: 1000 }
}

/// A live state after 90 intervals; the findings are active for the last 40 seconds.
pub fn live(machine: &Machine, size: (u16, u16)) -> State {
    live_after(&live_intervals(machine), size)
}

/// What `live` shows. Evaluating a machine takes longer than drawing it, and most tests have one of a few: once each.
pub fn live_intervals(machine: &Machine) -> Arc<[Evaluation]> {
    static KNOWN: Mutex<Vec<(Machine, Arc<[Evaluation]>)>> = Mutex::new(Vec::new());
    let known = |known: &[(Machine, Arc<[Evaluation]>)]| {
        known.iter().find(|(other, _)| other == machine).map(|(_, intervals)| Arc::clone(intervals))
    };
    if let Some(intervals) = known(&KNOWN.lock().unwrap()) {
        return intervals;
    }
    // Other tests evaluate theirs meanwhile.
    let intervals: Arc<[Evaluation]> = machine.intervals(90, 50).into();
    KNOWN.lock().unwrap().push((machine.clone(), Arc::clone(&intervals)));
    intervals
}

pub fn live_after(intervals: &[Evaluation], size: (u16, u16)) -> State {
    let mut state = State::new(setup(size, Source::Live));
    for evaluation in intervals {
        update(&mut state, Event::Evaluation(evaluation.clone()));
    }
    state
}

/// A key, a click or the wheel, after what the event loop sends before it.
pub fn send(state: &mut State, event: Event) {
    for known in view::frame_events(state, &view::drawn_frame(state).1) {
        update(state, known);
    }
    update(state, event);
}

pub fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        let key = match key {
            '\n' => Key::Enter,
            '\x1b' => Key::Escape,
            '\t' => Key::Tab,
            other => Key::Char(other),
        };
        send(state, Event::Key(key));
    }
}

pub fn buffer(state: &State) -> Buffer {
    let (width, height) = state.setup.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    view::render_into(state, &mut buffer);
    buffer
}

/// The frame as text, one line per row.
pub fn text(state: &State) -> String {
    let buffer = buffer(state);
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let row: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}
