//! The palette, over the screen: a line to type in, and the entries that match.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::prompt_text;
use super::theme::StyleRole;
use crate::safe;
use crate::state::{ClickTarget, Palette};

/// Cells and rows of the palette at most.
const MAX_WIDTH: u16 = 90;
const MAX_HEIGHT: u16 = 22;

pub fn draw(palette: &Palette, pane: &mut Pane) {
    let width = MAX_WIDTH.min(pane.width());
    let entries = u16::try_from(palette.entries.len().max(1)).unwrap_or(u16::MAX);
    let height = entries.saturating_add(3).min(MAX_HEIGHT).min(pane.height());
    let x = (pane.width() - width) / 2;
    let mut frame = pane.subarea(x, u16::from(pane.height() > height), width, height);
    frame.clear();
    frame.on_click(ClickTarget::Overlay);
    let title = ("Actions, screens, findings", StyleRole::Bold);
    let mut inner = frame.framed(title, ("Enter does it, Esc closes", StyleRole::Dim));
    let room = usize::from(inner.width()).saturating_sub(3);
    let (typed, cursor) = prompt_text(&palette.input, room);
    inner.line(0, SafeLine::new(": ", StyleRole::Key).with(typed, StyleRole::Plain));
    inner.subarea(cursor.saturating_add(2), 0, 1, 1).highlight_rows(0, 1);
    if palette.entries.is_empty() {
        inner.line(1, ("nothing matches", StyleRole::Dim));
        return;
    }
    let rows = usize::from(inner.height().saturating_sub(1)).max(1);
    let top = (palette.selected + 1).saturating_sub(rows);
    for (y, (at, entry)) in (1..inner.height()).zip(palette.entries.iter().enumerate().skip(top)) {
        let key = safe!("{:>9} ", entry.key_label);
        let label = SafeLine::new(SafeText::sanitize(entry.label.clone()), StyleRole::Plain);
        let mut row = inner.subarea(0, y, u16::MAX, 1);
        row.line(0, label.truncated(usize::from(row.width()).saturating_sub(key.width() + 1)));
        row.line_right(0, (key, StyleRole::Key));
        row.on_click(ClickTarget::PaletteEntry(at));
        if at == palette.selected {
            row.highlight_rows(0, 1);
        }
    }
    // On the frame, beside the entries.
    frame.subarea(0, 2, width, height.saturating_sub(3)).scroll_bar(palette.entries.len(), top, rows);
}
