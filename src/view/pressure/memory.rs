//! The memory of the host: amounts, swap, page faults and reclaim, as lines of labelled figures; and its use over time.

use crate::figures::memory::{
    ALLOCATION_STALLS_PER_SECOND, AVAILABLE_BYTES, BUFFERS_BYTES, CACHE_BYTES, COMPACTION_STALLS_PER_SECOND,
    DIRECT_SCANS_PER_SECOND, DIRTY_BYTES, FAULTS_PER_SECOND, FREE_BYTES, MAJOR_FAULTS_PER_SECOND, OOM_KILLS,
    PAGED_IN_BYTES_PER_SECOND, PAGED_OUT_BYTES_PER_SECOND, RECLAIMED_PER_SECOND, REFAULTS_PER_SECOND, SHARED_BYTES, SLAB_BYTES,
    SWAP_IN_BYTES_PER_SECOND, SWAP_OUT_BYTES_PER_SECOND, SWAP_TOTAL_BYTES, SWAP_USED_BYTES, THP_FAULT_FALLBACKS_PER_SECOND,
    TOTAL_BYTES, WRITEBACK_BYTES,
};
use crate::figures::{Column, FigureInput, Unit};
use crate::findings::Evaluation;
use crate::interval::memory::MemorySpan;
use crate::safe;
use crate::state::State;
use crate::state::graph_columns::GraphColumns;
use crate::state::history::{GraphFigure, MemoryShare};
use crate::state::layout::ScreenLayout;
use crate::units::format;
use crate::view::pane::Pane;
use crate::view::panes::{layer_style, ranges_in_window};
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::format_optional;
use crate::view::theme::StyleRole;
use crate::view::widgets::area_graph::AreaGraph;
use crate::view::widgets::stacked_area::{Layer, StackedArea};

/// A heading, and figures with their labels, the most important first.
type Line = (&'static str, &'static [(&'static str, &'static Column<MemorySpan>)]);

static LINES: [Line; 5] = [
    (
        "memory",
        &[
            ("total", &TOTAL_BYTES),
            ("available", &AVAILABLE_BYTES),
            ("free", &FREE_BYTES),
            ("cache", &CACHE_BYTES),
            ("slab", &SLAB_BYTES),
            ("shmem", &SHARED_BYTES),
        ],
    ),
    (
        "swap",
        &[
            ("total", &SWAP_TOTAL_BYTES),
            ("used", &SWAP_USED_BYTES),
            ("in/s", &SWAP_IN_BYTES_PER_SECOND),
            ("out/s", &SWAP_OUT_BYTES_PER_SECOND),
        ],
    ),
    (
        "faults/s",
        &[
            ("all", &FAULTS_PER_SECOND),
            ("major", &MAJOR_FAULTS_PER_SECOND),
            ("refaults", &REFAULTS_PER_SECOND),
            ("no THP", &THP_FAULT_FALLBACKS_PER_SECOND),
        ],
    ),
    (
        "cache",
        &[
            ("dirty", &DIRTY_BYTES),
            ("writeback", &WRITEBACK_BYTES),
            ("read/s", &PAGED_IN_BYTES_PER_SECOND),
            ("written/s", &PAGED_OUT_BYTES_PER_SECOND),
            ("buffers", &BUFFERS_BYTES),
        ],
    ),
    (
        "reclaim/s",
        &[
            ("reclaimed", &RECLAIMED_PER_SECOND),
            ("direct", &DIRECT_SCANS_PER_SECOND),
            ("stalls", &ALLOCATION_STALLS_PER_SECOND),
            ("compaction", &COMPACTION_STALLS_PER_SECOND),
            ("OOM kills", &OOM_KILLS),
        ],
    ),
];

const HEADING_CELLS: usize = 10;

/// A label of ten cells, a blank, and a figure of six; between two figures two blanks.
const SLOT_CELLS: usize = 17;

/// The figures, in columns; what does not fit in the width is left out.
pub fn lines(evaluation: &Evaluation, width: u16) -> Vec<SafeLine> {
    let slots = usize::from(width).saturating_sub(HEADING_CELLS) / SLOT_CELLS;
    LINES
        .iter()
        .map(|(heading, figures)| {
            let mut line = SafeLine::new(safe!("{heading:<HEADING_CELLS$}"), StyleRole::Bold);
            for (label, figure) in figures.iter().take(slots) {
                let (value, role) = value(evaluation, figure);
                let cells = (SLOT_CELLS - 2).saturating_sub(label.len());
                line.push(safe!("{label}"), StyleRole::Dim);
                line.push(safe!("{value:>cells$}  "), role);
            }
            line
        })
        .collect()
}

