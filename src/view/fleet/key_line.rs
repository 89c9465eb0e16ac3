//! The bottom line of the fleet: the filter that is being edited, a notice, or the keys.

use crate::safe;
use crate::state::fleet::FleetState;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::prompt_text;
use crate::view::theme::StyleRole;

const LIVE: &[(&str, &str)] = &[("Enter", "host"), ("/", "filter"), ("w", "save all"), ("?", "help"), ("q", "quit")];
const REPLAY: &[(&str, &str)] =
    &[("Enter", "host"), ("Space", "pause"), ("[ ]", "time"), ("+ -", "speed"), ("/", "filter"), ("?", "help"), ("q", "quit")];

pub fn draw(state: &FleetState, pane: &mut Pane) {
    if let Some(input) = state.prompt() {
        let question = "filter: ";
        let room = usize::from(pane.width()).saturating_sub(question.len() + 2);
        let (typed, cursor) = prompt_text(input, room);
        pane.line(0, SafeLine::new(question, StyleRole::Bold).with(typed, StyleRole::Plain));
        let column = u16::try_from(question.len()).unwrap_or(0).saturating_add(cursor);
        return pane.subarea(column, 0, 1, 1).highlight_rows(0, 1);
    }
    if let Some(notice) = state.notice() {
        let role = if notice.failure { StyleRole::Critical } else { StyleRole::Bold };
        return pane.line(0, (SafeText::sanitize(notice.text.clone()), role));
    }
    let mut line = SafeLine::default();
    if !state.filter.is_empty() {
        line.push(safe!("filter '{}' ", state.filter), StyleRole::Bold);
        line.push("Esc", StyleRole::Key);
        line.push(" clears  ", StyleRole::Dim);
    }
    for &(key, word) in if state.playback().is_some() { REPLAY } else { LIVE } {
        line.push(key, StyleRole::Key);
        line.push(safe!(" {word}  "), StyleRole::Dim);
    }
    let position = safe!("{}/{}", (state.selected_row() + 1).min(state.rows.len()), state.rows.len());
    if line.width() + position.width() < usize::from(pane.width()) {
        pane.line_right(0, (position, StyleRole::Dim));
    }
    pane.line(0, line);
}
