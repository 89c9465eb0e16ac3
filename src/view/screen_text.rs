//! A drawn screen as plain text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

/// The rows of the screen, without blanks at their ends.
pub fn screen_text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in buffer.area.top()..buffer.area.bottom() {
        text.push_str(row_text(buffer, Rect { y, height: 1, ..buffer.area }).trim_end());
        text.push('\n');
    }
    text
}

/// The text of the first row of an area.
pub fn row_text(buffer: &Buffer, area: Rect) -> String {
    let mut text = String::new();
    let mut hidden = 0;
    for x in area.left()..area.right() {
        let Some(cell) = buffer.cell((x, area.y)) else { break };
        // The cells behind a wide character are not part of the text.
        if hidden > 0 {
            hidden -= 1;
            continue;
        }
        text.push_str(cell.symbol());
        hidden = cell.symbol().width().saturating_sub(1);
    }
    text
}
