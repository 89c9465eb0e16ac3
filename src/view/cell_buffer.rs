//! The cells of a frame, eight bytes each; a cell of ratatui has 48. About ten thousand cells are cleared, drawn and compared
//! per frame.
//!
//! Text and wide characters are placed as in ratatui's `Buffer`.

use ratatui::buffer::{Buffer, CellWidth};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

/// Symbol and style of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// A character, or `CLUSTER_FLAG` and an index into the frame's grapheme clusters
    symbol: u32,
    style: PackedStyle,
}

/// A bit that no character has.
const CLUSTER_FLAG: u32 = 1 << 31;

impl Cell {
    const BLANK: Cell = Cell { symbol: ' ' as u32, style: PackedStyle(0) };

    /// Whether the symbol is a grapheme cluster of several characters.
    pub fn is_cluster(self) -> bool {
        self.symbol & CLUSTER_FLAG != 0
    }

    fn character(self) -> char {
        char::from_u32(self.symbol).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Whether the symbol may be wider than one cell.
    pub fn may_be_wide(self) -> bool {
        let symbol = self.character();
        self.is_cluster() || !symbol.is_ascii() && symbol.width() != Some(1)
    }
}

/// Foreground, background and modifiers, nine bits each; 0: default colors, no modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedStyle(u32);

/// Codes of the named colors; indexed colors have codes from `INDEXED_COLORS_START`.
const NAMED_COLORS: [Color; 17] = [
    Color::Reset,
    Color::Black,
    Color::Red,
    Color::Green,
    Color::Yellow,
    Color::Blue,
    Color::Magenta,
    Color::Cyan,
    Color::Gray,
    Color::DarkGray,
    Color::LightRed,
    Color::LightGreen,
    Color::LightYellow,
    Color::LightBlue,
    Color::LightMagenta,
    Color::LightCyan,
    Color::White,
];
const INDEXED_COLORS_START: u32 = 256;
const COLOR_MASK: u32 = 0x1ff;
const BACKGROUND_SHIFT: u32 = 9;
const MODIFIER_SHIFT: u32 = 18;

fn encode_color(colour: Color) -> u32 {
    let indexed = |index: u8| INDEXED_COLORS_START + u32::from(index);
    match colour {
        Color::Indexed(index) => indexed(index),
        // The theme has no RGB colors; this is the nearest one of the 6 × 6 × 6 cube.
        Color::Rgb(red, green, blue) => indexed(16 + red / 51 * 36 + green / 51 * 6 + blue / 51),
        named => (0..).zip(NAMED_COLORS).find(|(_, other)| *other == named).map_or(0, |(number, _)| number),
    }
}

fn decode_color(number: u32) -> Color {
    match u8::try_from(number.wrapping_sub(INDEXED_COLORS_START)) {
        Ok(index) => Color::Indexed(index),
        Err(_) => NAMED_COLORS.get(number as usize).copied().unwrap_or_default(),
    }
}

/// The bits that a `Style` changes; the others keep the style of the cell.
#[derive(Clone, Copy)]
struct StylePatch {
    mask: u32,
    bits: u32,
}

impl StylePatch {
    fn from_style(style: Style) -> StylePatch {
        let bits = |modifiers: Modifier| u32::from(modifiers.bits()) << MODIFIER_SHIFT;
        let mut brush = StylePatch {
            mask: bits(style.add_modifier | style.sub_modifier),
            bits: bits(style.add_modifier - style.sub_modifier),
        };
        for (colour, shift) in [(style.fg, 0), (style.bg, BACKGROUND_SHIFT)] {
            if let Some(colour) = colour {
                brush.mask |= COLOR_MASK << shift;
                brush.bits |= encode_color(colour) << shift;
            }
        }
        brush
    }

    fn apply(self, capabilities: PackedStyle) -> PackedStyle {
        PackedStyle(capabilities.0 & !self.mask | self.bits)
    }
}

/// A cell with its style unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StyledCell<'a> {
    pub symbol: Symbol<'a>,
    pub fg: Color,
    pub bg: Color,
    pub modifier: Modifier,
}

/// The symbol of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol<'a> {
    Character(char),
    Cluster(&'a str),
}

impl std::fmt::Display for Symbol<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        match self {
            Symbol::Character(character) => f.write_char(*character),
            Symbol::Cluster(cluster) => f.write_str(cluster),
        }
    }
}

