//! A mark at one time of a graph: a sign above the graph, and a line where the graph is blank.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// The sign of the time that is displayed.
pub const CURSOR: char = '▼';

/// Drawn over a graph. The first row of the area is the row above the graph: its frame or title.
pub struct TimeCursor {
    /// From the left edge of the area
    pub column: u16,
    pub style: Style,
}

impl Widget for TimeCursor {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if self.column >= area.width {
            return;
        }
        let mut has_sign = false;
        for y in area.rows().map(|row| row.y) {
            let Some(cell) = buffer.cell_mut((area.x + self.column, y)) else { continue };
            let is_frame = y == area.y && matches!(cell.symbol(), "─" | " ");
            // A title is not overwritten: the sign is then on the graph.
            if !has_sign && (is_frame || y > area.y) {
                cell.reset();
                cell.set_char(CURSOR).set_style(self.style);
                has_sign = true;
            } else if y > area.y && cell.symbol() == " " {
                cell.set_char('│');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_is_on_the_frame_and_the_line_on_blank_cells() {
        let mut buffer = Buffer::with_lines(["T──", "   ", "█ █"]);
        TimeCursor { column: 2, style: Style::new() }.render(buffer.area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["T─▼", "  │", "█ █"]));
        TimeCursor { column: 0, style: Style::new() }.render(buffer.area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["T─▼", "▼ │", "█ █"]));
        TimeCursor { column: 3, style: Style::new() }.render(buffer.area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["T─▼", "▼ │", "█ █"]));
    }
}
