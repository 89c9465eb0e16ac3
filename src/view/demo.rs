//! The note of a recording of the demo, above the timeline: its title, what to notice, which key to press.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use crate::safe;
use crate::state::demo::DemoNote;

/// `DEMO 1 of 6: a blocked database          q next recording  Ctrl-C end`, and the notice below it.
pub fn draw(note: &DemoNote, pane: &mut Pane) {
    let title =
        SafeLine::new(safe!("DEMO {} of {}: ", note.number, note.count), StyleRole::Playback).with(note.title, StyleRole::Bold);
    let keys = if note.has_next { "q next recording  Ctrl-C end" } else { "q end" };
    let fits = title.width() + keys.len() + 2 <= usize::from(pane.width());
    pane.line(0, title);
    if fits {
        pane.line_right(0, (keys, StyleRole::Key));
    }
    let lines = usize::from(pane.height().saturating_sub(1));
    let notice = text::wrap(note.notice, usize::from(pane.width()).max(1), lines);
    for (y, line) in (1..).zip(notice) {
        pane.line(y, (&SafeText::sanitize(line), StyleRole::Plain));
    }
}
