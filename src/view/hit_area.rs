//! Where a click does something: the drawing lists the areas, so that they are where the frame has them.

use ratatui::layout::{Position, Rect};

use crate::state::{ClickTarget, Item};

/// A rectangle of the frame and what a click on it does.
#[derive(Clone, Debug, PartialEq)]
pub struct HitArea {
    pub area: Rect,
    pub target: ClickTarget,
}

/// The target at a column and row: the one that was drawn last.
pub fn target_at(areas: &[HitArea], column: u16, row: u16) -> ClickTarget {
    let position = Position::new(column, row);
    let hit = areas.iter().rev().find(|hit| hit.area.contains(position));
    hit.map_or(ClickTarget::Nothing, |hit| hit.target.clone())
}

/// The time on the timeline nearest to a column, in nanoseconds since the Unix epoch: a drag may leave the row and its ends.
pub fn time_near(areas: &[HitArea], column: u16) -> Option<i64> {
    let times = areas.iter().filter_map(|hit| match hit.target {
        ClickTarget::Timeline(at) => Some((hit.area.x.abs_diff(column), at)),
        _ => None,
    });
    times.min_by_key(|time| time.0).map(|time| time.1)
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
