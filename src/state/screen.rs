//! The screens. Each is a variant, its `ScreenDefinition` here, and a `ScreenView` in `view`: without one of them it does not
//! compile.

use super::filter::FilterMatcher;
use super::layout::{self, ListLines, ScreenLayout};
use super::rows::{self, NetworkRows, Row};
use super::sort::SortColumn;
use super::task_rows::task_rows;
use super::{State, sort};
use crate::findings::Evaluation;

/// A screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Screen {
    #[default]
    Overview,
    Cpu,
    Disk,
    Network,
    Tasks,
    Findings,
}

/// What the state knows of a screen.
pub struct ScreenDefinition {
    /// The name in the key line
    pub label: &'static str,
    /// The sort columns of the list, the default first; empty if the list cannot be sorted
    pub sort_columns: &'static [SortColumn],
    /// The rows of the list, filtered and sorted
    pub(super) rows: fn(&State, &Evaluation, FilterMatcher) -> Vec<Row>,
    /// Why the sort order cannot be changed, or `None` if it can
    pub(super) fixed_order_reason: fn(&State) -> Option<&'static str>,
    /// Lines of the active findings above the body, for a width and a height
    pub(super) finding_lines: fn(u16, u16) -> u16,
    /// Lines of the body above and below the list
    pub(super) list_lines: fn(&State, &ScreenLayout) -> ListLines,
}

impl Screen {
    pub const ALL: [Screen; 6] =
        [Screen::Overview, Screen::Cpu, Screen::Disk, Screen::Network, Screen::Tasks, Screen::Findings];

    pub fn definition(self) -> &'static ScreenDefinition {
        match self {
            Screen::Overview => &OVERVIEW,
            Screen::Cpu => &CPU,
            Screen::Disk => &DISK,
            Screen::Network => &NETWORK,
            Screen::Tasks => &TASKS,
            Screen::Findings => &FINDINGS,
        }
    }

    /// The name in the key line.
    pub fn label(self) -> &'static str {
        self.definition().label
    }

    /// The sort columns of the list, the default first; empty if the list cannot be sorted.
    pub fn sort_columns(self) -> &'static [SortColumn] {
        self.definition().sort_columns
    }

    /// The key of the screen.
    pub fn digit(self) -> u8 {
        self as u8 + 1
    }

    pub fn next(self) -> Screen {
        Screen::ALL.get(self as usize + 1).copied().unwrap_or_default()
    }

    pub fn previous(self) -> Screen {
        Screen::ALL.get((self as usize).wrapping_sub(1)).or(Screen::ALL.last()).copied().unwrap_or_default()
    }
}

const OVERVIEW: ScreenDefinition = ScreenDefinition {
    label: "overview",
    sort_columns: &[],
    // What follows from another finding is listed on the findings screen.
    rows: |_, evaluation, _| {
        let is_root = |at: &usize| evaluation.active.get(*at).is_some_and(|finding| finding.follows_from.is_none());
        (0..evaluation.active.len()).filter(is_root).map(Row::ActiveFinding).collect()
    },
    fixed_order_reason: |_| None,
    finding_lines: |width, height| match (width, height) {
        (..120, 24..) => 4,
        (_, 20..) => 3,
        (..60, _) => 4,
        (..78, _) => 3,
        _ => 2,
    },
    list_lines: |_, _| ListLines::default(),
};

const CPU: ScreenDefinition = ScreenDefinition {
    label: "cpu",
    sort_columns: sort::CPU_COLUMNS,
    rows: |state, evaluation, filter| rows::cpus(evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |state, layout| layout.cpu_screen(state),
};

const DISK: ScreenDefinition = ScreenDefinition {
    label: "disk",
    sort_columns: sort::DISK_COLUMNS,
    rows: |state, evaluation, filter| rows::disks(state, evaluation, state.sort(), filter),
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 1,
    list_lines: |_, _| ListLines { above: 1, ..ListLines::default() },
};

const NETWORK: ScreenDefinition = ScreenDefinition {
    label: "net",
    sort_columns: sort::NETWORK_COLUMNS,
    rows: |state, evaluation, filter| match state.network_rows {
        NetworkRows::Interfaces => rows::nics(evaluation, state.sort(), filter),
        NetworkRows::RemoteHosts => rows::remote_hosts(evaluation, filter),
    },
    fixed_order_reason: |state| {
        (state.network_rows == NetworkRows::RemoteHosts)
            .then_some("remote hosts are ordered by RTT against its minimum: p returns")
    },
    finding_lines: |_, _| 1,
    list_lines: |state, layout| {
        let below = match state.network_rows {
            NetworkRows::Interfaces => layout::network_footer_rows(state).min(layout.body_rows / 2),
            NetworkRows::RemoteHosts => 1,
        };
        ListLines { above: 1, below, ..ListLines::default() }
    },
};

const TASKS: ScreenDefinition = ScreenDefinition {
    label: "tasks",
    sort_columns: sort::TASK_COLUMNS,
    rows: |state, evaluation, filter| task_rows(state, evaluation, state.sort(), filter),
    fixed_order_reason: |state| match state.task_rows {
        rows if rows.is_wait_classes() => Some("wait classes have a fixed order: c returns to tasks"),
        rows if rows.is_tree() && state.filter().is_empty() => Some("the tree is ordered by pid: T returns to the flat list"),
        _ => None,
    },
    finding_lines: |_, _| 1,
    list_lines: |state, _| {
        let below = u16::from(layout::hides_other_users(state));
        ListLines { above: 2, below, ..ListLines::default() }
    },
};

const FINDINGS: ScreenDefinition = ScreenDefinition {
    label: "findings",
    sort_columns: &[],
    rows: rows::findings,
    fixed_order_reason: |_| None,
    finding_lines: |_, _| 0,
    list_lines: |_, _| ListLines { above: 1, ..ListLines::default() },
};