/// A frame.
#[derive(Clone, Debug)]
pub struct CellBuffer {
    width: u16,
    height: u16,
    /// Row by row
    cells: Vec<Cell>,
    clusters: Vec<Box<str>>,
}

impl CellBuffer {
    /// A blank frame.
    pub fn empty(width: u16, height: u16) -> CellBuffer {
        let cells = vec![Cell::BLANK; usize::from(width) * usize::from(height)];
        CellBuffer { width, height, cells, clusters: Vec::new() }
    }

    /// Clears all cells.
    pub fn reset(&mut self) {
        self.cells.fill(Cell::BLANK);
        self.clusters.clear();
    }

    pub fn area(&self) -> Rect {
        Rect::new(0, 0, self.width, self.height)
    }

    /// The rows from top to bottom.
    pub fn rows(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunks_exact(usize::from(self.width).max(1))
    }

    /// Whether a cell has a grapheme cluster: then equal cells of two frames may differ, since clusters are indices.
    pub fn has_clusters(&self) -> bool {
        !self.clusters.is_empty()
    }

    /// Unpacks a cell of this frame.
    pub fn styled_cell(&self, cell: Cell) -> StyledCell<'_> {
        let bits = u16::try_from(cell.style.0 >> MODIFIER_SHIFT).unwrap_or_default();
        StyledCell {
            symbol: self.symbol(cell),
            fg: decode_color(cell.style.0 & COLOR_MASK),
            bg: decode_color(cell.style.0 >> BACKGROUND_SHIFT & COLOR_MASK),
            modifier: Modifier::from_bits_truncate(bits),
        }
    }

    pub fn cell_at(&self, x: u16, y: u16) -> StyledCell<'_> {
        self.styled_cell(self.index(x, y).and_then(|place| self.cells.get(place)).copied().unwrap_or(Cell::BLANK))
    }

    fn symbol(&self, cell: Cell) -> Symbol<'_> {
        let cluster = self.clusters.get((cell.symbol & !CLUSTER_FLAG) as usize).filter(|_| cell.is_cluster());
        cluster.map_or_else(|| Symbol::Character(cell.character()), |cluster| Symbol::Cluster(cluster))
    }

    /// Converts rows to a ratatui `Buffer`.
    pub fn to_buffer(&self, top: u16, height: u16) -> Buffer {
        let area = Rect::new(0, top, self.width, height).intersection(self.area());
        let mut buffer = Buffer::empty(area);
        for place in area.positions() {
            let StyledCell { symbol, fg, bg, modifier } = self.cell_at(place.x, place.y);
            if let Some(cell) = buffer.cell_mut(place) {
                cell.set_style(Style::new().fg(fg).bg(bg).add_modifier(modifier));
                match symbol {
                    Symbol::Character(character) => cell.set_char(character),
                    Symbol::Cluster(cluster) => cell.set_symbol(cluster),
                };
            }
        }
        buffer
    }

    fn index(&self, x: u16, y: u16) -> Option<usize> {
        (x < self.width && y < self.height).then(|| usize::from(y) * usize::from(self.width) + usize::from(x))
    }

    fn row_tail(&mut self, x: u16, y: u16) -> &mut [Cell] {
        let left = usize::from(self.width.saturating_sub(x));
        let place = self.index(x, y);
        place.and_then(|place| self.cells.get_mut(place..place + left)).unwrap_or_default()
    }

    /// Draws a character of one cell.
    pub fn set_char(&mut self, x: u16, y: u16, character: char, style: Style) {
        self.set_chars(x, y, std::iter::once(character), style);
    }

    /// Draws characters of one cell each; returns how many fit.
    pub fn set_chars(&mut self, x: u16, y: u16, letters: impl Iterator<Item = char>, style: Style) -> u16 {
        let brush = StylePatch::from_style(style);
        let mut count = 0;
        for (cell, letter) in self.row_tail(x, y).iter_mut().zip(letters) {
            *cell = Cell { symbol: letter.into(), style: brush.apply(cell.style) };
            count += 1;
        }
        count
    }

    /// Draws any text, cut to `width` cells; returns the column after it.
    pub fn set_text(&mut self, x: u16, y: u16, text: &str, width: u16, style: Style) -> u16 {
        let brush = StylePatch::from_style(style);
        let (mut x, mut left) = (x, width.min(self.width.saturating_sub(x)));
        for cluster in text.graphemes(true).filter(|cluster| !cluster.contains(char::is_control)) {
            let taken = cluster.cell_width();
            let Some(rest) = left.checked_sub(taken) else { break };
            if taken == 0 {
                continue;
            }
            left = rest;
            let symbol = self.encode_symbol(cluster);
            if let Some((cell, hidden)) = self.row_tail(x, y).split_first_mut() {
                *cell = Cell { symbol, style: brush.apply(cell.style) };
                hidden.iter_mut().take(usize::from(taken) - 1).for_each(|cell| *cell = Cell::BLANK);
            }
            x += taken;
        }
        x
    }

    fn encode_symbol(&mut self, cluster: &str) -> u32 {
        let mut characters = cluster.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => only.into(),
            _ => {
                self.clusters.push(cluster.into());
                // There are fewer cells than u32 values.
                CLUSTER_FLAG | u32::try_from(self.clusters.len() - 1).unwrap_or_default()
            }
        }
    }

    /// Applies a style to an area.
    pub fn set_style(&mut self, area: Rect, style: Style) {
        let brush = StylePatch::from_style(style);
        self.for_each_cell(area, |cell| cell.style = brush.apply(cell.style));
    }

    /// Clears an area.
    pub fn clear(&mut self, area: Rect) {
        self.for_each_cell(area, |cell| *cell = Cell::BLANK);
    }

    fn for_each_cell(&mut self, area: Rect, change: impl Fn(&mut Cell)) {
        let area = area.intersection(self.area());
        for y in area.top()..area.bottom() {
            self.row_tail(area.x, y).iter_mut().take(usize::from(area.width)).for_each(&change);
        }
    }
}

