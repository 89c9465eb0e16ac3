//! The screen of pressure, memory and cgroups: PSI of the host over the kernel's averages, its memory, and a row for each cgroup
//! with a limit, the one that is held back most first. The values are columns of `figures::pressure`, `figures::memory` and
//! `figures::cgroup`.
//!
//! ```text
//! pressure of the host    the same over time (wide terminals)
//! memory of the host      the same over time (wide terminals)
//! what the load counts    cgroups by where their time goes (wide terminals)
//! cgroups with a limit, by the name of their container, pod or unit
//! ```

mod load;
pub mod memory;
pub mod resources;

use resources::{RESOURCES, waiting};

use super::ScreenView;
use super::columns::{CellContent, ColumnSpec, Columns};
use super::list::{list_status, visible_rows};
use super::pane::Pane;
use super::panes::{MAX_SPARKLINE_WIDTH, ranges_in_window, shown_time};
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::tasks::cgroups;
use super::text::{format_figure, format_optional};
use super::theme::{StyleRole, severity_symbol};
use super::time_cells::TimeCells;
use super::widgets::area_graph::AreaGraph;
use crate::figures::{Column, FigureInput, cgroup};
use crate::findings::{Evaluation, Finding, Subject};
use crate::ids::CgroupId;
use crate::interval::cgroup::CgroupSpan;
use crate::interval::cgroup_names::CgroupName;
use crate::safe;
use crate::state::history::{GraphFigure, MemoryShare, StalledOn};
use crate::state::layout::ScreenLayout;
use crate::state::screen::pressure::{host_lines, memory_lines};
use crate::state::{Row, SortColumn, State};
use crate::units::format;

pub const SCREEN: ScreenView = ScreenView {
    draw,
    panes: &[host_pane, graphs_pane, memory::figures_pane, memory::graph_pane, load::pane, cgroups::pane, list_pane],
};

/// Headings of the figures of the host.
const HEADINGS: &str = "PSI    some%  10 s  60 s 300 s full%  10 s  60 s 300 s";

/// Cells of these figures with a gap, and the corner right of them: at least so many cells, and rows down to the memory's lines.
const FIGURES_WIDTH: u16 = HEADINGS.len() as u16 + 2;
const MIN_CORNER_WIDTH: u16 = 20;
const CORNER_ROWS: u16 = 6;

/// What is beside the figures of each resource, in the rows of these: `some` of each interval, from 0 to 100 %; and the share of the
/// memory that is in use.
const HISTORIES: [(u16, GraphFigure, StyleRole); 4] = [
    (1, GraphFigure::Pressure(StalledOn::Cpu), StyleRole::RunQueue),
    (2, GraphFigure::Pressure(StalledOn::Io), StyleRole::Disk),
    (3, GraphFigure::Pressure(StalledOn::Memory), StyleRole::System),
    (5, GraphFigure::Memory(MemoryShare::NotAvailable), StyleRole::System),
];

/// Before the history of the memory in use.
const IN_USE: &str = "in use ";

/// A row of the list.
struct GroupLine<'a> {
    evaluation: &'a Evaluation,
    group: &'a CgroupSpan,
}

type Spec = ColumnSpec<fn(&GroupLine, CellContent)>;

impl GroupLine<'_> {
    fn figure(&self, cell: CellContent, figure: &Column<CgroupSpan>, role: StyleRole) {
        let width = usize::from(cell.width);
        cell.text(format_figure(figure, &FigureInput::from(self.evaluation), self.group, width), role);
    }

    fn bytes(&self, cell: CellContent, figure: &Column<CgroupSpan>) {
        let bytes = figure.number(&FigureInput::from(self.evaluation), self.group);
        cell.text(SafeText::sanitize(bytes.map_or("-".to_owned(), format::short_bytes)), StyleRole::Plain);
    }
}

