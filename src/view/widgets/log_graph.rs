//! Mean values over time on a logarithmic axis, with a line up to the maximum of each column, and horizontal lines at values to
//! compare with.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::area_graph::PEAK;
use super::gradient::Gradient;
use super::sparkline::LEVELS;

/// A horizontal line.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub value: f32,
    pub glyph: char,
    pub style: Style,
}

/// A column for each value; the bottom edge is `min`, the top edge `max`, both above 0.
pub struct LogGraph<'a, F> {
    /// Mean and maximum; `None`: no data
    pub values: &'a [Option<(f32, f32)>],
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
            let Some((value, max)) = *value else { continue };
            let eighths = |value: f32| (self.height_of(value, area.height) * 8.0).round().max(1.0) as usize;
            let (filled_eighths, max_eighths) = (eighths(value), eighths(max));
            for (row, place) in column.rows().rev().enumerate() {
                let filled = filled_eighths.saturating_sub(row * 8).min(8);
                let Some(cell) = buffer.cell_mut(place.as_position()) else { continue };
                if let Some(&glyph) = filled.checked_sub(1).and_then(|level| LEVELS.get(level)) {
                    cell.set_char(glyph).set_style((self.style)(number, value).of_row(row, area.height));
                } else if max_eighths > row * 8 + 3 {
                    cell.set_char(PEAK).set_style((self.style)(number, max).of_row(row, area.height));
                }
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
        let values = [Some((1.0, 1.0)), Some((10.0, 10.0)), None, Some((100.0, 100.0))];
        LogGraph { values: &values, min: 1.0, max: 100.0, levels: &levels, style: |_, _| Style::new().into() }
            .render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["-----", "▁█ █ "]));
    }
}
