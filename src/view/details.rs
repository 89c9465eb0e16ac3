//! The details page of an item: lines and graphs that can be scrolled.

mod baselines;
mod cgroup;
mod device;
mod finding;
mod remote_host;
mod task;

use super::pane::Pane;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use super::widgets::graph::Graph;
use crate::findings::{Evaluation, Finding};
use crate::interval::task::Microstates;
use crate::safe;
use crate::state::{Details, Item, State};

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
    /// A table row: column and text of each cell
    Row {
        cells: Vec<(u16, SafeText)>,
        role: StyleRole,
    },
    Plot(Box<Plot>),
    MicrostatesBar(Microstates),
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

    /// Maximum scroll offset for this number of rows.
    fn max_scroll(&self, height: u16) -> usize {
        let whole: usize = self.entries.iter().map(Entry::height).sum();
        whole.saturating_sub(usize::from(height))
    }

    fn row(&mut self, cells: Vec<(u16, SafeText)>, role: StyleRole) {
        self.entries.push(Entry::Row { cells, role });
    }

    fn plot(&mut self, plot: Plot) {
        self.entries.push(Entry::Plot(Box::new(plot)));
    }

    fn microstates_bar(&mut self, states: Microstates) {
        self.entries.push(Entry::MicrostatesBar(states));
    }
}

impl Entry {
    fn height(&self) -> usize {
        match self {
            Entry::Plot(plot) => usize::from(plot.height),
            _ => 1,
        }
    }

    fn draw(&self, pane: &mut Pane, y: u16, labels: u16) {
        match self {
            Entry::Gap => {}
            Entry::Line { indent, text, role } => {
                pane.subarea(*indent, y, u16::MAX, 1).line(0, (text, *role));
            }
            Entry::Labelled { label, text, role } => {
                pane.subarea(2, y, labels, 1).line(0, (label, StyleRole::Dim));
                pane.subarea(4 + labels, y, u16::MAX, 1).line(0, (text, *role));
            }
            Entry::Row { cells, role } => {
                for (x, text) in cells {
                    pane.subarea(*x, y, u16::MAX, 1).line(0, (text, *role));
                }
            }
            Entry::MicrostatesBar(states) => {
                let width = pane.width().saturating_sub(4).min(80);
                pane.subarea(2, y, width, 1).stacked_bar(&super::tasks::state_segments(states));
            }
            Entry::Plot(plot) => {
                let mut axis = pane.subarea(0, y, GRAPH_COLUMN - 1, plot.height);
                axis.line_right(0, (&plot.max_label, StyleRole::Dim));
                if let Some(threshold) = plot.threshold.filter(|threshold| *threshold <= plot.max) {
                    let share = threshold / plot.max;
                    let row = (plot.height - 1).saturating_sub((share * f32::from(plot.height)) as u16);
                    if row > 0 {
                        axis.line_right(row, (&plot.threshold_label, StyleRole::Dim));
                    }
                }
                let graph = Graph {
                    values: &plot.values,
                    threshold: plot.threshold,
                    max: plot.max,
                    style: pane.graph_style(StyleRole::System),
                    style_above_threshold: pane.graph_style(plot.role_above_threshold),
                };
                let width = pane.width().saturating_sub(GRAPH_COLUMN + 1);
                pane.subarea(GRAPH_COLUMN, y, width, plot.height).render(graph);
            }
        }
    }
}

/// Draws the visible part of the page.
pub fn draw(state: &State, evaluation: &Evaluation, details: &Details, pane: &mut Pane) {
    let (width, height) = (pane.width(), pane.height());
    let page = build_page(state, evaluation, details, width);
    let most = page.max_scroll(height);
    let top = details.scroll_offset.min(most);
    let labels = page.label_width();
    let (mut passed, mut y) = (0, 0);
    for entry in &page.entries {
        let begins = passed;
        passed += entry.height();
        if begins < top {
            continue;
        }
        if y >= height {
            break;
        }
        entry.draw(pane, y, labels);
        y += u16::try_from(entry.height()).unwrap_or(1);
    }
    if most > 0 {
        let words = if top < most { safe!(" ↓ {} more ", most - top) } else { " end ".into() };
        pane.line_right(height.saturating_sub(1), (&words, StyleRole::Key));
    }
}

/// Maximum scroll offset of the page for this size.
pub fn max_scroll(state: &State, evaluation: &Evaluation, details: &Details, width: u16, height: u16) -> usize {
    build_page(state, evaluation, details, width).max_scroll(height)
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
        Item::Thread(id) => task::thread(evaluation, *id, &mut page),
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
