//! The CPUs in a line: one cell per CPU, the busiest one with its top thread, and how busy the busiest one was over time.

use crate::findings::Evaluation;
use crate::interval::cpu::CpuUsage;
use crate::safe;
use crate::state::State;
use crate::state::history::GraphFigure;
use crate::view::cpu::{busy_role, cpu_map_glyphs};
use crate::view::panes::MAX_SPARKLINE_WIDTH;
use crate::view::safe_line::SafeLine;
use crate::view::text::format_number;
use crate::view::theme::StyleRole;
use crate::view::time_cells::TimeCells;
use crate::view::wait_location;

/// Before the graph: of each interval the maximum of all CPUs.
const LABEL: &str = "  max ";

/// Cells right of the graph, as right of that of the idle but blocked CPU time above.
const MARGIN: usize = 3;

/// Cells of the busiest CPU and its thread beside the graph: most names have room, and those without a tid at least.
const TEXT_WIDTH: usize = 46;
const MIN_TEXT_WIDTH: usize = 28;

/// Cells of a graph from which it says something.
const MIN_GRAPH_WIDTH: usize = 8;

pub fn cores_line(state: &State, evaluation: &Evaluation, width: u16) -> SafeLine {
    let interval = &*evaluation.interval;
    let mut line = SafeLine::new("CORES ", StyleRole::Heading);
    let Some(span) = &interval.cpu else { return line.with("-", StyleRole::Dim) };
    let full = evaluation.thresholds().core_busy_ratio;
    let cells = span.cpus.len().min(usize::from(width / 3).max(8));
    line.push_glyphs(cpu_map_glyphs(&span.cpus, cells, full));
    let begin = 6 + cells + 2;
    let graph = if state.setup.terminal.is_slow { None } else { graph_width(usize::from(width), begin) };
    let end = graph.map_or(usize::from(width), |graph| usize::from(width) - MARGIN - graph - LABEL.len());
    let hottest = span.cpus.iter().max_by(|a, b| a.busy().total_cmp(&b.busy()));
    if let Some(hottest) = hottest.filter(|cpu| cpu.busy() >= 0.005) {
        line.pad_to(begin);
        line.append(hottest_cpu(evaluation, hottest, end.saturating_sub(begin)));
    }
    let Some(graph) = graph else { return line };
    line.pad_to(end);
    line.push(LABEL, StyleRole::Dim);
    let cells = TimeCells::new(state, &GraphFigure::BusiestCpu, u16::try_from(graph).unwrap_or(MAX_SPARKLINE_WIDTH));
    line.push_glyphs(cells.glyphs(|busy| (busy, busy_role(f64::from(busy), full))));
    line
}

/// Cells of the graph beside a text that begins at this column; the same in each interval, whatever the text, because a graph of another
/// width has other columns.
fn graph_width(width: usize, begin: usize) -> Option<usize> {
    let room = width.checked_sub(begin + LABEL.len() + MARGIN)?;
    let graph = room.saturating_sub(TEXT_WIDTH).clamp(MIN_GRAPH_WIDTH, usize::from(MAX_SPARKLINE_WIDTH));
    (graph + MIN_TEXT_WIDTH <= room).then_some(graph)
}

/// `hottest cpu3 99.8%  postgres/4711 98.2%`: of the thread as much as fits.
fn hottest_cpu(evaluation: &Evaluation, cpu: &CpuUsage, cells: usize) -> SafeLine {
    let full = evaluation.thresholds().core_busy_ratio;
    let words = safe!("hottest cpu{} {}%", cpu.id.0, format_number(cpu.busy() * 100.0, 4));
    let mut line = SafeLine::new(words, if cpu.busy() >= full { StyleRole::Bold } else { StyleRole::Plain });
    if let Some((task, share)) = cpu.top_thread {
        let sample = &evaluation.interval.newer;
        let used = format_number(share.percent(), 4);
        let (thread, with_tid) = (wait_location::thread_comm(sample, task), wait_location::thread_name(sample, task));
        let ways = [
            safe!("  {} {used}%", wait_location::process_thread_and_tid(sample, task)),
            safe!("  {with_tid} {used}%"),
            safe!("  {thread} {used}%"),
            safe!("  {thread}"),
        ];
        let room = cells.saturating_sub(line.width());
        let fitting = ways.iter().find(|words| words.width() <= room).or(ways.last()).cloned();
        line.push(fitting.unwrap_or_default(), StyleRole::Plain);
    }
    line.truncated(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_graph_gets_what_the_text_leaves_and_is_left_out_where_the_text_has_no_room() {
        // 2, 16 and 64 CPUs at 80 cells.
        assert_eq!([10, 24, 34].map(|begin| graph_width(80, begin)), [Some(15), Some(8), Some(8)]);
        assert_eq!(graph_width(300, 10), Some(40));
        assert_eq!([graph_width(50, 10), graph_width(54, 10), graph_width(55, 10)], [None, None, Some(8)]);
        assert_eq!(graph_width(10, 34), None);
    }
}
