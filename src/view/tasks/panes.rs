//! The panes of the tasks screen: threads by state over time, active processes by cgroup, the list.

use super::state_segments;
use crate::figures::{load, task};
use crate::findings::Evaluation;
use crate::interval::cgroup_tasks::{CgroupTasks, cgroup_tasks};
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::widgets::bar::StackedBar;

type Spec = ColumnSpec<fn(&CgroupTasks, CellContent)>;

const COLUMNS: [Spec; 8] = [
    Spec::figure(&load::PROCESSES, 5, |group, cell| cell.text(safe!("{}", group.processes), StyleRole::Dim)),
    Spec::figure(&task::THREADS, 5, |group, cell| cell.text(safe!("{}", group.threads), StyleRole::Dim)).min_table_width(60),
    Spec::figure(&task::CPU_RATIO, 5, |group, cell| {
        cell.text(safe!("{}", format_number(group.cpu * 100.0, 5)), used_role(group.cpu));
    }),
    Spec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |group, cell| {
        cell.text(safe!("{}", format_number(group.run_queue, 5)), used_role(group.run_queue));
    }),
    Spec::figure(&task::DISK_RATIO, 5, |group, cell| {
        cell.text(safe!("{}", format_number(group.states.disk, 5)), blocked_role(group.states.disk));
    }),
    Spec::figure(&task::LOCK_RATIO, 5, |group, cell| {
        cell.text(safe!("{}", format_number(group.states.lock, 5)), blocked_role(group.states.lock));
    }),
    Spec::text("time goes to", 16, |group, cell| {
        let width = cell.width;
        cell.glyphs(StackedBar(&state_segments(&group.states, 0.0)).glyphs(width));
    })
    .min_table_width(64),
    Spec::text("cgroup", 0, |group, cell| {
        let width = cell.width;
        match group.cgroup {
            Some(cgroup) => cell.text(SafeText::from_bytes(path_end(cgroup.path.as_bytes(), width)), StyleRole::Plain),
            None => cell.text("- cannot be read", StyleRole::Dim),
        }
    }),
];

/// The end of a path, whole components: its name says more than its parents.
fn path_end(path: &[u8], cells: u16) -> &[u8] {
    let starts = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    starts.filter_map(|at| path.get(at..)).find(|end| end.len() <= usize::from(cells)).unwrap_or(path)
}

/// Active processes by cgroup.
pub fn cgroups(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("active processes", StyleRole::Dim);
    let mut inner = pane.framed(("Cgroups: where their time goes", StyleRole::Bold), note);
    let table = Columns::new(&COLUMNS, inner.width());
    let groups = cgroup_tasks(&evaluation.interval);
    table.draw(&mut inner, None, groups.iter().map(|group| table.row(|fill, cell| fill(group, cell))));
    if groups.is_empty() {
        inner.line(1, ("all asleep", StyleRole::Dim));
    }
}

/// The list of tasks, below their numbers by state.
pub fn list(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("c by wait class  t threads  T tree", StyleRole::Dim);
    let mut inner = pane.framed(("Tasks", StyleRole::Bold), note);
    super::draw(state, evaluation, layout, &mut inner);
}
