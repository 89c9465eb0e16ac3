//! A stacked bar of one row. Each segment has its own texture, so that it is readable without color.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// A segment: its share of the bar, glyph and style.
#[derive(Clone, Copy, Debug)]
pub struct Segment<S> {
    pub share: f64,
    pub glyph: char,
    pub style: S,
}

/// Segments from left to right. Cell counts add up exactly; a segment of at least 0.5 % has at least one cell.
#[derive(Clone, Copy, Debug)]
pub struct StackedBar<'a, S>(pub &'a [Segment<S>]);

impl<S: Copy> StackedBar<'_, S> {
    /// The glyph and style of each cell.
    pub fn glyphs(&self, width: u16) -> impl Iterator<Item = (char, S)> {
        let widths = segment_widths(width, self.0);
        self.0.iter().zip(widths).flat_map(|(part, cells)| std::iter::repeat_n((part.glyph, part.style), usize::from(cells)))
    }
}

impl<S: Copy + Into<Style>> Widget for StackedBar<'_, S> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        for (place, (glyph, style)) in area.rows().take(1).flat_map(Rect::columns).zip(self.glyphs(area.width)) {
            if let Some(cell) = buffer.cell_mut(place.as_position()) {
                cell.set_char(glyph).set_style(style);
            }
        }
    }
}

fn segment_widths<S>(width: u16, parts: &[Segment<S>]) -> Vec<u16> {
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
        let parts: Vec<Segment<Style>> =
            shares.iter().map(|&share| Segment { share, glyph: '#', style: Style::new() }).collect();
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

    #[test]
    fn it_is_drawn_on_the_first_row() {
        let segment = |share, glyph| Segment { share, glyph, style: Style::new() };
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        StackedBar(&[segment(0.5, '#'), segment(0.25, '.')]).render(Rect::new(1, 0, 4, 2), &mut buffer);
        assert_eq!(buffer, Buffer::with_lines([" ##.  ", "      "]));
    }
}
