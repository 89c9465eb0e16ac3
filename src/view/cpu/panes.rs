//! The panes of the CPU screen, apart from the cores: threads that wait for a CPU, the hottest threads, the table of CPUs.

use super::{draw_table, footer, hot_threads as hot_threads_table};
use crate::figures::load;
use crate::findings::Evaluation;
use crate::interval::task::ThreadSpan;
use crate::safe;
use crate::state::State;
use crate::state::history::{GraphFigure, ThreadState};
use crate::state::layout::ScreenLayout;
use crate::units::{Millis, SmallSort};
use crate::view::pane::Pane;
use crate::view::panes::{AXIS_WIDTH, nice_ceiling, ranges_in_window};
use crate::view::safe_line::SafeLine;
use crate::view::text::{self, format_number, format_optional};
use crate::view::theme::StyleRole;
use crate::view::thread_states;
use crate::view::wait_location;
use crate::view::widgets::area_graph::AreaGraph;

/// Rows of the graph at least; the threads get the rest.
const MIN_GRAPH_ROWS: u16 = 3;

/// How many threads waited for a CPU over time, and those that waited longest.
pub fn run_queue(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let width = pane.width().saturating_sub(2 + AXIS_WIDTH);
    let now = load::RUN_QUEUE_WAIT.number(&evaluation.into(), interval);
    let now = format_optional(now, 5);
    let columns = state.graph_columns(width);
    let title = ranges_in_window("Waiting for a CPU", state, &columns);
    let note = pane.fitting_note(&title, [safe!("now {now} threads"), safe!("now {now}"), "".into()]);
    let mut inner = pane.framed(title, note);
    let waiting = columns.ranges(&GraphFigure::Threads(ThreadState::RunQueue));
    let highest = waiting.iter().flatten().map(|&[_, _, max]| max).fold(1.0, f32::max);
    let top = nice_ceiling(highest, 1000.0);
    let worst = longest_waits(evaluation);
    let lines = u16::try_from(worst.len()).unwrap_or(u16::MAX);
    let rows = inner.height().saturating_sub(lines).max(inner.height().min(MIN_GRAPH_ROWS));
    inner.line(0, (safe!("{:>7}", format_number(f64::from(top), 5)), StyleRole::Dim));
    if rows > 1 {
        inner.line(rows - 1, ("      0", StyleRole::Dim));
    }
    let (style, peak_style) = (inner.area_gradient(StyleRole::RunQueue), inner.graph_style(StyleRole::Dim));
    let mut graph = inner.subarea(AXIS_WIDTH, 0, width, rows);
    graph.render(AreaGraph::new(&waiting, top, style, peak_style));
    let graph = graph.area();
    for (y, span) in (rows..inner.height()).zip(worst) {
        let name = wait_location::process_thread_and_tid(&interval.newer, span.id);
        let wait = span.run_queue_wait.map(|wait| wait.0);
        let latency = text::optional_latency(span.run_queue_latency_ms.map(Millis));
        let line = SafeLine::new(safe!("{:>6}% ", text::format_percent(wait, 4)), StyleRole::Plain)
            .with(name, StyleRole::Plain)
            .with(safe!("  {latency} each"), StyleRole::Dim);
        inner.line(y, line);
    }
    pane.time_axis(columns.axis(), graph);
}

/// The threads that waited for a CPU in a notable part of the time, longest first.
fn longest_waits(evaluation: &Evaluation) -> Vec<&ThreadSpan> {
    const MOST: usize = 4;
    const LEAST: f64 = 0.01;
    let Some(tasks) = &evaluation.interval.tasks else { return Vec::new() };
    let wait = |thread: &ThreadSpan| thread.run_queue_wait.map_or(0.0, |wait| wait.0);
    let mut list: Vec<&ThreadSpan> = tasks.threads.iter().filter(|thread| wait(thread) >= LEAST).collect();
    if list.len() > MOST {
        list.select_nth_unstable_by(MOST, |a, b| wait(b).total_cmp(&wait(a)));
        list.truncate(MOST);
    }
    list.small_sort_by(|a, b| wait(b).total_cmp(&wait(a)));
    list
}

const HOT_THREADS: &str = "Hottest threads";

/// The glyphs of the states over time.
fn states_legend() -> SafeLine {
    let mut legend = SafeLine::default();
    for (glyph, role, name) in thread_states::LAYERS {
        legend.push_glyphs([(glyph, role)]);
        legend.append(SafeLine::new(safe!(" {name}  "), StyleRole::Dim));
    }
    legend.with("· sleep", StyleRole::Free)
}

pub fn hot_threads(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let legend = Some(states_legend()).filter(|legend| legend.width() + HOT_THREADS.len() + 8 <= usize::from(pane.width()));
    let mut inner = pane.framed((HOT_THREADS, StyleRole::Bold), legend.unwrap_or_default());
    hot_threads_table::draw(state, evaluation, &mut inner);
}

/// The table of CPUs, and the accounting of CPU time below it.
pub fn cpus(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let Some(span) = &interval.cpu else {
        pane.framed(("CPUs", StyleRole::Bold), SafeLine::default()).line(0, ("- /proc/stat cannot be read", StyleRole::Dim));
        return;
    };
    let (count, busy) = (span.cpus.len(), span.busy());
    let note = safe!("busy {}% = {} of {count}", format_number(busy * 100.0, 4), format_number(busy * count as f64, 4));
    let mut inner = pane.framed(("CPUs", StyleRole::Bold), SafeLine::new(note, StyleRole::Dim));
    draw_table(state, evaluation, layout, span, &mut inner);
    let foot = layout.rows_before_list + layout.list_rows;
    footer(interval, span, &mut inner.subarea(0, foot, u16::MAX, u16::MAX));
}
