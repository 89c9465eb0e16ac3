//! The cells of a frame, eight bytes each: there are ten thousand of them, blanked, drawn and compared each second.
//!
//! What is drawn, and where wide characters go, is as ratatui does it; a cell of its own takes 48 bytes.

use ratatui::buffer::{Buffer, CellWidth};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

/// What stands in a cell, and how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// A character, or `CLUSTER` and the place of several among the frame's clusters
    symbol: u32,
    look: Look,
}

/// No character has this bit.
const CLUSTER: u32 = 1 << 31;

impl Cell {
    const BLANK: Cell = Cell { symbol: ' ' as u32, look: Look(0) };

    /// Whether more than one character stands in it.
    pub fn is_cluster(self) -> bool {
        self.symbol & CLUSTER != 0
    }

    fn character(self) -> char {
        char::from_u32(self.symbol).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Whether it takes another number of cells than one, or may.
    pub fn is_wide(self) -> bool {
        let symbol = self.character();
        self.is_cluster() || !symbol.is_ascii() && symbol.width() != Some(1)
    }
}

/// Foreground, background and modifiers, nine bits each. Of no colour and without a modifier it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look(u32);

/// Colours by their number; those of the 256 follow from `INDEXED` on.
const NAMED: [Color; 17] = [
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
const INDEXED: u32 = 256;
const COLOUR: u32 = 0x1ff;
const BACKGROUND: u32 = 9;
const MODIFIERS: u32 = 18;

fn number(colour: Color) -> u32 {
    let indexed = |index: u8| INDEXED + u32::from(index);
    match colour {
        Color::Indexed(index) => indexed(index),
        // The theme has none of these; the nearest in the cube of 6 × 6 × 6.
        Color::Rgb(red, green, blue) => indexed(16 + red / 51 * 36 + green / 51 * 6 + blue / 51),
        named => (0..).zip(NAMED).find(|(_, other)| *other == named).map_or(0, |(number, _)| number),
    }
}

fn colour(number: u32) -> Color {
    match u8::try_from(number.wrapping_sub(INDEXED)) {
        Ok(index) => Color::Indexed(index),
        Err(_) => NAMED.get(number as usize).copied().unwrap_or_default(),
    }
}

/// What a style changes of a look: that of text which was drawn over stays where the style says nothing.
#[derive(Clone, Copy)]
struct Brush {
    changed: u32,
    to: u32,
}

impl Brush {
    fn of(style: Style) -> Brush {
        let bits = |modifiers: Modifier| u32::from(modifiers.bits()) << MODIFIERS;
        let mut brush =
            Brush { changed: bits(style.add_modifier | style.sub_modifier), to: bits(style.add_modifier - style.sub_modifier) };
        for (colour, shift) in [(style.fg, 0), (style.bg, BACKGROUND)] {
            if let Some(colour) = colour {
                brush.changed |= COLOUR << shift;
                brush.to |= number(colour) << shift;
            }
        }
        brush
    }

    fn over(self, look: Look) -> Look {
        Look(look.0 & !self.changed | self.to)
    }
}

/// A cell as the terminal is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    pub symbol: Symbol<'a>,
    pub fg: Color,
    pub bg: Color,
    pub modifier: Modifier,
}

/// What stands in a cell.
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
pub struct Cells {
    width: u16,
    height: u16,
    /// Row by row
    cells: Vec<Cell>,
    clusters: Vec<Box<str>>,
}

impl Cells {
    /// Of this size, with nothing on them.
    pub fn blank(width: u16, height: u16) -> Cells {
        let cells = vec![Cell::BLANK; usize::from(width) * usize::from(height)];
        Cells { width, height, cells, clusters: Vec::new() }
    }

    /// Nothing on them.
    pub fn reset(&mut self) {
        self.cells.fill(Cell::BLANK);
        self.clusters.clear();
    }

    pub fn area(&self) -> Rect {
        Rect::new(0, 0, self.width, self.height)
    }

    /// Each row from the top down.
    pub fn rows(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunks_exact(usize::from(self.width).max(1))
    }

    /// Whether some cell holds more than a character, so that equal cells of two frames need not look the same.
    pub fn has_clusters(&self) -> bool {
        !self.clusters.is_empty()
    }

    /// What the terminal is told of that cell of this frame.
    pub fn shown(&self, cell: Cell) -> Shown<'_> {
        let bits = u16::try_from(cell.look.0 >> MODIFIERS).unwrap_or_default();
        Shown {
            symbol: self.symbol(cell),
            fg: colour(cell.look.0 & COLOUR),
            bg: colour(cell.look.0 >> BACKGROUND & COLOUR),
            modifier: Modifier::from_bits_truncate(bits),
        }
    }

