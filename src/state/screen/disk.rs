//! The disk screen: a row for each device that is not idle.

use crate::state::layout::ListLines;
use crate::state::rows;
use crate::state::screen::ScreenDefinition;
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "disk",
    sort_columns: sort::DISK_COLUMNS,
    rows: |state, evaluation, filter| rows::disks(state, evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |_, _| ListLines { above: 1, ..ListLines::default() },
};
