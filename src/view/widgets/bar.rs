//! A stacked bar of one row. Each segment has its own texture, so that it is readable without color.

use crate::view::canvas::Canvas;
use crate::view::theme::StyleRole;

/// A segment: its share of the bar, glyph and role.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub share: f64,
    pub glyph: char,
    pub role: StyleRole,
}

/// Draws the segments from column `x`. Cell counts add up exactly; a segment of at least 0.5 % has at least one cell.
pub fn stacked_bar(canvas: &mut Canvas, x: u16, y: u16, width: u16, parts: &[Segment]) {
    let mut column = x;
    for (part, cells) in parts.iter().zip(segment_widths(width, parts)) {
        canvas.fill(column, y, cells, part.glyph, part.role);
        column += cells;
    }
}

fn segment_widths(width: u16, parts: &[Segment]) -> Vec<u16> {
    let whole: f64 = parts.iter().map(|part| part.share.max(0.0)).sum();
    if whole <= 0.0 || width == 0 {
        return vec![0; parts.len()];
    }
    let scale = f64::from(width) / whole.max(1.0);
    let mut dealt: Vec<u16> = Vec::with_capacity(parts.len());
    for part in parts {
        let exact = part.share.max(0.0) * scale;
        let cells = exact.round() as u16;
        dealt.push(if cells == 0 && part.share >= 0.005 { 1 } else { cells });
    }
    // The largest segment absorbs the rounding error.
    let wanted = (whole * scale).round() as u16;
    for _ in 0..parts.len() {
        let sum: u16 = dealt.iter().sum();
        let Some(largest) = dealt.iter_mut().max() else { break };
        if sum > wanted {
            *largest = largest.saturating_sub(sum - wanted);
        } else {
            *largest += wanted - sum;
        }
    }
    dealt
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealt(width: u16, shares: &[f64]) -> Vec<u16> {
        let parts: Vec<Segment> = shares.iter().map(|&share| Segment { share, glyph: '#', role: StyleRole::Plain }).collect();
        segment_widths(width, &parts)
    }

    #[test]
    fn widths_add_up_and_small_segments_are_visible() {
        assert_eq!(dealt(10, &[0.31, 0.09, 0.6]), [3, 1, 6]);
        assert_eq!(dealt(40, &[0.0039, 0.01, 0.9861]), [0, 1, 39]);
        assert_eq!(dealt(10, &[0.5]), [5]);
        assert_eq!(dealt(10, &[]), Vec::<u16>::new());
        assert_eq!(dealt(1, &[0.3, 0.3, 0.4]).iter().sum::<u16>(), 1);
        assert_eq!(dealt(10, &[1.5, 0.5]), [7, 3]);
    }
}
