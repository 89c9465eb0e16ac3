//! The details page of an item: lines and graphs that can be scrolled.

mod baselines;
mod cgroup;
mod cgroups;
mod device;
pub mod finding;
mod finding_items;
mod remote_host;
mod stacks;
mod table;
mod task;

use super::pane::Pane;
use super::panes::{layer_style, shown_time};
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use super::widgets::graph::Graph;
use super::widgets::stacked_area::{Layer, StackedArea};
use crate::findings::{Evaluation, Finding};
use crate::interval::task::Microstates;
use crate::safe;
use crate::state::graph_columns::{GraphColumns, TimeAxis};
use crate::state::history::MAX_PAGE_COLUMNS;
use crate::state::{Details, Item, PageItems, State};
use table::PageTable;

/// The content of a page from top to bottom.
pub struct Page {
    width: u16,
    entries: Vec<Entry>,
}

enum Entry {
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

/// Minimum width of the label column
const MIN_LABEL_WIDTH: u16 = 18;
/// Cells of a bar at most.
const MAX_BAR_WIDTH: u16 = 40;
/// First column of a graph, after the label of its top edge.
pub const GRAPH_COLUMN: u16 = 11;

impl Page {
    fn new(width: u16) -> Page {
        Page { width, entries: Vec::new() }
    }

    /// A section heading, with a gap above unless it is the first line.
    fn heading(&mut self, words: &'static str) {
        if !self.entries.is_empty() {
            self.entries.push(Entry::Gap);
        }
        self.line(0, words.into(), StyleRole::Heading);
    }

    fn line(&mut self, indent: u16, text: SafeText, role: StyleRole) {
        self.entries.push(Entry::Line { indent, text, role });
    }

    /// Wrapped text.
    fn paragraph(&mut self, indent: u16, words: &SafeText, role: StyleRole) {
        if words.is_empty() {
            return;
        }
        let cells = usize::from(self.width.saturating_sub(indent + 1)).clamp(10, 100);
        for line in text::wrap(words.as_str(), cells, usize::MAX) {
            self.line(indent, SafeText::sanitize(line), role);
        }
    }

    fn labelled(&mut self, label: impl Into<SafeText>, text: SafeText) {
        self.entries.push(Entry::Labelled { label: label.into(), text, role: StyleRole::Plain });
    }

    /// Width of the label column, so that all values begin in the same column.
    fn label_width(&self) -> u16 {
        let widths = self.entries.iter().filter_map(|entry| match entry {
            Entry::Labelled { label, .. } => u16::try_from(label.width()).ok(),
            _ => None,
        });
        widths.max().unwrap_or(0).min(self.width / 2).max(MIN_LABEL_WIDTH)
    }

    /// Number of lines.
    fn height(&self) -> usize {
        height(&self.entries)
    }

    /// The entries of the left and of the right column, about equally high. A section is not divided.
    fn columns(&self) -> [&[Entry]; 2] {
        let is_between = |at: &usize| matches!(self.entries.get(*at), Some(Entry::Gap));
        let halves = |at: usize| {
            let (left, right) = self.entries.split_at(at.min(self.entries.len()));
            [left, right.split_first().map_or(right, |(_, rest)| rest)]
        };
        let higher = |at: &usize| halves(*at).map(height).into_iter().max();
        let split = (0..self.entries.len()).filter(is_between).min_by_key(higher);
        halves(split.unwrap_or(self.entries.len()))
    }

    fn table(&mut self, table: PageTable) {
        self.entries.push(Entry::Table(table));
    }

    /// A graph below the time that it shows.
    fn plot(&mut self, state: &State, columns: &GraphColumns, plot: Plot) {
        self.shown_time(state, columns);
        self.entries.push(Entry::Plot(Box::new(plot), columns.axis()));
    }

    fn shown_time(&mut self, state: &State, columns: &GraphColumns) {
        let peaks = if columns.has_peaks { ", maxima" } else { "" };
        self.line(2, safe!("{}{peaks}", shown_time(state, columns)), StyleRole::Dim);
    }

