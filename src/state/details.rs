//! The details page of one item, and the scroll offset of what is open as a page.

use super::event::Effect;
use super::history::FollowedTask;
use super::rows::Item;
use super::{Overlay, State};

/// The details page of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Details {
    pub item: Item,
    /// The first visible line
    pub scroll_offset: usize,
}

impl Details {
    pub(super) fn new(item: Item) -> Details {
        Details { item, scroll_offset: 0 }
    }
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
        if self.details.is_none() {
            self.details = self.selected_item().map(Details::new);
        }
    }

    /// Esc: leaves the zoom, closes the page, or clears the filter; the first of them that there is.
    pub(super) fn close_details_or_clear_filter(&mut self) -> Effect {
        if self.shows_zoomed_pane() {
            self.leave_zoom();
        } else if self.details.take().is_none() {
            if self.options.leads_back && self.filter().is_empty() {
                return Effect::Leave;
            }
            self.set_filter(String::new());
        }
        Effect::Redraw
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
