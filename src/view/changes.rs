//! Two frames, and what differs between them, cell by cell: all that the terminal need be told.
//!
//! Of ten thousand cells a few hundred are new each second. ratatui asks each of them how wide it is; here only those of rows
//! that are not the same are asked, and where one of these is wide, ratatui is: it knows what terminals make of them.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use unicode_width::UnicodeWidthChar;

/// The frame that is shown, and room for the next one.
#[derive(Debug)]
pub struct Frames {
    shown: Buffer,
    other: Buffer,
}

impl Frames {
    /// Of this size, with nothing on them.
    pub fn blank(width: u16, height: u16) -> Frames {
        let blank = Buffer::empty(Rect::new(0, 0, width, height));
        Frames { shown: blank.clone(), other: blank }
    }

    /// Shows what `render` draws; returns the cells that are new, each with column and row.
    pub fn turn(&mut self, render: impl FnOnce(&mut Buffer)) -> Vec<(u16, u16, &Cell)> {
        self.other.reset();
        render(&mut self.other);
        std::mem::swap(&mut self.shown, &mut self.other);
        between(&self.other, &self.shown)
    }
}

/// The cells of `next` that are to be drawn over `shown`, a frame of the same size.
fn between<'a>(shown: &Buffer, next: &'a Buffer) -> Vec<(u16, u16, &'a Cell)> {
    let width = usize::from(next.area.width).max(1);
    let rows = shown.content.chunks(width).zip(next.content.chunks(width)).zip(0_u16..);
    let mut changes = Vec::new();
    for ((before, after), y) in rows {
        let new = before.iter().zip(after).zip(0_u16..).filter(|((before, after), _)| !are_same(before, after));
        let known = changes.len();
        changes.extend(new.map(|((_, cell), x)| (x, y, cell)));
        if changes.len() > known && before.iter().chain(after).any(is_wide) {
            return shown.diff(next);
        }
    }
    changes
}

/// Whether both look the same: in all that the theme uses. Most symbols are one byte, which is compared without a call.
fn are_same(one: &Cell, other: &Cell) -> bool {
    let symbols = match (one.symbol().as_bytes(), other.symbol().as_bytes()) {
        ([one], [other]) => one == other,
        (one, other) => one == other,
    };
    symbols && one.fg == other.fg && one.bg == other.bg && one.modifier == other.modifier
}

/// Whether it takes another number of cells than one, or may.
fn is_wide(cell: &Cell) -> bool {
    let mut symbols = cell.symbol().chars();
    let only = symbols.next().filter(|_| symbols.next().is_none());
    only.is_none_or(|symbol| !symbol.is_ascii() && symbol.width() != Some(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::style::{Color, Modifier, Style};

    use super::*;

    const SIZE: Rect = Rect { x: 0, y: 0, width: 12, height: 4 };

    fn frame(wide: bool) -> impl Strategy<Value = Buffer> {
        let symbols = if wide { vec!["a", " ", "─", "漢", "❤\u{fe0f}", "é"] } else { vec!["a", " ", "─", "é", "▓"] };
        let symbol = prop::sample::select(symbols);
        let background = prop::sample::select(vec![Color::Reset, Color::Red]);
        let modifier = prop::sample::select(vec![Modifier::empty(), Modifier::REVERSED]);
        let cell = (0..SIZE.width - 1, 0..SIZE.height, symbol, background, modifier);
        prop::collection::vec(cell, 0..12).prop_map(|cells| {
            let mut frame = Buffer::empty(SIZE);
            for (x, y, symbol, background, modifier) in cells {
                frame.set_string(x, y, symbol, Style::new().bg(background).add_modifier(modifier));
            }
            frame
        })
    }

    proptest! {
        #[test]
        fn they_are_what_ratatui_finds(wide in frame(true), other in frame(true), plain in frame(false), last in frame(false)) {
            for (shown, next) in [(&wide, &other), (&plain, &last), (&plain, &wide), (&wide, &plain), (&plain, &plain)] {
                prop_assert_eq!(between(shown, next), shown.diff(next));
            }
        }
    }
}
