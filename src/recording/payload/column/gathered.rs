//! Rows on their way to be written column by column, in few bytes: of the half a million cells of ten thousand tasks most are 0
//! or small.

use crate::recording::wire::{put_varint, unzigzag, zigzag};

/// So many rows stand as they are before they are packed: most frames have fewer.
const BLOCK: usize = 64;

/// Rows of one width.
#[derive(Clone, Debug)]
pub struct Gathered {
    width: usize,
    /// Blocks of rows, column by column: varints of zigzag, or nothing where all are 0
    packed: Vec<u8>,
    /// Where each column of each block ends there
    ends: Vec<usize>,
    /// The rows behind them
    last: Vec<u64>,
    /// Of each column whether one of its packed cells is not 0
    used: Vec<bool>,
}

impl Gathered {
    pub fn new(width: usize) -> Gathered {
        Gathered { width, packed: Vec::new(), ends: Vec::new(), last: Vec::new(), used: Vec::new() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        let rows = |cells: usize| cells.checked_div(self.width).unwrap_or_default();
        rows(self.ends.len()) * BLOCK + rows(self.last.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more row; of no columns there are none.
    pub fn push(&mut self, cells: impl IntoIterator<Item = u64>) {
        if self.width == 0 {
            return;
        }
        if self.last.len() >= BLOCK * self.width {
            self.pack();
        }
        let from = self.last.len();
        self.last.extend(cells.into_iter().take(self.width));
        self.last.resize(from + self.width, 0);
    }

    fn pack(&mut self) {
        let Gathered { width, packed, ends, last, used } = self;
        if used.is_empty() {
            // A byte a cell is about what the first block takes, and more blocks will follow.
            used.resize(*width, false);
            packed.reserve(last.len());
            ends.reserve(16 * *width);
        }
        for (at, used) in used.iter_mut().enumerate() {
            let cells = last.iter().skip(at).step_by(*width);
            if cells.clone().any(|&cell| cell != 0) {
                cells.for_each(|&cell| put_varint(packed, zigzag(cell)));
                *used = true;
            }
            ends.push(packed.len());
        }
        last.clear();
    }

    /// The cells of one column, from the first row on.
    pub fn column(&self, column: usize) -> impl Iterator<Item = u64> {
        let width = self.width.max(1);
        let blocks = self.ends.len() / width;
        let packed = (0..blocks).flat_map(move |block| {
            let place = block * width + column;
            let begin = place.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
            let end = self.ends.get(place).copied().unwrap_or_default();
            cells(self.packed.get(begin..end).unwrap_or_default())
        });
        packed.chain(self.last.iter().skip(column).step_by(width).copied())
    }

    /// Of each column whether any of its cells is not 0.
    pub fn used(&self) -> Vec<bool> {
        let mut used = self.used.clone();
        used.resize(self.width, false);
        for row in self.last.chunks_exact(self.width.max(1)) {
            used.iter_mut().zip(row).for_each(|(used, &cell)| *used |= cell != 0);
        }
        used
    }
}

/// The cells of one column of a block.
fn cells(packed: &[u8]) -> impl Iterator<Item = u64> {
    let mut bytes = packed.iter();
    let all = if packed.is_empty() { BLOCK } else { 0 };
    let others = std::iter::from_fn(move || {
        let (mut value, mut shift) = (0, 0);
        for &byte in bytes.by_ref() {
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(unzigzag(value));
            }
        }
        None
    });
    std::iter::repeat_n(0, all).chain(others)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_went_in_comes_out_by_columns(
            width in 1..5_usize,
            rows in prop::collection::vec(prop::array::uniform4(prop_oneof![Just(0), 0..300_u64, any::<u64>()]), 0..300),
            zeros in 0..200_usize,
        ) {
            let rows: Vec<Vec<u64>> = std::iter::repeat_n([0; 4], zeros).chain(rows).map(|row| row[..width].to_vec()).collect();
            let mut gathered = Gathered::new(width);
            rows.iter().for_each(|row| gathered.push(row.iter().copied()));
            prop_assert_eq!(gathered.len(), rows.len());
            for column in 0..width {
                let cells: Vec<u64> = rows.iter().map(|row| row[column]).collect();
                prop_assert_eq!(gathered.used()[column], cells.iter().any(|&cell| cell != 0));
                prop_assert_eq!(gathered.column(column).collect::<Vec<u64>>(), cells);
            }
        }
    }
}
