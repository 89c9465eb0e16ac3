//! The screen of pressure and cgroups: a row for each cgroup with a limit.

use crate::state::layout::{ListLines, ScreenLayout};
use crate::state::rows;
use crate::state::screen::ScreenDefinition;
use crate::state::sort;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "pressure",
    sort_columns: sort::CGROUP_COLUMNS,
    rows: |state, evaluation, filter| rows::cgroups(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |_, layout| ListLines { above: host_lines(layout) + 1, ..ListLines::default() },
};

/// Lines of the pressure of the host above the headings of the list: its headings, a line for each resource and a blank one, or
/// the frame of its graph.
pub fn host_lines(layout: &ScreenLayout) -> u16 {
    match layout.body_rows {
        ..=11 => 1,
        12..=23 => 6,
        rows if layout.width >= MIN_GRAPH_WIDTH => (rows / 3).clamp(8, 14),
        _ => 6,
    }
}

/// Columns from which a graph is beside the figures of the host.
pub const MIN_GRAPH_WIDTH: u16 = 100;
