//! The screen of pressure, memory and cgroups: a row for each cgroup with a limit.

use crate::state::layout::{ListLines, ScreenLayout};
use crate::state::panes::Band;
use crate::state::rows;
use crate::state::screen::ScreenDefinition;
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "pressure",
    short_label: "psi",
    sort_columns: sort::CGROUP_COLUMNS,
    rows: |state, evaluation, filter| rows::cgroups(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_| 1,
    list_lines: |_, layout| ListLines { above: host_lines(layout) + 1, ..ListLines::default() },
    bands: &[
        Band::new(&["pressure of the host", "pressure over time"], 1, |_, _| (8, 17)),
        Band::new(&["memory of the host", "memory over time"], 2, |_, _| (7, 9)),
        Band::new(&["load average", "cgroups by time"], 3, |_, _| (7, u16::MAX)),
        // Frame, headings and rows; a line that says that there are none.
        Band::new(&["cgroups"], 0, |state, _| (5, 3 + u16::try_from(state.lists.rows.len()).unwrap_or(u16::MAX - 3).max(1))),
    ],
    list_pane: Some(6),
};

/// Lines of the host above the headings of the list: headings, a line for each resource, a blank one, and its memory.
pub fn host_lines(layout: &ScreenLayout) -> u16 {
    match layout.body_rows {
        _ if layout.has_panes() => 0,
        ..=11 => 1,
        _ => 6 + memory_lines(layout),
    }
}

/// How many of them are of its memory, with a blank line below.
pub fn memory_lines(layout: &ScreenLayout) -> u16 {
    if layout.body_rows >= 18 && !layout.has_panes() { 6 } else { 0 }
}