const COLUMNS: [Spec; 14] = [
    Spec::text("CGROUP", 0, name_cell).sorted_by(SortColumn::NAME),
    Spec::figure(&cgroup::HELD_BACK_RATIO, 6, |line, cell| line.figure(cell, &cgroup::HELD_BACK_RATIO, StyleRole::Plain))
        .sorted_by(SortColumn::CGROUP_HELD_BACK),
    Spec::figure(&cgroup::CPU_RATIO, 5, |line, cell| line.figure(cell, &cgroup::CPU_RATIO, StyleRole::Plain))
        .sorted_by(SortColumn::CGROUP_CPU),
    Spec::figure(&cgroup::QUOTA_CPUS, 5, |line, cell| line.figure(cell, &cgroup::QUOTA_CPUS, StyleRole::Dim)),
    Spec::figure(&cgroup::THROTTLED_RATIO, 5, |line, cell| line.figure(cell, &cgroup::THROTTLED_RATIO, StyleRole::Plain))
        .sorted_by(SortColumn::CGROUP_THROTTLED)
        .min_table_width(50),
    Spec::figure(&cgroup::THROTTLED_PERIODS_RATIO, 7, |line, cell| {
        line.figure(cell, &cgroup::THROTTLED_PERIODS_RATIO, StyleRole::Plain);
    })
    .min_table_width(100),
    Spec::figure(&cgroup::MEMORY_USED_BYTES, 6, |line, cell| line.bytes(cell, &cgroup::MEMORY_USED_BYTES))
        .sorted_by(SortColumn::CGROUP_MEMORY)
        .min_table_width(60),
    Spec::figure(&cgroup::MEMORY_LIMIT_BYTES, 5, |line, cell| line.bytes(cell, &cgroup::MEMORY_LIMIT_BYTES))
        .min_table_width(60),
    Spec::figure(&cgroup::MEMORY_USED_RATIO, 5, |line, cell| line.figure(cell, &cgroup::MEMORY_USED_RATIO, StyleRole::Plain))
        .sorted_by(SortColumn::CGROUP_MEMORY_SHARE)
        .min_table_width(70),
    Spec::figure(&cgroup::LIMIT_HITS_PER_SECOND, 6, |line, cell| {
        line.figure(cell, &cgroup::LIMIT_HITS_PER_SECOND, StyleRole::Plain);
    })
    .min_table_width(100),
    Spec::figure(&cgroup::IO_LIMIT_USED_RATIO, 6, |line, cell| {
        line.figure(cell, &cgroup::IO_LIMIT_USED_RATIO, StyleRole::Plain);
    })
    .min_table_width(76),
    Spec::figure(&cgroup::PSI_CPU_SOME_RATIO, 9, |line, cell| line.figure(cell, &cgroup::PSI_CPU_SOME_RATIO, StyleRole::Plain))
        .min_table_width(140),
    Spec::figure(&cgroup::PSI_MEMORY_SOME_RATIO, 9, |line, cell| {
        line.figure(cell, &cgroup::PSI_MEMORY_SOME_RATIO, StyleRole::Plain);
    })
    .min_table_width(120),
    Spec::figure(&cgroup::PSI_IO_SOME_RATIO, 8, |line, cell| line.figure(cell, &cgroup::PSI_IO_SOME_RATIO, StyleRole::Plain))
        .min_table_width(120),
];

/// Cells of the names at most, so that the figures are near them, and width of a table with more.
const MAX_NAME_WIDTH: u16 = 64;
const MIN_WIDTH_FOR_MAX_NAMES: u16 = 180;

fn table(state: &State, width: u16) -> Columns<fn(&GroupLine, CellContent)> {
    let mut columns = COLUMNS;
    if width >= MIN_WIDTH_FOR_MAX_NAMES {
        columns[0] = columns[0].width(MAX_NAME_WIDTH);
    }
    Columns::chosen(state, &columns, width)
}