/// The text, one line per row.
impl std::fmt::Display for CellBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.rows().try_for_each(|row| {
            row.iter().try_for_each(|&cell| self.symbol(cell).fmt(f))?;
            f.write_str("\n")
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: Rect = Rect { x: 0, y: 0, width: 14, height: 3 };

    fn style() -> impl Strategy<Value = Style> {
        let colour = prop::sample::select(vec![Color::Reset, Color::Red, Color::White, Color::Indexed(0), Color::Indexed(255)]);
        let modifiers =
            prop::sample::select(vec![Modifier::empty(), Modifier::BOLD, Modifier::DIM | Modifier::REVERSED, Modifier::all()]);
        let colours = (prop::option::of(colour.clone()), prop::option::of(colour));
        (colours, modifiers.clone(), modifiers).prop_map(|((fg, bg), add, sub)| {
            let style = Style { fg, bg, ..Style::new() };
            style.add_modifier(add).remove_modifier(sub)
        })
    }

    fn words() -> impl Strategy<Value = String> {
        let pieces = vec!["a", "B7", " ", "─", "漢", "❤\u{fe0f}", "é", "e\u{301}", "👩\u{200d}👧", "\u{7}", "\u{200b}", "▓"];
        prop::collection::vec(prop::sample::select(pieces), 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn content_equals_that_of_ratatui(
            texts in prop::collection::vec((0..16_u16, 0..3_u16, words(), 0..20_u16, style()), 0..8),
            area in (0..14_u16, 0..3_u16, 0..9_u16, 0..4_u16, style(), any::<bool>()),
        ) {
            let (mut ours, mut theirs) = (CellBuffer::empty(SIZE.width, SIZE.height), Buffer::empty(SIZE));
            for (x, y, words, width, style) in texts {
                // ratatui panics on a column outside.
                let ends = ours.set_text(x, y, &words, width, style);
                if x < SIZE.width {
                    prop_assert_eq!(ends, theirs.set_stringn(x, y, &words, usize::from(width), style).0);
                } else {
                    prop_assert_eq!(ends, x);
                }
            }
            let (x, y, width, height, style, clears) = area;
            let area = Rect { x, y, width, height };
            if clears {
                ours.clear(area);
                area.intersection(SIZE).positions().for_each(|place| theirs[place].reset());
            } else {
                ours.set_style(area, style);
                theirs.set_style(area, style);
            }
            prop_assert_eq!(ours.to_buffer(0, SIZE.height), theirs);
        }
    }

    #[test]
    fn a_cell_has_eight_bytes() {
        assert_eq!(size_of::<Cell>(), 8);
    }
}
