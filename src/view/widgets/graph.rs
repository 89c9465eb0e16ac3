//! A column graph of several rows, with a line at the threshold.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::sparkline::LEVELS;

/// A graph to draw, with the newest value at the right edge.
pub struct Graph<'a> {
    /// Oldest first; `None`: no data
    pub values: &'a [Option<f32>],
    pub threshold: Option<f32>,
    /// The value of the top edge
    pub max: f32,
    pub style: Style,
    /// Style of the part above the threshold
    pub style_above_threshold: Style,
}

impl Widget for Graph<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        let (width, height) = (area.width, area.height);
        if area.is_empty() || self.max <= 0.0 {
            return;
        }
        let line = self.threshold.and_then(|threshold| self.row_for_value(threshold, height));
        let shown = self.values.len().min(usize::from(width));
        let values = self.values.get(self.values.len() - shown..).unwrap_or_default();
        let first = width - u16::try_from(shown).unwrap_or(width);
        for (column, value) in (first..).zip(values) {
            let Some(value) = *value else { continue };
            let eighths = (value / self.max * f32::from(height) * 8.0).round().clamp(1.0, f32::from(height) * 8.0) as u16;
            for row in 0..height {
                let below = (height - 1 - row) * 8;
                if eighths > below {
                    let level = usize::from((eighths - below).min(8)) - 1;
                    let above = line.is_some_and(|line| row < line);
                    let style = if above { self.style_above_threshold } else { self.style };
                    let glyph = LEVELS.get(level).copied().unwrap_or('█');
                    if let Some(cell) = buffer.cell_mut((area.x + column, area.y + row)) {
                        cell.set_char(glyph).set_style(style);
                    }
                }
            }
        }
        // The threshold line is drawn over the columns.
        for place in line.into_iter().flat_map(|row| Rect { y: area.y + row, height: 1, ..area }.positions()) {
            if let Some(cell) = buffer.cell_mut(place) {
                cell.reset();
                cell.set_char('╌');
            }
        }
    }
}

impl Graph<'_> {
    fn row_for_value(&self, value: f32, height: u16) -> Option<u16> {
        let share = value / self.max;
        (0.0..=1.0).contains(&share).then(|| (height - 1).saturating_sub((share * f32::from(height)) as u16))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_a_line_over_the_columns() {
        let (style, area) = (Style::new(), Rect::new(0, 0, 4, 3));
        let mut buffer = Buffer::empty(area);
        let values = [Some(3.0), None, Some(1.0)];
        Graph { values: &values, threshold: Some(1.5), max: 3.0, style, style_above_threshold: style }
            .render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines([" █  ", "╌╌╌╌", " █ █"]));
    }
}
