//! The CPU screen: a row for each CPU.

use crate::findings::Evaluation;
use crate::state::layout::ListLines;
use crate::state::panes::Band;
use crate::state::rows;
use crate::state::screen::{ScreenDefinition, rows_of};
use crate::state::sort;

fn has_many_cpus(evaluation: &Evaluation) -> bool {
    evaluation.interval.online_cpus() > 16
}

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "cpu",
    short_label: "cpu",
    sort_columns: sort::CPU_COLUMNS,
    rows: |state, evaluation, filter| rows::cpus(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_| 1,
    list_lines: |state, layout| match layout.has_panes() {
        true => ListLines { above: 1, below: 2, ..ListLines::default() },
        false => layout.cpu_screen(state),
    },
    bands: &[
        // Few CPUs have a graph of three rows each.
        Band::new(&["cores", "waiting for a CPU"], 0, |_, evaluation| {
            let cpus = rows_of(evaluation.interval.online_cpus());
            (7, 2 + if cpus <= 4 { (3 * cpus).max(6) } else { cpus.clamp(6, 18) })
        }),
        // The table of many CPUs needs the room.
        Band::new(&["cpu", "threads by state"], 3, |_, evaluation| (8, if has_many_cpus(evaluation) { 8 } else { 12 })),
        Band::new(&["hottest threads"], 2, |_, evaluation| {
            let threads = evaluation.interval.tasks.as_ref().map_or(0, |tasks| tasks.threads.len());
            (5, if has_many_cpus(evaluation) { (3 + rows_of(threads)).clamp(5, 12) } else { u16::MAX })
        }),
        Band::new(&["CPUs"], 1, |_, evaluation| (7, 5 + rows_of(evaluation.interval.online_cpus()).max(2))),
    ],
    list_pane: Some(5),
};
