//! Areas that react to clicks, listed while drawing, so that they are where the frame has them.

use ratatui::layout::{Position, Rect};

use crate::state::keys::Action;
use crate::state::{ClickTarget, Item};

/// A rectangle of the frame and what a click on it does.
#[derive(Clone, Debug, PartialEq)]
pub struct HitArea {
    pub area: Rect,
    pub target: ClickTarget,
}

impl HitArea {
    /// The time at a column of a graph or of the timeline, in nanoseconds since the Unix epoch; at its nearest end for a column
    /// beside it.
    pub fn time_at(&self, column: u16) -> Option<i64> {
        let ClickTarget::Times { start_ns, end_ns } = self.target else { return None };
        let width = self.area.width.max(1);
        let cell = column.saturating_sub(self.area.x).min(width - 1);
        let offset = i128::from(end_ns.saturating_sub(start_ns)) * (2 * i128::from(cell) + 1) / (2 * i128::from(width));
        Some(start_ns.saturating_add(i64::try_from(offset).unwrap_or(0)))
    }
}

/// The area at a column and row: the one that was drawn last.
pub fn area_at(areas: &[HitArea], column: u16, row: u16) -> Option<&HitArea> {
    areas.iter().rev().find(|hit| hit.area.contains(Position::new(column, row)))
}

/// The target at a column and row.
pub fn target_at(areas: &[HitArea], column: u16, row: u16) -> ClickTarget {
    let Some(hit) = area_at(areas, column, row) else { return ClickTarget::Nothing };
    hit.time_at(column).map_or_else(|| hit.target.clone(), ClickTarget::Time)
}

/// The items that the frame shows, from top to bottom.
pub fn drawn_items(areas: &[HitArea]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for hit in areas {
        if let ClickTarget::Item(item) = &hit.target
            && !items.contains(item)
        {
            items.push(item.clone());
        }
    }
    items
}

/// The offset at which the list of the frame ends at the right; `None` if it has the sign that it goes on there.
pub fn list_end_offset(areas: &[HitArea]) -> Option<u16> {
    let goes_on = areas.iter().any(|hit| hit.target == ClickTarget::Action(Action::MoveRight));
    let moved = areas.iter().find_map(|hit| if let ClickTarget::MovedList(cells) = hit.target { Some(cells) } else { None });
    (!goes_on).then_some(moved.unwrap_or(0))
}
