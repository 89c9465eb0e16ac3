//! The entries of a details page: lines, tables and graphs, and how each is drawn.

use super::table::PageTable;
use crate::interval::task::Microstates;
use crate::safe;
use crate::state::Item;
use crate::state::graph_columns::TimeAxis;
use crate::state::history::MAX_PAGE_COLUMNS;
use crate::view::pane::Pane;
use crate::view::panes::layer_style;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::task_states::state_segments;
use crate::view::theme::StyleRole;
use crate::view::widgets::graph::Graph;
use crate::view::widgets::stacked_area::{Layer, StackedArea};

/// One entry of a page.
pub enum Entry {
    Gap,
    Line {
        indent: u16,
        text: SafeText,
        role: StyleRole,
    },
    /// A label, and a value in the second column
    Labelled {
        label: SafeText,
        text: SafeText,
        role: StyleRole,
    },
    Table(PageTable),
    Styled {
        indent: u16,
        line: SafeLine,
    },
    Plot(Box<Plot>, TimeAxis),
    /// The states, and the part of the run-queue wait in which a quota throttled
    MicrostatesBar(Microstates, f64),
    /// Shares of the time by state, over time
    States(Vec<Option<[f32; 6]>>, TimeAxis),
}

/// A graph with its labels.
pub struct Plot {
    pub values: Vec<Option<f32>>,
    pub threshold: Option<f32>,
    pub max: f32,
    pub max_label: SafeText,
    pub threshold_label: SafeText,
    pub height: u16,
    pub role_above_threshold: StyleRole,
}

/// Cells of a bar at most.
const MAX_BAR_WIDTH: u16 = 40;
/// First column of a graph, after the label of its top edge.
pub const GRAPH_COLUMN: u16 = 11;

/// Number of lines of entries below each other.
pub fn height(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::height).sum()
}

impl Entry {
    pub fn height(&self) -> usize {
        match self {
            Entry::Plot(plot, _) => usize::from(plot.height),
            Entry::States(..) => STATE_LAYERS.len(),
            Entry::Table(table) => table.height(),
            _ => 1,
        }
    }

    /// Draws it without its first `passed` lines (tables only).
    pub fn draw(&self, pane: &mut Pane, y: u16, labels: u16, passed: usize, selected: Option<&Item>) {
        match self {
            Entry::Gap => {}
            Entry::Line { indent, text, role } => {
                pane.subarea(*indent, y, u16::MAX, 1).line(0, (text, *role));
            }
            Entry::Labelled { label, text, role } => {
                pane.subarea(2, y, labels, 1).line(0, (label, StyleRole::Dim));
                pane.subarea(4 + labels, y, u16::MAX, 1).line(0, (text, *role));
            }
            Entry::Table(table) => table.draw(pane, y, passed, selected),
            Entry::Styled { indent, line } => pane.subarea(*indent, y, u16::MAX, 1).line(0, line.clone()),
            Entry::States(shares, time) => {
                let height = STATE_LAYERS.len() as u16;
                let mut axis = pane.subarea(0, y, GRAPH_COLUMN - 1, height);
                axis.line_right(0, ("100 %", StyleRole::Dim));
                axis.line_right(height - 1, ("0 %", StyleRole::Dim));
                let layers = STATE_LAYERS.map(|(glyph, role, _)| Layer { glyph, style: layer_style(pane, glyph, role) });
                let width = states_width(pane.width());
                let mut graph = pane.subarea(GRAPH_COLUMN, y, width, height);
                graph.render(StackedArea { columns: shares, layers });
                let graph = graph.area();
                pane.time_axis(*time, graph);
                // The words beside the graph, in the order of the layers.
                for (row, (glyph, role, word)) in (0..height).zip(STATE_LAYERS.into_iter().rev()) {
                    let mut line = SafeLine::default();
                    line.push_glyphs([(glyph, role)]);
                    pane.subarea(GRAPH_COLUMN + width + 1, y + row, u16::MAX, 1)
                        .line(0, line.with(safe!(" {word}"), StyleRole::Dim));
                }
            }
            Entry::MicrostatesBar(states, throttled) => {
                let width = pane.width().saturating_sub(4).min(MAX_BAR_WIDTH);
                pane.subarea(2, y, width, 1).stacked_bar(&state_segments(states, *throttled));
            }
            Entry::Plot(plot, time) => {
                let graph = Graph {
                    values: &plot.values,
                    threshold: plot.threshold,
                    max: plot.max,
                    style: pane.area_gradient(StyleRole::System),
                    style_above_threshold: pane.area_gradient(plot.role_above_threshold),
                    threshold_style: pane.graph_style(StyleRole::Dim),
                };
                let line = graph.threshold_row(plot.height);
                let mut axis = pane.subarea(0, y, GRAPH_COLUMN - 1, plot.height);
                if line != Some(0) {
                    axis.line_right(0, (&plot.max_label, StyleRole::Dim));
                }
                if let Some(row) = line {
                    axis.line_right(row, (&plot.threshold_label, StyleRole::Dim));
                }
                if plot.height > 1 {
                    axis.line_right(plot.height - 1, ("0", StyleRole::Dim));
                }
                let width = graph_width(pane.width());
                let mut area = pane.subarea(GRAPH_COLUMN, y, width, plot.height);
                area.render(graph);
                let area = area.area();
                pane.time_axis(*time, area);
            }
        }
    }
}

/// The states of a task's threads from the lowest layer; the rest is sleep.
const STATE_LAYERS: [(char, StyleRole, &str); 6] = [
    ('█', StyleRole::User, "user"),
    ('▓', StyleRole::System, "system"),
    ('░', StyleRole::RunQueue, "run queue"),
    ('▒', StyleRole::Disk, "disk"),
    ('╱', StyleRole::Lock, "lock"),
    ('╳', StyleRole::OtherBlocked, "other D"),
];

/// Cells of the graph of states, beside which are its words.
pub fn states_width(page: u16) -> u16 {
    graph_width(page.saturating_sub(12))
}

/// Cells of a graph on a page of this width.
pub fn graph_width(page: u16) -> u16 {
    page.saturating_sub(GRAPH_COLUMN + 1).min(MAX_PAGE_COLUMNS)
}
