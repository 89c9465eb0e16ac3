//! The tasks screen: processes, threads, cgroups or wait classes.

use crate::state::layout::{self, ListLines};
use crate::state::panes::Band;
use crate::state::screen::ScreenDefinition;
use crate::state::sort;
use crate::state::task_rows::task_rows;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "tasks",
    short_label: "task",
    sort_columns: sort::TASK_COLUMNS,
    rows: |state, evaluation, filter| task_rows(state, evaluation, state.sort(), filter),
    fixed_order_reason: |state| match state.lists.task_rows {
        rows if rows.is_wait_classes() => Some("wait classes have a fixed order: c returns to tasks"),
        rows if rows.is_tree() && state.filter().is_empty() => Some("the tree is ordered by pid: T returns to the flat list"),
        _ => None,
    },
    finding_lines: |_| 1,
    list_lines: |state, _| {
        let below = u16::from(layout::hides_other_users(state));
        ListLines { above: 2, below, ..ListLines::default() }
    },
    bands: &[Band::new(&["threads by state", "cgroups"], 1, |_, _| (8, 12)), Band::new(&["tasks"], 0, |_, _| (9, u16::MAX))],
    list_pane: Some(2),
};
