//! A column graph of several rows, with a line at the threshold.

use crate::view::canvas::Canvas;
use crate::view::theme::StyleRole;

use super::sparkline::LEVELS;

/// A graph to draw.
pub struct Graph<'a> {
    /// Oldest first; `None`: no data
    pub values: &'a [Option<f32>],
    pub threshold: Option<f32>,
    /// The value of the top edge
    pub max: f32,
    pub role: StyleRole,
    /// Role of the part above the threshold
    pub role_above_threshold: StyleRole,
}

impl Graph<'_> {
    /// Fills the canvas, with the newest value at the right edge.
    pub fn draw(&self, canvas: &mut Canvas) {
        let (width, height) = (canvas.width(), canvas.height());
        if width == 0 || height == 0 || self.max <= 0.0 {
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
                    let role = if line.is_some_and(|line| row < line) { self.role_above_threshold } else { self.role };
                    canvas.glyph(column, row, LEVELS.get(level).copied().unwrap_or('█'), role);
                }
            }
        }
        // The threshold line is drawn over the columns.
        if let Some(row) = line {
            canvas.fill(0, row, width, '╌', StyleRole::Plain);
        }
    }

    fn row_for_value(&self, value: f32, height: u16) -> Option<u16> {
        let share = value / self.max;
        (0.0..=1.0).contains(&share).then(|| (height - 1).saturating_sub((share * f32::from(height)) as u16))
    }
}
