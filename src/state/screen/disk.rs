//! The disk screen: a row for each device that is not idle.

use crate::state::layout::{self, ListLines};
use crate::state::panes::Band;
use crate::state::rows;
use crate::state::screen::{ScreenDefinition, rows_of};
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "disk",
    short_label: "disk",
    sort_columns: sort::DISK_COLUMNS,
    rows: |state, evaluation, filter| rows::disks(state, evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_| 1,
    list_lines: |_, _| ListLines { above: 1, ..ListLines::default() },
    bands: &[
        Band::new(&["await over time"], 0, |_, _| (8, 18)),
        Band::new(&["queue and throughput", "distribution of await"], 2, |_, _| (7, u16::MAX)),
        Band::new(&["devices"], 1, |state, _| {
            let lines: usize = state.lists.rows.iter().map(|&row| layout::row_height(state, row)).sum();
            // Frame, headings, and the notes below.
            (7, 6 + rows_of(lines))
        }),
    ],
    list_pane: Some(3),
};
