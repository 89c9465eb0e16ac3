//! The cursor and scroll position of a list. The cursor stays on its item when the rows are reordered.

use super::rows::{Item, Row};

/// Selection and scroll position of a list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cursor {
    /// The row under the cursor
    pub selected: usize,
    /// The first visible row
    pub top: usize,
    /// The selected item; `None` until the user moves the cursor, which then stays on the first row
    pub item: Option<Item>,
}

impl Cursor {
    /// Selects a row, or the last one if there are fewer rows.
    pub fn select(&mut self, row: usize, rows: &[Row], item: impl Fn(Row) -> Option<Item>) {
        self.selected = row.min(rows.len().saturating_sub(1));
        self.item = rows.get(self.selected).copied().and_then(item);
    }

    /// Selects the same item again after the rows have changed; if it is gone, keeps the row number.
    pub fn follow_item(&mut self, rows: &[Row], item: impl Fn(Row) -> Option<Item>) {
        if let Some(wanted) = &self.item {
            let still = rows.get(self.selected).is_some_and(|&row| item(row).as_ref() == Some(wanted));
            if !still && let Some(place) = rows.iter().position(|&row| item(row).as_ref() == Some(wanted)) {
                self.selected = place;
            }
        }
        self.selected = self.selected.min(rows.len().saturating_sub(1));
    }

    /// Scrolls the least distance that makes the selected row visible. `height` is the number of terminal lines of the list;
    /// `lines` returns the number of lines of a row.
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
