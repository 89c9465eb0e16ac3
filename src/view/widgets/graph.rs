//! A column graph of several rows, with a line at the threshold on a row of its own.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

use super::gradient::Gradient;
use super::sparkline::LEVELS;

/// A graph to draw: a column for each value, from the left.
pub struct Graph<'a> {
    /// `None`: no data
    pub values: &'a [Option<f32>],
    pub threshold: Option<f32>,
    /// The value of the top edge
    pub max: f32,
    pub style: Gradient,
    /// Styles of the part above the threshold
    pub style_above_threshold: Gradient,
    pub threshold_style: Style,
}

impl Graph<'_> {
    /// The row of the threshold's line in an area of this height; the columns are interrupted there. `None` without a threshold, or
    /// without room for it.
    pub fn threshold_row(&self, height: u16) -> Option<u16> {
        let threshold = self.threshold.filter(|&threshold| threshold > 0.0 && height >= 2)?;
        if threshold >= self.max {
            return Some(0);
        }
        let rows = f32::from(height - 1);
        let below = (rows * threshold / self.max).round().clamp(1.0, (rows - 1.0).max(1.0)) as u16;
        Some(height - 1 - below)
    }

    /// The eighths of a row that a value fills below and above the threshold's line.
    fn eighths(&self, value: f32, height: u16) -> (usize, usize) {
        let fill = |value: f32, rows: u16| (value.clamp(0.0, 1.0) * f32::from(rows) * 8.0).round() as usize;
        match (self.threshold, self.threshold_row(height)) {
            (Some(threshold), Some(above)) => {
                let over = (value - threshold) / (self.max - threshold).max(f32::MIN_POSITIVE);
                (fill(value / threshold, height - 1 - above).max(1), fill(over, above))
            }
            _ => (fill(value / self.max, height).max(1), 0),
        }
    }
}

impl Widget for Graph<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        if area.is_empty() || self.max <= 0.0 {
            return;
        }
        let line = self.threshold_row(area.height);
        for (column, value) in area.columns().zip(self.values) {
            let Some(value) = *value else { continue };
            let (below, above) = self.eighths(value, area.height);
            let (lower, upper) = match line {
                Some(line) => ((line + 1, area.height), (0, line)),
                None => ((0, area.height), (0, 0)),
            };
            for ((first, end), eighths, style) in [(lower, below, self.style), (upper, above, self.style_above_threshold)] {
                for (row, y) in (first..end).rev().enumerate() {
                    let filled = eighths.saturating_sub(row * 8).min(8);
                    if let (1.., Some(cell)) = (filled, buffer.cell_mut((column.x, area.y + y))) {
                        let style = style.of_row(usize::from(area.height - 1 - y), area.height);
                        cell.set_char(LEVELS.get(filled - 1).copied().unwrap_or('█')).set_style(style);
                    }
                }
            }
        }
        for place in line.into_iter().flat_map(|row| Rect { y: area.y + row, height: 1, ..area }.positions()) {
            if let Some(cell) = buffer.cell_mut(place) {
                cell.set_char('╌').set_style(self.threshold_style);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_has_a_row_of_its_own() {
        let (style, area) = (Style::new(), Rect::new(0, 0, 4, 4));
        let mut buffer = Buffer::empty(area);
        let values = [Some(3.0), None, Some(1.0), Some(0.5)];
        let graph = Graph {
            values: &values,
            threshold: Some(1.0),
            max: 3.0,
            style: style.into(),
            style_above_threshold: style.into(),
            threshold_style: style,
        };
        graph.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["█   ", "█   ", "╌╌╌╌", "█ █▄"]));
    }
}
