//! A column of a graph whose time has several values: full blocks up to the minimum, a lighter texture up to the mean, whose last cell
//! shows eighths, and a line up to the maximum.

use super::sparkline::LEVELS;

/// Between the minimum and the mean.
pub const ABOVE_MIN: char = '▒';

/// From the mean to the maximum.
pub const PEAK: char = '│';

/// The glyph of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeGlyph {
    UpToMean(char),
    UpToMax(char),
}

/// The glyph of a row, counted from the bottom, of a column with these heights of minimum, mean and maximum, in eighths of a row.
pub fn range_glyph(row: usize, [min, mean, max]: [usize; 3]) -> Option<RangeGlyph> {
    let bottom = row * 8;
    match mean.saturating_sub(bottom).min(8) {
        8 if min < bottom + 4 => Some(RangeGlyph::UpToMean(ABOVE_MIN)),
        0 => (max > bottom + 3).then_some(RangeGlyph::UpToMax(PEAK)),
        filled => LEVELS.get(filled - 1).map(|&glyph| RangeGlyph::UpToMean(glyph)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(heights: [usize; 3]) -> String {
        let glyph = |row| match range_glyph(row, heights) {
            Some(RangeGlyph::UpToMean(glyph) | RangeGlyph::UpToMax(glyph)) => glyph,
            None => ' ',
        };
        (0..5).map(glyph).collect()
    }

    #[test]
    fn minimum_mean_and_maximum_differ() {
        assert_eq!(column([16, 28, 40]), "██▒▄│");
        assert_eq!(column([0, 16, 16]), "▒▒   ");
        assert_eq!(column([12, 16, 20]), "██│  ", "the minimum is rounded to rows");
        assert_eq!(column([20, 20, 20]), "██▄  ", "one value");
        assert_eq!(column([0, 0, 0]), "     ");
    }
}
