//! Mean values over time on a linear axis, with a line up to the maximum of each column. A value of 0 is a line at the bottom: a blank
//! column has no value.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::gradient::Gradient;
use super::range_column::{RangeGlyph, range_glyph};

/// The glyph of 0.
const LOWEST: char = '▁';

/// A column for each value, filled to its mean; up to its minimum with full blocks.
pub struct AreaGraph<'a> {
    values: &'a [Option<[f32; 3]>],
    max: f32,
    style: Gradient,
    peak_style: Style,
    high: Option<(f32, Gradient)>,
}

impl<'a> AreaGraph<'a> {
    /// `values`: minimum, mean and maximum, or no data; `max`: the value of the top edge, above 0.
    pub fn new(values: &'a [Option<[f32; 3]>], max: f32, style: Gradient, peak_style: Style) -> AreaGraph<'a> {
        AreaGraph { values, max, style, peak_style, high: None }
    }

    /// The same; columns whose mean is at least `least` have another style.
    pub fn styled_from(self, least: f32, style: Gradient) -> AreaGraph<'a> {
        AreaGraph { high: Some((least, style)), ..self }
    }
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
            let style = self.high.filter(|(least, _)| mean >= *least).map_or(self.style, |(_, style)| style);
            for (row, place) in column.rows().rev().enumerate() {
                let Some(cell) = buffer.cell_mut(place.as_position()) else { continue };
                match range_glyph(row, heights) {
                    Some(RangeGlyph::UpToMean(glyph)) => {
                        cell.set_char(glyph).set_style(style.of_row(row, area.height));
                    }
                    Some(RangeGlyph::UpToMax(glyph)) => {
                        cell.set_char(glyph).set_style(self.peak_style);
                    }
                    None if row == 0 => {
                        cell.set_char(LOWEST).set_style(self.peak_style);
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
        AreaGraph::new(&values, 3.0, Style::new().into(), Style::new()).render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["█ │  ", "█ │  ", "█ █▁▁"]));
    }

    #[test]
    fn full_blocks_end_at_the_minimum() {
        let area = Rect::new(0, 0, 2, 3);
        let mut buffer = Buffer::empty(area);
        let values = [Some([1.0, 2.0, 3.0]), Some([0.0, 2.5, 2.5])];
        AreaGraph::new(&values, 3.0, Style::new().into(), Style::new()).render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["│▄", "▒▒", "█▒"]));
    }

    #[test]
    fn each_row_has_its_step_of_the_gradient() {
        let area = Rect::new(0, 0, 2, 2);
        let mut buffer = Buffer::empty(area);
        let style = Gradient([0, 1, 2, 3, 4, 5].map(|step| Style::new().fg(Color::Indexed(step))));
        let values = [Some([1.0; 3]), Some([0.5; 3])];
        AreaGraph::new(&values, 1.0, style, Style::new()).render(area, &mut buffer);
        let colors: Vec<Color> = buffer.content.iter().map(|cell| cell.fg).collect();
        assert_eq!(colors, [Color::Indexed(5), Color::Reset, Color::Indexed(0), Color::Indexed(0)]);
    }

    #[test]
    fn high_columns_have_a_style_of_their_own() {
        let area = Rect::new(0, 0, 2, 1);
        let mut buffer = Buffer::empty(area);
        let color = |index| Style::new().fg(Color::Indexed(index));
        let values = [Some([0.9; 3]), Some([0.8; 3])];
        AreaGraph::new(&values, 1.0, color(1).into(), Style::new()).styled_from(0.9, color(2).into()).render(area, &mut buffer);
        assert_eq!(buffer.content.iter().map(|cell| cell.fg).collect::<Vec<_>>(), [Color::Indexed(2), Color::Indexed(1)]);
    }
}
