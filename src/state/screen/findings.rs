//! The findings screen: active and ended findings, and on large terminals the explanation of the selected one.

use crate::state::layout::ListLines;
use crate::state::panes::Band;
use crate::state::rows::{self, Row};
use crate::state::screen::{ScreenDefinition, rows_of};

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "findings",
    short_label: "find",
    sort_columns: &[],
    rows: rows::findings,
    fixed_order_reason: |_| None,
    finding_lines: |_| 0,
    list_lines: |_, layout| ListLines { above: u16::from(!layout.has_panes()), ..ListLines::default() },
    bands: &[
        Band::new(&["findings"], 0, |state, _| {
            let sentence = if state.setup.size.0 < 160 { 3 } else { 2 };
            let lines = |row: &Row| if matches!(row, Row::ActiveFinding(_)) { 1 + sentence } else { 1 };
            // Frame, and a note below.
            (7, 4 + rows_of(state.lists.rows.iter().map(lines).sum()))
        }),
        Band::new(
            &["explanation", "evidence"],
            1,
            |state, _| if state.lists.rows.is_empty() { (0, 0) } else { (10, u16::MAX) },
        ),
    ],
    list_pane: Some(0),
};
