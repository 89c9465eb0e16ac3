//! Shares of a whole over time: columns whose layers are stacked from the bottom, each with its own texture.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;

/// Texture of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Layer {
    pub glyph: char,
    pub style: Style,
}

/// One column of the area for each column of `columns`; the layers of a column add up to at most 1.
pub struct StackedArea<'a, const N: usize> {
    /// Shares from the lowest to the highest layer; `None`: no data
    pub columns: &'a [Option<[f32; N]>],
    pub layers: [Layer; N],
}

impl<const N: usize> Widget for StackedArea<'_, N> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let area = area.intersection(buffer.area);
        for (column, shares) in area.columns().zip(self.columns) {
            let Some(shares) = shares else { continue };
            for (row, place) in column.rows().rev().enumerate() {
                let middle = (row as f32 + 0.5) / f32::from(area.height);
                if let (Some(layer), Some(cell)) = (layer_at(shares, middle), buffer.cell_mut(place.as_position())) {
                    let Layer { glyph, style } = self.layers[layer];
                    cell.set_char(glyph).set_style(style);
                }
            }
        }
    }
}

/// The layer at a height of 0 … 1.
fn layer_at(shares: &[f32], height: f32) -> Option<usize> {
    let mut top = 0.0;
    shares.iter().position(|share| {
        top += share.max(0.0);
        height < top
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_stacked_from_the_bottom() {
        let layer = |glyph| Layer { glyph, style: Style::new() };
        let area = Rect::new(0, 0, 4, 4);
        let mut buffer = Buffer::empty(area);
        let columns = [Some([0.5, 0.25]), None, Some([0.0, 1.0])];
        StackedArea { columns: &columns, layers: [layer('#'), layer('.')] }.render(area, &mut buffer);
        assert_eq!(buffer, Buffer::with_lines(["  . ", ". . ", "# . ", "# . "]));
    }
}
