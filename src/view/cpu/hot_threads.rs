//! The table of the threads that use most CPU time, or wait for a CPU.

use crate::figures::thread::{self, ThreadRow};
use crate::figures::{Column, FigureInput};
use crate::findings::Evaluation;
use crate::interval::task::ThreadSpan;
use crate::safe;
use crate::sample::task::{Process, Thread};
use crate::state::{Item, State};
use crate::view::columns::{CellContent, ColumnSpec, Columns};
use crate::view::pane::Pane;
use crate::view::panes::MAX_SPARKLINE_WIDTH;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::tasks::command_line;
use crate::view::text;
use crate::view::theme::StyleRole;
use crate::view::time_cells::TimeCells;
use crate::view::wait_location;

/// A row of the hottest threads.
struct HotThread<'a> {
    state: &'a State,
    evaluation: &'a Evaluation,
    process: &'a Process,
    thread: &'a Thread,
    span: &'a ThreadSpan,
    /// The row in the catalogue of figures
    figures: ThreadRow,
}

impl HotThread<'_> {
    fn value(&self, column: &Column<ThreadRow>) -> Option<f64> {
        column.number(&FigureInput::from(self.evaluation), &self.figures)
    }
}

type HotSpec = ColumnSpec<fn(&HotThread, CellContent)>;

/// Dim columns stand beside each other: each change of the style takes nine bytes of each row.
const HOT_THREAD_COLUMNS: [HotSpec; 9] = [
    HotSpec::text("HOT THREADS", 17, |hot, cell| {
        cell.text(wait_location::process_and_thread_name(hot.process, hot.thread), StyleRole::Plain);
    }),
    HotSpec::text("pid/tid", 15, |hot, cell| {
        cell.text(safe!("{}/{}", hot.span.id.pid, hot.span.id.tid), StyleRole::Dim);
    })
    .right_aligned()
    .min_table_width(60),
    HotSpec::figure(&thread::CPU_RATIO, 5, |hot, cell| {
        let used = hot.value(&thread::CPU_RATIO);
        let is_full = used.is_some_and(|used| used >= hot.evaluation.thresholds().thread_busy_ratio);
        let role = if is_full { StyleRole::Warning } else { StyleRole::Plain };
        cell.text(safe!("{}", text::format_percent(used, 5)), role);
    }),
    HotSpec::figure(&thread::RUN_QUEUE_WAIT_RATIO, 5, |hot, cell| {
        let wait = hot.value(&thread::RUN_QUEUE_WAIT_RATIO);
        cell.text(safe!("{}", text::format_percent(wait, 5)), StyleRole::Plain);
    }),
    HotSpec::figure(&thread::LAST_CPU, 6, |hot, cell| {
        // Not dim for CPU 0, which is no amount.
        cell.line(SafeLine::new(wait_location::cpus_of_thread(&hot.evaluation.interval, hot.span), StyleRole::Plain));
    }),
    HotSpec::text("", 7, |hot, cell| {
        cell.text(wait_location::cpu_shares_of_thread(&hot.evaluation.interval, hot.span), StyleRole::Dim);
    })
    .min_table_width(80),
    HotSpec::figure(&thread::SWITCHES_PER_SECOND, 8, |hot, cell| {
        cell.text(safe!("{}", text::format_optional(hot.value(&thread::SWITCHES_PER_SECOND), 7)), StyleRole::Dim);
    })
    .min_table_width(80),
    HotSpec::text("cgroup", 24, |hot, cell| {
        if let Ok(cgroup) = &hot.process.facts.cgroup {
            cell.text(SafeText::from_name(&cgroup.path), StyleRole::Dim);
        }
    })
    .min_table_width(120),
    STATES.min_table_width(50),
];

const STATES: HotSpec = HotSpec::graph("states", 0, |hot, cell| {
    let width = cell.width;
    cell.glyphs(TimeCells::states_of_thread(hot.state, &hot.evaluation.interval, hot.span.id, width));
});

const COMMAND_LINE: HotSpec = HotSpec::text("command line", 0, |hot, cell| {
    cell.text(command_line(hot.process), StyleRole::Dim);
});

/// Cells of the table from which it has command lines, beside the longest graphs and names that are not cut.
const COMMAND_LINE_WIDTH: u16 = 170;
const NAME_WIDTH: u16 = 32;

/// The columns for a width.
fn columns(width: u16) -> Columns<fn(&HotThread, CellContent)> {
    let mut specs = HOT_THREAD_COLUMNS.to_vec();
    if width >= COMMAND_LINE_WIDTH {
        specs.pop();
        specs.extend([STATES.width(MAX_SPARKLINE_WIDTH), COMMAND_LINE]);
        if let Some(name) = specs.first_mut() {
            name.width = NAME_WIDTH;
        }
    }
    Columns::new(&specs, width)
}

/// The threads that used a CPU or waited for one, those that used most first, as many as fit below the headings.
pub fn draw(state: &State, evaluation: &Evaluation, pane: &mut Pane) {
    let interval = &*evaluation.interval;
    let table = columns(pane.width());
    let Some(tasks) = &interval.tasks else {
        pane.line(0, ("- /proc cannot be read", StyleRole::Dim));
        return;
    };
    let hot = state.lists.held.threads.hottest(&tasks.threads, usize::from(pane.height().saturating_sub(1)));
    let rows = hot.into_iter().filter_map(|span| {
        let (process, thread) = interval.newer.tasks.as_ref().ok()?.thread(span.id)?;
        let at = process.threads.binary_search_by_key(&thread.tid, |thread| thread.tid).ok()?;
        let line = HotThread { state, evaluation, process, thread, span, figures: ThreadRow::new(process, at, Some(*span)) };
        let item = Item::Thread(span.id);
        let row = table.row(|fill, cell| fill(&line, cell));
        Some(row.selected(state.is_selected(&item)).with_item(Some(item)))
    });
    table.draw(pane, None, rows);
}
