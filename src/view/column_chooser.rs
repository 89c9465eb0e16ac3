//! The column chooser, over the screen: a line for each column.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::theme::StyleRole;
use crate::state::{ClickTarget, ColumnChooser, State};

/// Cells of the chooser.
const WIDTH: u16 = 38;

pub fn draw(state: &State, chooser: &ColumnChooser, pane: &mut Pane) {
    let lines = u16::try_from(chooser.columns.len()).unwrap_or(u16::MAX);
    let (width, height) = (WIDTH.min(pane.width()), lines.saturating_add(2).min(pane.height()));
    let mut frame = pane.subarea((pane.width() - width) / 2, (pane.height() - height) / 2, width, height);
    frame.clear();
    frame.on_click(ClickTarget::Overlay);
    let mut inner = frame.framed(("Columns", StyleRole::Bold), ("Space changes, Esc closes", StyleRole::Dim));
    let top = (chooser.selected + 1).saturating_sub(usize::from(inner.height()));
    for (y, (at, &column)) in (0..inner.height()).zip(chooser.columns.iter().enumerate().skip(top)) {
        let hidden = state.hides_column(column);
        let mut row = inner.subarea(0, y, u16::MAX, 1);
        let (mark, role) = if hidden { (" [ ] ", StyleRole::Dim) } else { (" [x] ", StyleRole::Plain) };
        row.line(0, SafeLine::new(mark, role).with(column.heading, role));
        row.on_click(ClickTarget::ColumnChoice(at));
        if at == chooser.selected {
            row.highlight_rows(0, 1);
        }
    }
    let rows = height.saturating_sub(2);
    frame.subarea(0, 1, width, rows).scroll_bar(chooser.columns.len(), top, usize::from(rows));
}