    pub fn at(&self, x: u16, y: u16) -> Shown<'_> {
        self.shown(self.place(x, y).and_then(|place| self.cells.get(place)).copied().unwrap_or(Cell::BLANK))
    }

    fn symbol(&self, cell: Cell) -> Symbol<'_> {
        let cluster = self.clusters.get((cell.symbol & !CLUSTER) as usize).filter(|_| cell.is_cluster());
        cluster.map_or_else(|| Symbol::Character(cell.character()), |cluster| Symbol::Cluster(cluster))
    }

    /// These rows as ratatui knows them.
    pub fn buffer(&self, top: u16, height: u16) -> Buffer {
        let area = Rect::new(0, top, self.width, height).intersection(self.area());
        let mut buffer = Buffer::empty(area);
        for place in area.positions() {
            let Shown { symbol, fg, bg, modifier } = self.at(place.x, place.y);
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

    fn place(&self, x: u16, y: u16) -> Option<usize> {
        (x < self.width && y < self.height).then(|| usize::from(y) * usize::from(self.width) + usize::from(x))
    }

    fn row_from(&mut self, x: u16, y: u16) -> &mut [Cell] {
        let left = usize::from(self.width.saturating_sub(x));
        let place = self.place(x, y);
        place.and_then(|place| self.cells.get_mut(place..place + left)).unwrap_or_default()
    }

    /// One character, which takes one cell.
    pub fn set(&mut self, x: u16, y: u16, character: char, style: Style) {
        self.letters(x, y, std::iter::once(character), style);
    }

    /// Characters that take a cell each; returns how many there were room for.
    pub fn letters(&mut self, x: u16, y: u16, letters: impl Iterator<Item = char>, style: Style) -> u16 {
        let brush = Brush::of(style);
        let mut count = 0;
        for (cell, letter) in self.row_from(x, y).iter_mut().zip(letters) {
            *cell = Cell { symbol: letter.into(), look: brush.over(cell.look) };
            count += 1;
        }
        count
    }

    /// Text of any kind, cut to so many cells; returns the column behind it.
    pub fn text(&mut self, x: u16, y: u16, text: &str, width: u16, style: Style) -> u16 {
        let brush = Brush::of(style);
        let (mut x, mut left) = (x, width.min(self.width.saturating_sub(x)));
        for cluster in text.graphemes(true).filter(|cluster| !cluster.contains(char::is_control)) {
            let taken = cluster.cell_width();
            let Some(rest) = left.checked_sub(taken) else { break };
            if taken == 0 {
                continue;
            }
            left = rest;
            let symbol = self.code(cluster);
            if let Some((cell, hidden)) = self.row_from(x, y).split_first_mut() {
                *cell = Cell { symbol, look: brush.over(cell.look) };
                hidden.iter_mut().take(usize::from(taken) - 1).for_each(|cell| *cell = Cell::BLANK);
            }
            x += taken;
        }
        x
    }

    fn code(&mut self, cluster: &str) -> u32 {
        let mut characters = cluster.chars();
        match (characters.next(), characters.next()) {
            (Some(only), None) => only.into(),
            _ => {
                self.clusters.push(cluster.into());
                // There are fewer cells than that.
                CLUSTER | u32::try_from(self.clusters.len() - 1).unwrap_or_default()
            }
        }
    }

    /// Changes how these cells look.
    pub fn restyle(&mut self, area: Rect, style: Style) {
        let brush = Brush::of(style);
        self.each(area, |cell| cell.look = brush.over(cell.look));
    }

    /// Nothing, whatever was drawn here before.
    pub fn clear(&mut self, area: Rect) {
        self.each(area, |cell| *cell = Cell::BLANK);
    }

    fn each(&mut self, area: Rect, change: impl Fn(&mut Cell)) {
        let area = area.intersection(self.area());
        for y in area.top()..area.bottom() {
            self.row_from(area.x, y).iter_mut().take(usize::from(area.width)).for_each(&change);
        }
    }
}

/// Its text, a line a row.
impl std::fmt::Display for Cells {
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
        fn they_hold_what_ratatui_s_would(
            texts in prop::collection::vec((0..16_u16, 0..3_u16, words(), 0..20_u16, style()), 0..8),
            area in (0..14_u16, 0..3_u16, 0..9_u16, 0..4_u16, style(), any::<bool>()),
        ) {
            let (mut ours, mut theirs) = (Cells::blank(SIZE.width, SIZE.height), Buffer::empty(SIZE));
            for (x, y, words, width, style) in texts {
                // Of a column outside ratatui would panic.
                let ends = ours.text(x, y, &words, width, style);
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
                ours.restyle(area, style);
                theirs.set_style(area, style);
            }
            prop_assert_eq!(ours.buffer(0, SIZE.height), theirs);
        }
    }

    #[test]
    fn a_cell_takes_eight_bytes() {
        assert_eq!(size_of::<Cell>(), 8);
    }
}
