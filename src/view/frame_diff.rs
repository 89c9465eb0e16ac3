//! A double buffer of frames, and the cells that differ between them.
//!
//! Equal rows are skipped. A row with wide characters is compared by ratatui, which knows how terminals place them.

use super::cell_buffer::{CellBuffer, StyledCell};

/// The displayed frame and the buffer of the next one.
#[derive(Debug)]
pub struct DoubleBuffer {
    front: CellBuffer,
    back: CellBuffer,
}

impl DoubleBuffer {
    /// Two blank frames.
    pub fn new(width: u16, height: u16) -> DoubleBuffer {
        let blank = CellBuffer::empty(width, height);
        DoubleBuffer { front: blank.clone(), back: blank }
    }

    /// Draws the next frame with `render`; returns the changed cells.
    pub fn draw(&mut self, render: impl FnOnce(&mut CellBuffer)) -> FrameDiff<'_> {
        self.back.reset();
        render(&mut self.back);
        std::mem::swap(&mut self.front, &mut self.back);
        diff(&self.back, &self.front)
    }
}

/// The changed cells of a frame, row by row.
#[derive(Clone, Debug)]
pub struct FrameDiff<'a> {
    cells: &'a CellBuffer,
    /// Column and row of each
    positions: Vec<(u16, u16)>,
}

impl<'a> FrameDiff<'a> {
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Column, row and content of each changed cell.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u16, StyledCell<'a>)> {
        let cells = self.cells;
        self.positions.iter().map(|&(x, y)| (x, y, cells.cell_at(x, y)))
    }
}

/// The cells of `next` that differ from `shown`, a frame of the same size.
fn diff<'a>(shown: &CellBuffer, next: &'a CellBuffer) -> FrameDiff<'a> {
    let mut places = Vec::new();
    let clusters = shown.has_clusters() || next.has_clusters();
    for ((before, after), y) in shown.rows().zip(next.rows()).zip(0..) {
        if before == after && !clusters {
            continue;
        }
        if before.iter().chain(after).any(|cell| cell.may_be_wide()) {
            let (before, after) = (shown.to_buffer(y, 1), next.to_buffer(y, 1));
            places.extend(before.diff(&after).into_iter().map(|(x, y, _)| (x, y)));
        } else {
            let new = before.iter().zip(after).zip(0..).filter(|((before, after), _)| before != after);
            places.extend(new.map(|(_, x)| (x, y)));
        }
    }
    FrameDiff { cells: next, positions: places }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;
    use ratatui::style::{Color, Modifier, Style};

    use super::*;

    const SIZE: Rect = Rect { x: 0, y: 0, width: 12, height: 4 };

    fn frame(wide: bool) -> impl Strategy<Value = (CellBuffer, Buffer)> {
        let symbols = if wide {
            vec!["a", " ", "─", "漢", "❤\u{fe0f}", "é", "e\u{301}"]
        } else {
            vec!["a", " ", "─", "é", "▓"]
        };
        let symbol = prop::sample::select(symbols);
        let background = prop::sample::select(vec![Color::Reset, Color::Red]);
        let modifier = prop::sample::select(vec![Modifier::empty(), Modifier::REVERSED]);
        let cell = (0..SIZE.width - 1, 0..SIZE.height, symbol, background, modifier);
        prop::collection::vec(cell, 0..12).prop_map(|cells| {
            let (mut ours, mut theirs) = (CellBuffer::empty(SIZE.width, SIZE.height), Buffer::empty(SIZE));
            for (x, y, symbol, background, modifier) in cells {
                let style = Style::new().bg(background).add_modifier(modifier);
                ours.set_text(x, y, symbol, SIZE.width, style);
                theirs.set_string(x, y, symbol, style);
            }
            (ours, theirs)
        })
    }

    proptest! {
        #[test]
        fn changes_equal_those_of_ratatui(wide in frame(true), other in frame(true), plain in frame(false), last in frame(false)) {
            for (shown, next) in [(&wide, &other), (&plain, &last), (&plain, &wide), (&wide, &plain), (&plain, &plain), (&wide, &wide)] {
                let theirs = shown.1.diff(&next.1);
                let changes = diff(&shown.0, &next.0);
                prop_assert_eq!(changes.len(), theirs.len());
                for ((x, y, cell), their) in changes.iter().zip(theirs) {
                    prop_assert_eq!((x, y, cell.symbol.to_string(), cell.fg, cell.bg, cell.modifier),
                        (their.0, their.1, their.2.symbol().to_owned(), their.2.fg, their.2.bg, their.2.modifier));
                }
            }
        }
    }
}
