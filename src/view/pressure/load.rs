//! The pane of the load average: its values, and the groups whose threads it counts now.

use crate::findings::Evaluation;
use crate::interval::load_members::{LoadMember, MIN_LISTED_THREADS, load_members};
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::overview::load_parts;
use crate::view::pane::Pane;
use crate::view::panes::graph_title;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_number;
use crate::view::theme::{StyleRole, blocked_role, used_role};
use crate::view::wait_location::{Detail, blocked_location};

/// A row of the table.
struct MemberLine<'a> {
    evaluation: &'a Evaluation,
    member: &'a LoadMember,
}

type Spec = ColumnSpec<fn(&MemberLine, CellContent)>;

const COLUMNS: [Spec; 5] = [
    Spec::text("TASKS", 15, |line, cell| cell.text(SafeText::from_name(&line.member.label.name), StyleRole::Plain)),
    Spec::text("pid", 7, |line, cell| {
        let label = &line.member.label;
        cell.text(label.pid.map_or_else(|| safe!("×{}", label.processes), |pid| safe!("{pid}")), StyleRole::Dim);
    })
    .right_aligned(),
    Spec::text("in R", 6, |line, cell| {
        cell.text(safe!("{}", format_number(line.member.runnable, 5)), used_role(line.member.runnable));
    })
    .right_aligned(),
    Spec::text("in D", 6, |line, cell| {
        let blocked = line.member.uninterruptible;
        cell.text(safe!("{}", format_number(blocked, 5)), blocked_role(blocked));
    })
    .right_aligned(),
    Spec::text("in D for", 0, |line, cell| {
        let interval = &line.evaluation.interval;
        let mut blocked = interval.blocked_threads.iter().filter(|thread| thread.wait.group == line.member.group);
        if let Some(thread) = blocked.next().filter(|_| line.member.uninterruptible > 0.0) {
            cell.text(blocked_location(interval, thread, Detail::Full), StyleRole::Plain);
        }
    }),
];

pub fn pane(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let title = SafeLine::new("What the load average counts", StyleRole::Bold);
    let ways = ["threads in R and in D, by sub-samples", "threads in R and in D", "by sub-samples"];
    let note = pane.fitting_note(&title, ways.map(Into::into));
    let mut inner = pane.framed(title, note);
    let mut parts = vec![SafeLine::new("LOAD ", StyleRole::Heading)];
    for (at, part) in load_parts(evaluation).into_iter().enumerate() {
        let mut line = SafeLine::new(if at == 0 { "" } else { "   " }, StyleRole::Plain);
        line.append(part);
        parts.push(line);
    }
    inner.line(0, graph_title(parts, inner.width()));
    let members = load_members(&evaluation.interval);
    let table = Columns::new(&COLUMNS, inner.width());
    let lines =
        members.iter().filter(|member| member.total() >= MIN_LISTED_THREADS).map(|member| MemberLine { evaluation, member });
    let mut below = inner.subarea(0, 1, u16::MAX, u16::MAX);
    table.draw(&mut below, None, lines.map(|line| table.row(|fill, cell| fill(&line, cell))));
    if members.iter().all(|member| member.total() < MIN_LISTED_THREADS) {
        below.line(1, ("no thread runs or is in D", StyleRole::Dim));
    }
}
