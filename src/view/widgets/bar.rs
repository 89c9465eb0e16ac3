//! A bar of several parts in one row, each with its own texture: it can be read without colour.

use crate::view::canvas::Canvas;
use crate::view::theme::StyleRole;

/// One part: its share of the whole, what it is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    pub share: f64,
    pub glyph: char,
    pub role: StyleRole,
}

/// Draws the parts from column `x` on. The cells are dealt out so that the sum is exact and a part that is there at all
/// (from half a per cent on) has at least one cell.
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
    // What rounding took or gave too much, the largest part pays.
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
    fn all_cells_are_dealt_out_and_a_small_part_is_seen() {
        assert_eq!(dealt(10, &[0.31, 0.09, 0.6]), [3, 1, 6]);
        assert_eq!(dealt(40, &[0.0039, 0.01, 0.9861]), [0, 1, 39]);
        assert_eq!(dealt(10, &[0.5]), [5]);
        assert_eq!(dealt(10, &[]), Vec::<u16>::new());
        assert_eq!(dealt(1, &[0.3, 0.3, 0.4]).iter().sum::<u16>(), 1);
        assert_eq!(dealt(10, &[1.5, 0.5]), [7, 3]);
    }
}
