//! Mean values over time on a linear axis, with a line up to the maximum of each column.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::gradient::Gradient;
use super::range_column::{RangeGlyph, range_glyph};

/// A column for each value, filled to its mean; up to its minimum with full blocks.
pub struct AreaGraph<'a> {
    /// Minimum, mean and maximum; `None`: no data
    pub values: &'a [Option<[f32; 3]>],
    /// The value of the top edge, above 0
    pub max: f32,
    pub style: Gradient,
    pub peak_style: Style,
}

impl Widget for AreaGraph<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() || self.max <= 0.0 {
            return;
        }
        let eighths = |value: f32| (value / self.max * f32::from(area.height) * 8.0).round().max(0.0) as usize;
        for (column, value) in area.columns().zip(self.values) {
            let Some([min, mean, max]) = *value else { continue };
            // What is not 0 is visible.
            let heights = [eighths(min), eighths(mean).max(usize::from(mean > 0.0)), eighths(max)];
            for (row, place) in column.rows().rev().enumerate() {
                let Some(cell) = buffer.cell_mut(place.as_position()) else { continue };
                match range_glyph(row, heights) {
                    Some(RangeGlyph::UpToMean(glyph)) => {
                        cell.set_char(glyph).set_style(self.style.of_row(row, area.height));
                    }
                    Some(RangeGlyph::UpToMax(glyph)) => {
                        cell.set_char(glyph).set_style(self.peak_style);
                    }
                    None => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;

    #[test]
    fn a_peak_is_a_line_above_the_mean() {
        let area = Rect::new(0, 0, 5, 3);
        let mut buffer = Buffer::empty(area);
        let values = [Some([3.0; 3]), None, Some([1.0, 1.0, 3.0]), Some([0.01; 3]), Some([0.0; 3])];
        AreaGraph { values: &values, max: 3.0, style: Style::new().into(), peak_style: Style::new() }.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["█ │  ", "█ │  ", "█ █▁ "]));
    }

    #[test]
    fn full_blocks_end_at_the_minimum() {
        let area = Rect::new(0, 0, 2, 3);
        let mut buffer = Buffer::empty(area);
        let values = [Some([1.0, 2.0, 3.0]), Some([0.0, 2.5, 2.5])];
        AreaGraph { values: &values, max: 3.0, style: Style::new().into(), peak_style: Style::new() }.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["│▄", "▒▒", "█▒"]));
    }

    #[test]
    fn each_row_has_its_step_of_the_gradient() {
        let area = Rect::new(0, 0, 2, 2);
        let mut buffer = Buffer::empty(area);
        let style = Gradient([0, 1, 2, 3, 4, 5].map(|step| Style::new().fg(Color::Indexed(step))));
        let values = [Some([1.0; 3]), Some([0.5; 3])];
        AreaGraph { values: &values, max: 1.0, style, peak_style: Style::new() }.render(area, &mut buffer);
        let colors: Vec<Color> = buffer.content.iter().map(|cell| cell.fg).collect();
        assert_eq!(colors, [Color::Indexed(5), Color::Reset, Color::Indexed(0), Color::Indexed(0)]);
    }
}
