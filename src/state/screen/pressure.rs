//! The screen of pressure and cgroups: a row for each cgroup with a limit.

use crate::state::layout::{ListLines, ScreenLayout};
use crate::state::panes::Band;
use crate::state::rows;
use crate::state::screen::{ScreenDefinition, rows_of};
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "pressure",
    short_label: "psi",
    sort_columns: sort::CGROUP_COLUMNS,
    rows: |state, evaluation, filter| rows::cgroups(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |_, layout| ListLines { above: host_lines(layout) + 1, ..ListLines::default() },
    bands: &[
        Band { panes: &["pressure of the host", "pressure over time"], rows: |_, _| (8, 14), priority: 1 },
        // Frame, headings, and a note below.
        Band { panes: &["cgroups"], rows: |state, _| (7, 4 + rows_of(state.rows.len())), priority: 0 },
    ],
    list_pane: Some(2),
};

/// Lines of the pressure of the host above the headings of the list: its headings, a line for each resource and a blank one.
pub fn host_lines(layout: &ScreenLayout) -> u16 {
    match layout.body_rows {
        _ if layout.has_panes() => 0,
        ..=11 => 1,
        _ => 6,
    }
}