/// A figure as text; zeros are dim.
fn value(evaluation: &Evaluation, figure: &Column<MemorySpan>) -> (SafeText, StyleRole) {
    let Some(memory) = &evaluation.interval.memory else { return ("-".into(), StyleRole::Dim) };
    let number = figure.number(&FigureInput::from(evaluation), memory);
    let text = match figure.definition.unit {
        Unit::Kilobytes | Unit::KilobytesPerSecond => number.map_or("-".to_owned(), format::short_bytes),
        _ => format_optional(number, 6),
    };
    let role = if number.is_some_and(|number| number > 0.0) { StyleRole::Plain } else { StyleRole::Dim };
    (SafeText::sanitize(text), role)
}

pub fn figures_pane(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let mut inner = pane.framed(("Memory of the host", StyleRole::Bold), SafeLine::default());
    let lines = lines(evaluation, inner.width());
    (0..).zip(lines).for_each(|(y, line)| inner.line(y, line));
}

/// Cells of the labels left of the graphs, as of the pressure above them.
const LABEL_CELLS: u16 = 8;

/// Memory in use and caches over time, and the part of swap that was used.
pub fn graph_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let width = pane.width().saturating_sub(LABEL_CELLS + 2);
    let columns = state.graph_columns(width);
    let title = ranges_in_window("Memory", state, &columns);
    let mut inner = pane.framed(title, legend());
    let swap = columns.ranges(&GraphFigure::Memory(MemoryShare::Swap));
    let swap_rows = u16::from(inner.height() >= MIN_ROWS_WITH_SWAP && swap.iter().any(Option::is_some));
    let rows = inner.height().saturating_sub(swap_rows);
    let (total, _) = value(evaluation, &TOTAL_BYTES);
    inner.line(0, (&total, StyleRole::Dim));
    if rows > 1 {
        inner.line(rows - 1, ("0", StyleRole::Dim));
    }
    draw_parts(&columns, &mut inner.subarea(LABEL_CELLS, 0, width, rows));
    if swap_rows > 0 {
        inner.line(rows, ("swap", StyleRole::Dim));
        let (style, peak_style) = (inner.area_gradient(StyleRole::OtherBlocked), inner.graph_style(StyleRole::Dim));
        let graph = AreaGraph::new(&swap, 1.0, style, peak_style);
        inner.subarea(LABEL_CELLS, rows, width, 1).render(graph);
    }
    let graphs = inner.subarea(LABEL_CELLS, 0, width, u16::MAX).area();
    pane.time_axis(columns.axis(), graphs);
}

/// Rows inside a pane from which swap has one.
const MIN_ROWS_WITH_SWAP: u16 = 4;

fn legend() -> SafeLine {
    let mut line = SafeLine::default();
    line.push_glyphs([('█', StyleRole::System)]);
    line.push(" in use  ", StyleRole::Dim);
    line.push_glyphs([(CACHE_GLYPH, StyleRole::Disk)]);
    line.with(" cache", StyleRole::Dim)
}

const CACHE_GLYPH: char = '░';

/// From the bottom: what is not available, in eighths of a row and with its peaks; caches that can be reclaimed; free memory.
fn draw_parts(columns: &GraphColumns, pane: &mut Pane) {
    let in_use = columns.ranges(&GraphFigure::Memory(MemoryShare::NotAvailable));
    let not_free = columns.ranges(&GraphFigure::Memory(MemoryShare::NotFree));
    let pairs = in_use.iter().zip(&not_free).map(|(in_use, not_free)| Some((in_use.as_ref()?[1], not_free.as_ref()?[1])));
    let shares: Vec<Option<[f32; 2]>> =
        pairs.map(|pair| pair.map(|(in_use, not_free)| [in_use, (not_free - in_use).max(0.0)])).collect();
    let layer = |glyph, role| Layer { glyph, style: layer_style(pane, glyph, role) };
    let layers = [layer('█', StyleRole::System), layer(CACHE_GLYPH, StyleRole::Disk)];
    pane.render(StackedArea { columns: &shares, layers });
    let (style, peak_style) = (pane.area_gradient(StyleRole::System), pane.graph_style(StyleRole::Dim));
    pane.render(AreaGraph::new(&in_use, 1.0, style, peak_style));
}