    fn styled(&mut self, indent: u16, line: SafeLine) {
        self.entries.push(Entry::Styled { indent, line });
    }

    fn states_over_time(&mut self, state: &State, columns: &GraphColumns, shares: Vec<Option<[f32; 6]>>) {
        self.shown_time(state, columns);
        self.entries.push(Entry::States(shares, columns.axis()));
    }

    fn microstates_bar(&mut self, states: Microstates, throttled: f64) {
        self.entries.push(Entry::MicrostatesBar(states, throttled));
    }
}

/// Number of lines of entries below each other.
fn height(entries: &[Entry]) -> usize {
    entries.iter().map(Entry::height).sum()
}

impl Entry {
    fn height(&self) -> usize {
        match self {
            Entry::Plot(plot, _) => usize::from(plot.height),
            Entry::States(..) => STATE_LAYERS.len(),
            Entry::Table(table) => table.height(),
            _ => 1,
        }
    }

    /// Draws what is below its first `passed` lines, which only a table has.
    fn draw(&self, pane: &mut Pane, y: u16, labels: u16, passed: usize, selected: Option<&Item>) {
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
                pane.subarea(2, y, width, 1).stacked_bar(&super::task_states::state_segments(states, *throttled));
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

/// Width of a page from which it has two columns, if one is too high.
const MIN_WIDTH_FOR_COLUMNS: u16 = 160;

/// Blank cells between two columns.
const COLUMN_GAP: u16 = 3;

/// A page for a size, and the width of its columns.
struct PageLayout {
    page: Page,
    column_width: u16,
}

impl PageLayout {
    fn new(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> PageLayout {
        // The last column is that of the scroll bar.
        let width = width.saturating_sub(1);
        let page = build_page(state, evaluation, details, width);
        if width < MIN_WIDTH_FOR_COLUMNS || page.height() <= usize::from(height) {
            return PageLayout { page, column_width: width };
        }
        let column_width = (width - COLUMN_GAP) / 2;
        PageLayout { page: build_page(state, evaluation, details, column_width), column_width }
    }

    fn columns(&self, width: u16) -> Vec<&[Entry]> {
        if self.column_width < width / 2 { self.page.columns().into() } else { vec![&self.page.entries] }
    }

    /// Maximum scroll offset.
    fn max_scroll(&self, width: u16, rows: u16) -> usize {
        let highest = self.columns(width).into_iter().map(height).max();
        highest.unwrap_or(0).saturating_sub(usize::from(rows))
    }
}

/// Draws the visible part of the page.
pub fn draw(state: &State, evaluation: &Evaluation, details: &Details, pane: &mut Pane) {
    let (width, height) = (pane.width(), pane.height());
    let layout = PageLayout::new(state, evaluation, details, width, height);
    let most = layout.max_scroll(width, height);
    let top = details.scroll_offset.min(most);
    let labels = layout.page.label_width();
    pane.scroll_bar(most + usize::from(height), top, usize::from(height));
    let mut x = 0;
    for entries in layout.columns(width) {
        draw_entries(entries, labels, top, details.selected.as_ref(), &mut pane.subarea(x, 0, layout.column_width, u16::MAX));
        x += layout.column_width + COLUMN_GAP;
    }
    if most > 0 {
        let words = if top < most { safe!(" ↓ {} more ", most - top) } else { " end ".into() };
        pane.subarea(0, 0, width - 1, u16::MAX).line_right(height.saturating_sub(1), (&words, StyleRole::Key));
    }
}

/// Draws entries below each other, from line `top` on.
fn draw_entries(entries: &[Entry], labels: u16, top: usize, selected: Option<&Item>, pane: &mut Pane) {
    let (mut begins, mut y) = (0, 0);
    for entry in entries {
        let (passed, lines) = (top.saturating_sub(begins), entry.height());
        begins += lines;
        if passed >= lines {
            continue;
        }
        if y >= pane.height() {
            break;
        }
        let rows = u16::try_from(lines - passed).unwrap_or(u16::MAX);
        let is_cut = passed > 0 || rows > pane.height() - y;
        match entry {
            Entry::Plot(plot, _) if is_cut => draw_cut(entry, plot.height, pane, y, passed),
            Entry::States(..) if is_cut => draw_cut(entry, STATE_LAYERS.len() as u16, pane, y, passed),
            _ => entry.draw(pane, y, labels, passed, selected),
        }
        y = y.saturating_add(rows);
    }
}

/// Draws the visible rows of a graph. Drawn into them it would be lower than its labels say.
fn draw_cut(entry: &Entry, height: u16, pane: &mut Pane, y: u16, passed: usize) {
    let passed = u16::try_from(passed).unwrap_or(u16::MAX);
    pane.draw_cut(y, passed, height, |whole| entry.draw(whole, 1, 0, 0, None));
}

/// Draws as much of a page as fits; `fill` writes it. A sign says that there is more.
pub fn draw_beginning(pane: &mut Pane, fill: impl FnOnce(&mut Page)) {
    let mut page = Page::new(pane.width());
    fill(&mut page);
    let is_cut = page.height() > usize::from(pane.height());
    let (labels, height) = (page.label_width(), pane.height() - u16::from(is_cut));
    let mut y = 0;
    for entry in &page.entries {
        let below = y + u16::try_from(entry.height()).unwrap_or(u16::MAX);
        if below > height {
            break;
        }
        entry.draw(pane, y, labels, 0, None);
        y = below;
    }
    if is_cut {
        pane.line_right(height, ("↓ Enter: more", StyleRole::Key));
    }
}

/// Maximum scroll offset of the page for this size.
pub fn max_scroll(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> usize {
    PageLayout::new(state, evaluation, details, width, height).max_scroll(width, height)
}

/// The items that the page of this size lists.
pub fn page_items(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> PageItems {
    let layout = PageLayout::new(state, evaluation, details, width, height);
    let mut lines = Vec::new();
    for entries in layout.columns(width) {
        let mut begins = 0;
        for entry in entries {
            if let Entry::Table(table) = entry {
                lines.extend(table.items().map(|(line, item)| (begins + line, item.clone())));
            }
            begins += entry.height();
        }
    }
    PageItems { lines, height: usize::from(height) }
}

fn build_page(state: &State, evaluation: &Evaluation, details: &Details, width: u16) -> Page {
    let mut page = Page::new(width);
    match &details.item {
        Item::Finding { kind, subject, since } => {
            let ended: Vec<&Finding> = state.finding_history.ended_before(evaluation.interval.at()).collect();
            // If this finding is gone, an active one of the same kind and subject replaces it.
            let same = |finding: &&Finding| finding.kind == *kind && finding.subject == *subject;
            let exact = |finding: &&Finding| same(finding) && finding.since == *since;
            let found = (evaluation.active.iter().find(exact))
                .or_else(|| ended.iter().copied().find(exact))
                .or_else(|| evaluation.active.iter().find(same));
            match found {
                Some(finding) => finding::page(state, evaluation, finding, &mut page),
                None => page.line(0, "this finding is not active at the time displayed".into(), StyleRole::Dim),
            }
        }
        Item::Process(id) => task::process(state, evaluation, *id, &mut page),
        Item::Thread(id) => task::thread(state, evaluation, *id, &mut page),
        Item::WaitClass(class) => task::wait_class(evaluation, *class, &mut page),
        Item::Disk(id) => device::disk(state, evaluation, *id, &mut page),
        Item::Nic(id) => device::nic(state, evaluation, id, &mut page),
        Item::Cgroup(id) => cgroup::page(state, evaluation, id, &mut page),
        Item::RemoteHost(address) => remote_host::remote_host(state, evaluation, *address, &mut page),
        Item::Cpu(id) => device::cpu(state, evaluation, *id, &mut page),
    }
    if page.entries.is_empty() {
        page.line(0, "it does not exist at the time displayed".into(), StyleRole::Dim);
    }
    page
}
