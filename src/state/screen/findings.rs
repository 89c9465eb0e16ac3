//! The findings screen: active and ended findings.

use crate::state::layout::ListLines;
use crate::state::rows;
use crate::state::screen::ScreenDefinition;

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "findings",
    short_label: "find",
    sort_columns: &[],
    rows: rows::findings,
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 0,
    list_lines: |_, _| ListLines { above: 1, ..ListLines::default() },
    bands: &[],
    list_pane: None,
};
