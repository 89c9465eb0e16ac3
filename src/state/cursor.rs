//! The cursor of a list: it stays on its item while the rows change places around it.

use super::rows::{Item, Row};

/// Where a list stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// The row under the cursor
    pub selected: usize,
    /// The first visible row
    pub top: usize,
    /// What is under the cursor, once somebody moved it; a cursor that nobody touched stays at the top
    pub item: Option<Item>,
}

impl Cursor {
    /// To a row, as far as there is one.
    pub fn select(&mut self, row: usize, rows: &[Row], item: impl Fn(Row) -> Option<Item>) {
        self.selected = row.min(rows.len().saturating_sub(1));
        self.item = rows.get(self.selected).copied().and_then(item);
    }

    /// After the rows changed: back onto its item, or as near as can be.
    pub fn follow_item(&mut self, rows: &[Row], item: impl Fn(Row) -> Option<Item>) {
        if let Some(wanted) = &self.item {
            let still = rows.get(self.selected).is_some_and(|&row| item(row).as_ref() == Some(wanted));
            if !still && let Some(place) = rows.iter().position(|&row| item(row).as_ref() == Some(wanted)) {
                self.selected = place;
            }
        }
        self.selected = self.selected.min(rows.len().saturating_sub(1));
    }

    /// Scrolls no more than is needed for the cursor to be seen. `lines` says how many lines a row takes.
    pub fn scroll_into_view(&mut self, rows: usize, height: usize, lines: impl Fn(usize) -> usize) {
        self.top = self.top.min(self.selected);
        let mut taken = 0;
        let mut first = self.selected;
        for row in (0..=self.selected.min(rows.saturating_sub(1))).rev() {
            taken += lines(row);
            if taken > height {
                break;
            }
            first = row;
        }
        self.top = self.top.max(first);
        // No empty lines below the last row while rows are hidden above.
        while self.top > 0 && (self.top - 1..rows).map(&lines).sum::<usize>() <= height {
            self.top -= 1;
        }
    }
}
