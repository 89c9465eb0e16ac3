//! The details page of one item, and the scroll offset of what is open as a page. `page_selection` selects in it.

use super::event::Effect;
use super::history::FollowedTask;
use super::rows::Item;
use super::{Overlay, PageItems, State};

/// The details page of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    pub item: Item,
    /// The first visible line
    pub scroll_offset: usize,
    /// The selected item of those that the page lists
    pub selected: Option<Item>,
    pub(super) items: PageItems,
    /// The page from which this one was opened
    opened_from: Option<Box<Details>>,
}

impl State {
    /// The item of the open page, or of the selected row.
    pub fn open_or_selected_item(&self) -> Option<Item> {
        self.details.as_ref().map(|details| details.item.clone()).or_else(|| self.selected_item())
    }

    /// The process or thread of the open page.
    pub fn followed_task(&self) -> Option<FollowedTask> {
        match self.details.as_ref()?.item {
            Item::Process(id) => Some(FollowedTask::Process(id)),
            Item::Thread(id) => Some(FollowedTask::Thread(id)),
            _ => None,
        }
    }

    /// Opens the page of the selected item.
    pub(super) fn open_details(&mut self) {
        let selected = match &self.details {
            Some(details) => details.selected_in_sight().cloned(),
            None => self.selected_item(),
        };
        if let Some(item) = selected {
            self.open_page(item);
        }
    }

    /// Opens the page of an item; Esc returns to the page that is open now.
    pub(super) fn open_page(&mut self, item: Item) {
        let opened_from = self.details.take().map(Box::new);
        self.details = Some(Details { item, scroll_offset: 0, selected: None, items: PageItems::default(), opened_from });
    }

    /// Closes the page and shows the one from which it was opened; false if none is open.
    fn close_page(&mut self) -> bool {
        let Some(details) = self.details.take() else { return false };
        self.details = details.opened_from.map(|from| *from);
        true
    }

    /// Esc: leaves the zoom, closes the page, or clears the filter; the first that applies.
    pub(super) fn close_details_or_clear_filter(&mut self) -> Effect {
        if self.shows_zoomed_pane() {
            self.leave_zoom();
        } else if !self.close_page() {
            if self.options.leads_back && self.filter().is_empty() {
                return Effect::Leave;
            }
            self.set_filter(String::new());
        }
        Effect::Redraw
    }

    /// The open page, if it lists items and nothing is open above it.
    pub(super) fn page_to_select_on(&mut self) -> Option<&mut Details> {
        self.details.as_mut().filter(|details| self.overlay.is_none() && details.lists_items())
    }

    pub(super) fn clamp_scroll(&mut self, max: usize) {
        if let Some(offset) = self.page_scroll_offset() {
            *offset = max.min(*offset);
        }
    }

    /// The scroll offset of the open page (help or details).
    pub(super) fn page_scroll_offset(&mut self) -> Option<&mut usize> {
        match &mut self.overlay {
            Some(Overlay::Help { scroll_offset }) => Some(scroll_offset),
            _ => self.details.as_mut().map(|details| &mut details.scroll_offset),
        }
    }
}
