//! The overview: the root causes among the active findings.

use crate::state::State;
use crate::state::layout::ListLines;
use crate::state::panes::Band;
use crate::state::rows::{Row, busiest_disks, busiest_nics};
use crate::state::screen::{ScreenDefinition, rows_of};

/// Columns from which panes that are stacked on other terminals stand side by side.
const WIDE: u16 = 240;

/// Rows from which there is room for panes of the other screens, and of the tasks then.
const MIN_TALL_HEIGHT: u16 = 70;
const MIN_TALL_TASKS: u16 = 15;

fn is_tall(state: &State) -> bool {
    state.setup.size.1 >= MIN_TALL_HEIGHT
}

pub const SCREEN: ScreenDefinition = ScreenDefinition {
    label: "overview",
    short_label: "over",
    sort_columns: &[],
    // What follows from another finding is listed on the findings screen.
    rows: |_, evaluation, _| {
        let is_root = |at: &usize| evaluation.active.get(*at).is_some_and(|finding| finding.follows_from.is_none());
        (0..evaluation.active.len()).filter(is_root).map(Row::ActiveFinding).collect()
    },
    fixed_order_reason: |_| None,
    finding_lines: |state| match state.setup.size {
        // A page: it shows the worst one.
        _ if state.details.is_some() => 1,
        (..120, 24..) => 4,
        (_, 20..) => 3,
        (..60, _) => 4,
        (..78, _) => 3,
        _ => 2,
    },
    list_lines: |_, _| ListLines::default(),
    bands: &[
        // A very tall terminal has a taller graph.
        Band::new(&["cpu", "who waits for whom"], 0, |state, _| (8, (state.setup.size.1 / 5).max(12))),
        // A tall terminal has the memory over time too.
        Band::new(&["cores", "load, memory, pressure"], 3, |state, evaluation| {
            let least = if state.setup.size.1 >= 46 { 8 } else { 7 };
            (7, (2 + rows_of(evaluation.interval.online_cpus())).clamp(least, 16))
        }),
        Band::new(&["disks"], 2, |state, evaluation| {
            (6, (4 + rows_of(busiest_disks(state, &evaluation.interval).len())).clamp(10, 14))
        }),
        Band::new(&["network"], 4, |_, evaluation| (4, (3 + rows_of(busiest_nics(&evaluation.interval).len())).clamp(7, 11)))
            .beside_previous_from(WIDE),
        // Where the terminal is tall enough for more panes: a row for each group, and as many as the hottest threads beside it.
        Band::new(&["tasks"], 1, |state, evaluation| match is_tall(state) {
            true => (5, (3 + rows_of(state.process_group_count(evaluation))).max(MIN_TALL_TASKS)),
            false => (5, u16::MAX),
        }),
        Band::new(&["hottest threads"], 1, |state, _| if state.setup.size.0 >= WIDE { (5, MIN_TALL_TASKS) } else { (0, 0) })
            .beside_previous_from(WIDE),
        Band::new(
            &["threads by state", "pressure over time"],
            5,
            |state, _| if is_tall(state) { (8, u16::MAX) } else { (0, 0) },
        ),
        Band::new(&["cgroups by time", "memory over time"], 6, |state, _| if is_tall(state) { (8, 20) } else { (0, 0) }),
    ],
    list_pane: None,
};
