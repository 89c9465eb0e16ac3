//! The selection among the items that a details page lists, such as the threads of a process.

use super::details::Details;
use super::rows::Item;

/// The items that the open page lists, as the last frame had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageItems {
    /// Each with the line of the page that it is on; a page with two columns has the items of the left one first
    pub lines: Vec<(usize, Item)>,
    /// Visible lines of the page
    pub height: usize,
}

impl PageItems {
    fn is_in_sight(&self, line: usize, top: usize) -> bool {
        // The headings of a table that begins above the page take its first line.
        line < top + self.height && (line > top || top == 0)
    }
}

impl Details {
    /// The selected item, if it is in sight.
    pub fn selected_in_sight(&self) -> Option<&Item> {
        let selected = self.selected.as_ref()?;
        let (line, item) = self.items.lines.iter().find(|(_, item)| item == selected)?;
        self.items.is_in_sight(*line, self.scroll_offset).then_some(item)
    }

    pub(super) fn lists_items(&self) -> bool {
        !self.items.lines.is_empty()
    }

    /// Down or up: to the next item that is in sight or comes into sight with the next line; else by one line.
    pub(super) fn select_next(&mut self, down: bool) {
        let (lines, height, top) = (&self.items.lines, self.items.height, self.scroll_offset);
        let in_sight = |line: usize| self.items.is_in_sight(line, top);
        let at = self.selected_in_sight().and_then(|selected| lines.iter().position(|(_, item)| item == selected));
        let next = match (at, down) {
            (Some(at), true) => Some(at + 1),
            (Some(at), false) => at.checked_sub(1),
            (None, true) => lines.iter().position(|&(line, _)| in_sight(line) || line >= top + height),
            (None, false) => lines.iter().rposition(|&(line, _)| in_sight(line) || line <= top),
        };
        let scrolled = if down { top + 1 } else { top.saturating_sub(1) };
        let next = next.and_then(|next| lines.get(next));
        let (offset, selected) = match next {
            Some((line, item)) if in_sight(*line) => (top, Some(item)),
            Some((line, item)) if self.items.is_in_sight(*line, scrolled) => (scrolled, Some(item)),
            // In the other column, on the other side of what is in sight.
            Some((line, item)) if at.is_some() && (*line < top) == down => {
                (line.saturating_sub(if down { 2 } else { height.saturating_sub(1) }), Some(item))
            }
            // The last item stays selected as long as it is in sight.
            _ => {
                let stays = at.and_then(|at| lines.get(at)).filter(|(line, _)| self.items.is_in_sight(*line, scrolled));
                (scrolled, stays.map(|(_, item)| item))
            }
        };
        let selected = selected.cloned();
        (self.scroll_offset, self.selected) = (offset, selected);
    }
}