/// The finding's sign, the name; the word before it where there is room.
fn name_cell(line: &GroupLine, cell: CellContent) {
    let name = CgroupName::from_path(&line.evaluation.interval.newer, line.group.id.path.as_bytes());
    let mut text = SafeLine::default();
    if let Some(finding) = worst_finding(line.evaluation, &line.group.id) {
        text.push(safe!("{} ", severity_symbol(finding.severity)), StyleRole::from(finding.severity));
    }
    if cell.width >= 40 && name.kind.word() != "cgroup" {
        text.push(safe!("{} ", name.kind.word()), StyleRole::Dim);
    }
    text.push(SafeText::sanitize(name.label()), StyleRole::Bold);
    cell.line(text);
}

fn worst_finding<'a>(evaluation: &'a Evaluation, id: &CgroupId) -> Option<&'a Finding> {
    let about = |finding: &&Finding| matches!(&finding.subject, Subject::Cgroup(other) if other == id);
    evaluation.active.iter().filter(about).max_by_key(|finding| finding.severity)
}

/// Pressure and memory over time, a line each, where there are no panes.
fn draw_histories(state: &State, pane: &mut Pane) {
    let label = u16::try_from(IN_USE.len()).unwrap_or(0);
    let width = pane.width().saturating_sub(label).min(MAX_SPARKLINE_WIDTH);
    let columns = state.graph_columns(width);
    pane.line(0, SafeLine::new(shown_time(state, &columns), StyleRole::Dim));
    for (y, figure, role) in HISTORIES {
        let words = if matches!(figure, GraphFigure::Memory(_)) { IN_USE } else { "some%  " };
        let mut line = SafeLine::new(words, StyleRole::Dim);
        line.push_glyphs(TimeCells::new(state, &figure, width).glyphs(|share| (share, role)));
        pane.line(y, line);
    }
}

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let lines = host_lines(layout);
    match lines {
        1 => pane.line(0, host_line(evaluation)),
        lines => {
            draw_figures(evaluation, &mut pane.subarea(0, 0, pane.width(), lines));
            let width = pane.width().saturating_sub(FIGURES_WIDTH);
            if width >= MIN_CORNER_WIDTH && !state.setup.terminal.is_slow {
                draw_histories(state, &mut pane.subarea(FIGURES_WIDTH, 0, width, CORNER_ROWS));
            }
        }
    }
    for (y, line) in (lines - memory_lines(layout)..lines).zip(memory::lines(evaluation, pane.width())) {
        pane.line(y, line);
    }
    let mut list = pane.subarea(0, lines, pane.width(), pane.height().saturating_sub(lines));
    draw_list(state, evaluation, layout, &mut list);
}

/// What the figures mean, where there is room.
const MEANINGS: [(&str, &str); 4] = [
    ("some", "share of time in which some task waited for the resource"),
    ("full", "in which all tasks that had work waited for it"),
    ("io", "storage; memory: reclaim, swap-in, refaults; cpu: quotas"),
    ("10 s", "averages of the kernel; left of them: this interval"),
];

fn host_pane(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Pressure of the host", StyleRole::Bold), SafeLine::default());
    draw_figures(evaluation, &mut inner);
    let top = 2 + RESOURCES.len() as u16;
    if inner.height() < top + MEANINGS.len() as u16 {
        return;
    }
    for (y, (word, meaning)) in (top..).zip(MEANINGS) {
        inner.line(y, SafeLine::new(safe!("{word:<6}"), StyleRole::Dim).with(meaning, StyleRole::Dim));
    }
}

fn list_pane(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let note = SafeLine::new("held back most first; Enter: limits, pressure, members", StyleRole::Dim);
    draw_list(state, evaluation, layout, &mut pane.framed(("Cgroups with a limit", StyleRole::Bold), note));
}

