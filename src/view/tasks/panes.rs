//! The panes of the tasks screen: threads by state over time, active processes by cgroup, the list.

use crate::figures::{load, task};
use crate::findings::Evaluation;
use crate::interval::cgroup_names::CgroupName;
use crate::interval::cgroup_tasks::{CgroupTasks, cgroup_tasks};
use crate::safe;
use crate::sample::Sample;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::task_states::state_segments;
use crate::view::text::format_number;
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::widgets::bar::StackedBar;

/// A row of the table of cgroups.
struct CgroupLine<'a> {
    sample: &'a Sample,
    group: CgroupTasks<'a>,
}

type Spec = ColumnSpec<fn(&CgroupLine, CellContent)>;

const COLUMNS: [Spec; 8] = [
    Spec::figure(&load::PROCESSES, 5, |line, cell| cell.text(safe!("{}", line.group.processes), StyleRole::Dim)),
    Spec::figure(&task::THREADS, 5, |line, cell| cell.text(safe!("{}", line.group.threads), StyleRole::Dim))
        .min_table_width(60),
    Spec::figure(&task::CPU_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.cpu * 100.0, 5)), used_role(line.group.cpu));
    }),
    Spec::figure(&task::RUN_QUEUE_WAIT_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.run_queue, 5)), used_role(line.group.run_queue));
    }),
    Spec::figure(&task::DISK_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.states.disk, 5)), blocked_role(line.group.states.disk));
    }),
    Spec::figure(&task::LOCK_RATIO, 5, |line, cell| {
        cell.text(safe!("{}", format_number(line.group.states.lock, 5)), blocked_role(line.group.states.lock));
    }),
    Spec::text("time goes to", 16, |line, cell| {
        let width = cell.width;
        cell.glyphs(StackedBar(&state_segments(&line.group.states, 0.0)).glyphs(width));
    })
    .min_table_width(64),
    Spec::text("container, unit or cgroup", 0, |line, cell| match line.group.cgroup {
        Some(cgroup) => {
            let name = CgroupName::from_path(line.sample, cgroup.path.as_bytes());
            cell.text(SafeText::sanitize(name.label()), StyleRole::Plain);
        }
        None => cell.text("- cannot be read", StyleRole::Dim),
    }),
];

/// Active processes by cgroup.
pub fn cgroups(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("active processes", StyleRole::Dim);
    let mut inner = pane.framed(("Cgroups: where their time goes", StyleRole::Bold), note);
    let table = Columns::new(&COLUMNS, inner.width());
    let groups = cgroup_tasks(&evaluation.interval);
    let all_asleep = groups.is_empty();
    let lines = groups.into_iter().map(|group| CgroupLine { sample: &evaluation.interval.newer, group });
    table.draw(&mut inner, None, lines.map(|line| table.row(|fill, cell| fill(&line, cell))));
    if all_asleep {
        inner.line(1, ("all asleep", StyleRole::Dim));
    }
}

/// The list of tasks, below their numbers by state.
pub fn list(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("c by wait class  t threads  T tree", StyleRole::Dim);
    let mut inner = pane.framed(("Tasks", StyleRole::Bold), note);
    super::draw(state, evaluation, layout, &mut inner);
}
