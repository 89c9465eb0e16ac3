//! Mean values over time on a linear axis, with a line up to the maximum of each column.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::gradient::Gradient;
use super::sparkline::LEVELS;

/// The line from a mean to its maximum.
pub const PEAK: char = '│';

/// A column for each value, filled to its mean.
pub struct AreaGraph<'a> {
    /// Mean and maximum; `None`: no data
    pub values: &'a [Option<(f32, f32)>],
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
            let Some((mean, peak)) = *value else { continue };
            // What is not 0 is visible.
            let (mean, peak) = (eighths(mean).max(usize::from(mean > 0.0)), eighths(peak));
            for (row, place) in column.rows().rev().enumerate() {
                let filled = mean.saturating_sub(row * 8).min(8);
                let Some(cell) = buffer.cell_mut(place.as_position()) else { continue };
                if let Some(&glyph) = filled.checked_sub(1).and_then(|level| LEVELS.get(level)) {
                    cell.set_char(glyph).set_style(self.style.of_row(row, area.height));
                } else if peak > row * 8 + 3 {
                    cell.set_char(PEAK).set_style(self.peak_style);
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
        let values = [Some((3.0, 3.0)), None, Some((1.0, 3.0)), Some((0.01, 0.01)), Some((0.0, 0.0))];
        AreaGraph { values: &values, max: 3.0, style: Style::new().into(), peak_style: Style::new() }.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["█ │  ", "█ │  ", "█ █▁ "]));
    }

    #[test]
    fn each_row_has_its_step_of_the_gradient() {
        let area = Rect::new(0, 0, 2, 2);
        let mut buffer = Buffer::empty(area);
        let style = Gradient([0, 1, 2, 3, 4, 5].map(|step| Style::new().fg(Color::Indexed(step))));
        let values = [Some((1.0, 1.0)), Some((0.5, 0.5))];
        AreaGraph { values: &values, max: 1.0, style, peak_style: Style::new() }.render(area, &mut buffer);
        let colors: Vec<Color> = buffer.content.iter().map(|cell| cell.fg).collect();
        assert_eq!(colors, [Color::Indexed(5), Color::Reset, Color::Indexed(0), Color::Indexed(0)]);
    }
}
