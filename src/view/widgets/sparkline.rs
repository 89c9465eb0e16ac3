//! A sparkline: one cell per value, eight levels, blank without data.

use crate::view::canvas::Canvas;
use crate::view::theme::StyleRole;

/// The glyphs from the lowest to the highest level.
pub const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The glyph of a value of 0 … 1.
pub fn level_glyph(share: f32) -> char {
    let at = (share.clamp(0.0, 1.0) * 7.0).round() as usize;
    LEVELS.get(at).copied().unwrap_or('█')
}

/// A latency relative to its baseline on a logarithmic scale of 0 … 1: the baseline is near the bottom, 3 times the baseline
/// in the middle, 10 times and more at the top.
pub fn log_ratio_level(value: f32, baseline: f32) -> f32 {
    if baseline <= 0.0 || value <= 0.0 {
        return 0.0;
    }
    (libm::log10f(value / baseline) * 6.0 + 1.0) / 7.0
}

/// Draws the values right-aligned in `width` cells, the newest at the right edge.
pub fn sparkline(
    canvas: &mut Canvas,
    x: u16,
    y: u16,
    width: u16,
    cells: impl ExactSizeIterator<Item = Option<(f32, StyleRole)>>,
) {
    let count = u16::try_from(cells.len()).unwrap_or(u16::MAX);
    let skip = count.saturating_sub(width);
    let first = x + width.saturating_sub(count);
    for (column, cell) in (first..).zip(cells.skip(usize::from(skip))) {
        if let Some((share, role)) = cell {
            canvas.glyph(column, y, level_glyph(share), role);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_the_baseline_is_in_the_middle() {
        assert_eq!(level_glyph(0.0), '▁');
        assert_eq!(level_glyph(log_ratio_level(1.0, 1.0)), '▂');
        assert_eq!(level_glyph(log_ratio_level(3.0, 1.0)), '▅');
        assert_eq!(level_glyph(log_ratio_level(10.0, 1.0)), '█');
        assert_eq!(level_glyph(log_ratio_level(1000.0, 1.0)), '█');
        assert_eq!(level_glyph(log_ratio_level(1.0, 0.0)), '▁');
    }
}
