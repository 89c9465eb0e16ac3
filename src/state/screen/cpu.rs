//! The CPU screen: a row for each CPU.

use crate::state::rows;
use crate::state::screen::ScreenDefinition;
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "cpu",
    sort_columns: sort::CPU_COLUMNS,
    rows: |state, evaluation, filter| rows::cpus(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |state, layout| layout.cpu_screen(state),
};