/// The list, whose headings are on the first row.
fn draw_list(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let table = table(state, pane.width());
    let visible = visible_rows(state, layout);
    let rows = visible.iter().filter_map(|visible| {
        let Row::Cgroup(at) = visible.row else { return None };
        let line = GroupLine { evaluation, group: interval.cgroups.get(at)? };
        Some(table.row(|fill, cell| fill(&line, cell)).selected(visible.selected))
    });
    table.draw(pane, Some(state.sort()), rows);
    if state.rows().is_empty() && state.filter().is_empty() {
        let words = match &interval.newer.cgroups {
            Err(why) => safe!("- cgroups: {why}"),
            Ok(_) => "no cgroup has a limit of CPU, memory or I/O".into(),
        };
        pane.line(1, (&words, StyleRole::Dim));
    }
    let status = list_status(state, layout);
    if !status.is_empty() {
        pane.line_right(pane.height().saturating_sub(1), (&status, StyleRole::Dim));
    }
}

/// `PSI  cpu 12.0%  io -  memory 0%`
fn host_line(evaluation: &Evaluation) -> SafeLine {
    let input = FigureInput::from(evaluation);
    let mut line = SafeLine::new("PSI ", StyleRole::Heading);
    for (resource, [now, ..]) in waiting() {
        line.push(safe!(" {} ", resource.name), StyleRole::Dim);
        line.push(safe!("{}% ", format_optional(now.displayed(&input, &evaluation.interval.pressure), 5)), StyleRole::Plain);
    }
    line
}

fn draw_figures(evaluation: &Evaluation, pane: &mut Pane) {
    let input = FigureInput::from(evaluation);
    pane.line(0, (HEADINGS, StyleRole::Heading));
    for (y, resource) in (1..).zip(&RESOURCES) {
        let mut line = SafeLine::new(safe!("{:<6}", resource.name), StyleRole::Bold);
        for figures in [resource.some, resource.full] {
            for (place, cells) in [6, 6, 6, 6].into_iter().enumerate() {
                let figure = figures.and_then(|figures| figures.get(place).copied());
                let share = figure.and_then(|figure| figure.number(&input, &evaluation.interval.pressure));
                let text = match figure {
                    Some(figure) => format_optional(figure.displayed(&input, &evaluation.interval.pressure), 5),
                    None => String::new(),
                };
                let role = if place == 0 { resource.role(evaluation, share) } else { StyleRole::Dim };
                line.push(safe!("{text:>cells$}"), role);
            }
        }
        pane.line(y, line);
    }
}

/// A graph for each of CPU, I/O and memory.
pub fn graphs_pane(state: &State, _: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    const LABEL: u16 = 8;
    let width = pane.width().saturating_sub(LABEL + 2);
    let columns = state.graph_columns(width);
    let title = ranges_in_window("Some task waited", state, &columns);
    let mut inner = pane.framed(title, ("0 to 100 %", StyleRole::Dim));
    let height = (inner.height() / 3).max(1);
    let resources = [("cpu", StyleRole::RunQueue), ("io", StyleRole::Disk), ("memory", StyleRole::OtherBlocked)];
    for (at, ((name, role), on)) in (0..).zip(resources.into_iter().zip(StalledOn::ALL)) {
        let y = at * height;
        let values = columns.ranges(&GraphFigure::Pressure(on));
        // A blank row between two, where there is room.
        let rows = if height > 1 { height - 1 } else { height };
        inner.subarea(0, y, LABEL, 1).line(0, (name, StyleRole::Dim));
        if values.iter().all(Option::is_none) {
            inner.subarea(LABEL, y, width, 1).line(0, ("- not known", StyleRole::Dim));
        }
        let (style, peak_style) = (inner.area_gradient(role), inner.graph_style(StyleRole::Dim));
        inner.subarea(LABEL, y, width, rows).render(AreaGraph::new(&values, 1.0, style, peak_style));
    }
    let graphs = inner.subarea(LABEL, 0, width, u16::MAX).area();
    pane.time_axis(columns.axis(), graphs);
}
