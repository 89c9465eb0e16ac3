//! Levels of many items over time: a row of cells for each item, the darker the higher.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// Glyphs from the lowest to the highest level. The lowest is no dot, which elsewhere is free time; a blank is no data.
pub const LEVELS: [char; 5] = ['▁', '░', '▒', '▓', '█'];

/// The level of 0 … 1 as a glyph. Only what is nearly full is the last one.
pub fn heat_glyph(share: f32) -> char {
    let level = match share {
        share if share >= 0.95 => 4,
        share if share >= 0.6 => 3,
        share if share >= 0.3 => 2,
        share if share >= 0.05 => 1,
        _ => 0,
    };
    LEVELS.get(level).copied().unwrap_or('█')
}

/// A cell that was full for a part of its time.
pub const PARTLY_FULL: char = '▴';

/// A cell for each item (rows) and time (columns).
pub struct HeatMap<'a, F> {
    /// Mean and maximum, row by row from the top; `None`: no data
    pub rows: &'a [Vec<Option<(f32, f32)>>],
    /// The style of a value
    pub style: F,
}

impl<F: Fn(f32) -> Style> Widget for HeatMap<'_, F> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        for (row, values) in area.rows().zip(self.rows) {
            for (place, value) in row.columns().zip(values) {
                if let (Some((mean, max)), Some(cell)) = (*value, buffer.cell_mut(place.as_position())) {
                    let is_partly_full = heat_glyph(max) == '█' && matches!(heat_glyph(mean), '▁' | '░' | '▒');
                    let (glyph, value) = if is_partly_full { (PARTLY_FULL, max) } else { (heat_glyph(mean), mean) };
                    cell.set_char(glyph).set_style((self.style)(value));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_nearly_full_is_full() {
        let area = Rect::new(0, 0, 5, 2);
        let mut buffer = Buffer::empty(area);
        let same = |value| Some((value, value));
        let rows = [vec![same(0.0), same(0.1), None, same(0.94), same(1.0)], vec![same(0.5), Some((0.1, 1.0))]];
        HeatMap { rows: &rows, style: |_| Style::new() }.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["▁░ ▓█", "▒▴   "]));
    }
}
