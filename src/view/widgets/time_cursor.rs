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
        let x = area.x + self.column;
        // Between the words of a title is no frame.
        let is_bare = |x: u16| buffer.cell((x, area.y)).is_none_or(|cell| matches!(cell.symbol(), "─" | " " | "┬" | "┴" | "┼"));
        let on_frame = is_bare(x.saturating_sub(1)) && is_bare(x) && is_bare(x.saturating_add(1));
        let mut has_sign = false;
        for y in area.rows().map(|row| row.y) {
            let Some(cell) = buffer.cell_mut((x, y)) else { continue };
            // A title is not overwritten: the sign is then on the graph.
            if !has_sign && (on_frame || y > area.y) {
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
