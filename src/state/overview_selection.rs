//! The selection on the overview: findings, and the rows of all panes, in the order in which the frame shows them.

use super::State;
use super::rows::{self, Item};
use super::screen::Screen;
use crate::interval::Interval;
use crate::interval::process_groups::ProcessGroup;

impl State {
    /// Whether an item of the overview is selected.
    pub fn is_selected(&self, item: &Item) -> bool {
        self.selects_on_overview() && self.cursor().item.as_ref() == Some(item)
    }

    /// The item of a row of processes: its selected process, or its most active one.
    pub fn item_of_group(&self, interval: &Interval, group: &ProcessGroup) -> Option<Item> {
        let tasks = interval.newer.tasks.as_ref().ok()?;
        if let Some(Item::Process(id)) = &self.cursor().item
            && tasks.process(id.pid).is_some_and(|process| process.id() == *id && process.group() == group.id)
        {
            return Some(Item::Process(*id));
        }
        tasks.process(group.pid).map(|process| Item::Process(process.id()))
    }

    /// Whether arrows and clicks select items of the overview.
    pub(super) fn selects_on_overview(&self) -> bool {
        self.screen == Screen::Overview && self.details.is_none()
    }

    /// Selects the item that is this number of items below the selected one.
    pub(super) fn move_on_overview(&mut self, by: i64) {
        let mut items: Vec<Item> = self.lists.rows.iter().filter_map(|&row| rows::row_item(self, row)).collect();
        let drawn = self.lists.drawn_items.iter().filter(|item| !matches!(item, Item::Finding { .. }));
        items.extend(drawn.cloned());
        let selected = self.cursor().item.as_ref().and_then(|selected| items.iter().position(|item| item == selected));
        let to = match selected {
            Some(at) => at.saturating_add_signed(isize::try_from(by).unwrap_or(0)),
            // The first key selects the first item.
            None if by.abs() <= 1 => 0,
            None => usize::try_from(by).unwrap_or(0),
        };
        if let Some(item) = items.get(to.min(items.len().saturating_sub(1))) {
            self.select_item(item.clone());
        }
    }
}
