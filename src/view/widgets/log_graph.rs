//! Mean values over time on a logarithmic axis, with a line up to the maximum of each column, and horizontal lines at values to
//! compare with.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::gradient::Gradient;
use super::range_column::{RangeGlyph, range_glyph};

/// A horizontal line.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub value: f32,
    pub glyph: char,
    pub style: Style,
}

/// A column for each value; the bottom edge is `min`, the top edge `max`, both above 0.
pub struct LogGraph<'a, F> {
    /// Minimum, mean and maximum; `None`: no data
    pub values: &'a [Option<[f32; 3]>],
    pub min: f32,
    pub max: f32,
    /// Drawn over the columns
    pub levels: &'a [Level],
    /// The styles of a value in a column
    pub style: F,
}

impl<F> LogGraph<'_, F> {
    /// The height of a value in an area of this height, in rows.
    fn height_of(&self, value: f32, height: u16) -> f32 {
        let share = libm::log10f(value.max(self.min) / self.min) / libm::log10f(self.max / self.min);
        share.clamp(0.0, 1.0) * f32::from(height)
    }

    /// The row from the top in which a value is.
    pub fn row_of(&self, value: f32, height: u16) -> u16 {
        (height.saturating_sub(1)).saturating_sub(self.height_of(value, height) as u16)
    }
}

impl<F: Fn(usize, f32) -> Gradient> Widget for LogGraph<'_, F> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() || self.min <= 0.0 || self.max <= self.min {
            return;
        }
        for (number, (column, value)) in area.columns().zip(self.values).enumerate() {
            let Some(range) = *value else { continue };
            let eighths = |value: f32| (self.height_of(value, area.height) * 8.0).round().max(1.0) as usize;
            let heights = range.map(eighths);
            let [_, mean, max] = range;
            for (row, place) in column.rows().rev().enumerate() {
                let Some(cell) = buffer.cell_mut(place.as_position()) else { continue };
                let (glyph, value) = match range_glyph(row, heights) {
                    Some(RangeGlyph::UpToMean(glyph)) => (glyph, mean),
                    Some(RangeGlyph::UpToMax(glyph)) => (glyph, max),
                    None => continue,
                };
                cell.set_char(glyph).set_style((self.style)(number, value).of_row(row, area.height));
            }
        }
        for level in self.levels.iter().filter(|level| (self.min..=self.max).contains(&level.value)) {
            let row = Rect { y: area.y + self.row_of(level.value, area.height), height: 1, ..area };
            for place in row.positions() {
                let Some(cell) = buffer.cell_mut(place) else { continue };
                cell.set_char(level.glyph);
                // The background stays.
                (cell.fg, cell.modifier) = (level.style.fg.unwrap_or_default(), level.style.add_modifier);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_is_as_far_from_one_as_a_hundred_from_ten() {
        let area = Rect::new(0, 0, 5, 2);
        let mut buffer = Buffer::empty(area);
        let levels = [Level { value: 10.0, glyph: '-', style: Style::new() }];
        let values = [Some([1.0; 3]), Some([10.0; 3]), None, Some([100.0; 3])];
        LogGraph { values: &values, min: 1.0, max: 100.0, levels: &levels, style: |_, _| Style::new().into() }
            .render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["-----", "▁█ █ "]));
    }

    #[test]
    fn full_blocks_end_at_the_minimum() {
        let area = Rect::new(0, 0, 1, 3);
        let mut buffer = Buffer::empty(area);
        let values = [Some([10.0, 100.0, 1000.0])];
        LogGraph { values: &values, min: 1.0, max: 1000.0, levels: &[], style: |_, _| Style::new().into() }
            .render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["│", "▒", "█"]));
    }
}
