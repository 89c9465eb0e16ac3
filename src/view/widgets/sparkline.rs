//! Levels of one cell, for graphs in the cells of a table: ratatui's `Sparkline` is a widget, which a cell cannot hold.

/// The glyphs from the lowest to the highest level.
pub const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The glyph of a value of 0 … 1 in a row of its own: none is a whole block, so that rows above each other do not fuse.
pub fn level_glyph(share: f32) -> char {
    let at = (share.clamp(0.0, 1.0) * 6.0).round() as usize;
    LEVELS.get(at).copied().unwrap_or('▇')
}

/// A latency relative to its baseline on a logarithmic scale of 0 … 1: the baseline is near the bottom, 3 times the baseline
/// in the middle, 10 times and more at the top.
pub fn log_ratio_level(value: f32, baseline: f32) -> f32 {
    if baseline <= 0.0 || value <= 0.0 {
        return 0.0;
    }
    (libm::log10f(value / baseline) * 6.0 + 1.0) / 7.0
}

/// One glyph a cell, right-aligned in `width` cells: the newest value at the right edge, blank without a value.
pub fn sparkline<S: Copy + Default>(
    width: u16,
    cells: impl ExactSizeIterator<Item = Option<(f32, S)>>,
) -> impl Iterator<Item = (char, S)> {
    let width = usize::from(width);
    let (skip, blank) = (cells.len().saturating_sub(width), width.saturating_sub(cells.len()));
    let glyphs = cells.skip(skip).map(|cell| cell.map_or((' ', S::default()), |(share, style)| (level_glyph(share), style)));
    std::iter::repeat_n((' ', S::default()), blank).chain(glyphs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_the_baseline_is_in_the_middle() {
        assert_eq!(level_glyph(0.0), '▁');
        assert_eq!(level_glyph(log_ratio_level(1.0, 1.0)), '▂');
        assert_eq!(level_glyph(log_ratio_level(3.0, 1.0)), '▄');
        assert_eq!(level_glyph(log_ratio_level(10.0, 1.0)), '▇');
        assert_eq!(level_glyph(log_ratio_level(1000.0, 1.0)), '▇');
        assert_eq!(level_glyph(log_ratio_level(1.0, 0.0)), '▁');
    }

    #[test]
    fn the_newest_value_is_at_the_right_edge() {
        let values = [Some((0.0, ())), None, Some((1.0, ()))];
        let drawn = |width| sparkline(width, values.into_iter()).map(|cell| cell.0).collect::<String>();
        assert_eq!([drawn(5), drawn(2)], ["  ▁ ▇", " ▇"]);
    }
}
