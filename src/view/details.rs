//! One item looked at closely: a page of lines and graphs that can be scrolled.

mod baselines;
mod device;
mod finding;
mod remote_host;
mod task;

use super::canvas::Canvas;
use super::text::{self, SafeText};
use super::theme::StyleRole;
use super::widgets::graph::Graph;
use crate::findings::{Evaluation, Finding};
use crate::interval::task::Microstates;
use crate::safe;
use crate::state::{Details, Item, State};

/// What a page is made of, from top to bottom.
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
    /// A label in a column of its own, and what belongs to it
    Labelled {
        label: SafeText,
        text: SafeText,
        role: StyleRole,
    },
    /// Cells of a row of figures: column, text
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

/// Cells of the column of labels, where none of them is longer
const MIN_LABEL_WIDTH: u16 = 18;
/// Where a graph begins: room for the label of its top edge.
pub const GRAPH_COLUMN: u16 = 11;

impl Page {
    fn new(width: u16) -> Page {
        Page { width, entries: Vec::new() }
    }

    /// A section: a gap above, unless it is the first.
    fn heading(&mut self, words: &'static str) {
        if !self.entries.is_empty() {
            self.entries.push(Entry::Gap);
        }
        self.line(0, words.into(), StyleRole::Heading);
    }

    fn line(&mut self, indent: u16, text: SafeText, ink: StyleRole) {
        self.entries.push(Entry::Line { indent, text, role: ink });
    }

    /// Text of any length, broken between words.
    fn paragraph(&mut self, indent: u16, words: &SafeText, ink: StyleRole) {
        if words.is_empty() {
            return;
        }
        let cells = usize::from(self.width.saturating_sub(indent + 1)).clamp(10, 100);
        for line in text::wrap(words.as_str(), cells, usize::MAX) {
            self.line(indent, SafeText::sanitize(line), ink);
        }
    }

    fn labelled(&mut self, label: impl Into<SafeText>, text: SafeText) {
        self.entries.push(Entry::Labelled { label: label.into(), text, role: StyleRole::Plain });
    }

    /// Cells that the longest label takes: what belongs to them begins in one column.
    fn label_width(&self) -> u16 {
        let widths = self.entries.iter().filter_map(|entry| match entry {
            Entry::Labelled { label, .. } => u16::try_from(label.width()).ok(),
            _ => None,
        });
        widths.max().unwrap_or(0).min(self.width / 2).max(MIN_LABEL_WIDTH)
    }

    /// By how many lines it can be scrolled in so many rows.
    fn max_scroll(&self, height: u16) -> usize {
        let whole: usize = self.entries.iter().map(Entry::height).sum();
        whole.saturating_sub(usize::from(height))
    }

    fn row(&mut self, cells: Vec<(u16, SafeText)>, ink: StyleRole) {
        self.entries.push(Entry::Row { cells, role: ink });
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

    fn draw(&self, canvas: &mut Canvas, y: u16, labels: u16) {
        match self {
            Entry::Gap => {}
            Entry::Line { indent, text, role: ink } => {
                canvas.text_to_end(*indent, y, text, *ink);
            }
            Entry::Labelled { label, text, role: ink } => {
                canvas.text(2, y, labels, label, StyleRole::Dim);
                canvas.text_to_end(4 + labels, y, text, *ink);
            }
            Entry::Row { cells, role: ink } => {
                for (x, text) in cells {
                    canvas.text_to_end(*x, y, text, *ink);
                }
            }
            Entry::MicrostatesBar(states) => {
                let width = canvas.width().saturating_sub(4).min(80);
                super::tasks::state_bar(states, canvas, 2, y, width);
            }
            Entry::Plot(plot) => {
                canvas.text_right(0, y, GRAPH_COLUMN - 1, &plot.max_label, StyleRole::Dim);
                if let Some(threshold) = plot.threshold.filter(|threshold| *threshold <= plot.max) {
                    let share = threshold / plot.max;
                    let row = (plot.height - 1).saturating_sub((share * f32::from(plot.height)) as u16);
                    if row > 0 {
                        canvas.text_right(0, y + row, GRAPH_COLUMN - 1, &plot.threshold_label, StyleRole::Dim);
                    }
                }
                let graph = Graph {
                    values: &plot.values,
                    threshold: plot.threshold,
                    max: plot.max,
                    role: StyleRole::System,
                    role_above_threshold: plot.role_above_threshold,
                };
                let width = canvas.width().saturating_sub(GRAPH_COLUMN + 1);
                graph.draw(&mut canvas.subarea(GRAPH_COLUMN, y, width, plot.height));
            }
        }
    }
}

/// Draws the page from the line that it is scrolled to.
pub fn draw(state: &State, judged: &Evaluation, details: &Details, canvas: &mut Canvas) {
    let (width, height) = (canvas.width(), canvas.height());
    let page = build_page(state, judged, details, width);
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
        entry.draw(canvas, y, labels);
        y += u16::try_from(entry.height()).unwrap_or(1);
    }
    if most > 0 {
        let words = if top < most { safe!(" ↓ {} more ", most - top) } else { " end ".into() };
        canvas.text_right(0, height.saturating_sub(1), width, &words, StyleRole::Key);
    }
}

/// By how many lines that page can be scrolled on a screen with so many rows for it.
pub fn furthest(state: &State, judged: &Evaluation, details: &Details, width: u16, height: u16) -> usize {
    build_page(state, judged, details, width).max_scroll(height)
}

fn build_page(state: &State, judged: &Evaluation, details: &Details, width: u16) -> Page {
    let mut page = Page::new(width);
    match &details.item {
        Item::Finding { kind, subject, since } => {
            let ended: Vec<&Finding> = state.finding_history.ended_before(judged.interval.at()).collect();
            // It may have been raised anew meanwhile: the one of the same kind and subject that holds is meant then.
            let same = |finding: &&Finding| finding.kind == *kind && finding.subject == *subject;
            let exact = |finding: &&Finding| same(finding) && finding.since == *since;
            let found = (judged.active.iter().find(exact))
                .or_else(|| ended.iter().copied().find(exact))
                .or_else(|| judged.active.iter().find(same));
            match found {
                Some(finding) => finding::page(state, judged, finding, &mut page),
                None => page.line(0, "this finding did not hold at the moment shown".into(), StyleRole::Dim),
            }
        }
        Item::Process(id) => task::process(state, judged, *id, &mut page),
        Item::Thread(id) => task::thread(judged, *id, &mut page),
        Item::WaitClass(class) => task::wait_class(judged, *class, &mut page),
        Item::Disk(id) => device::disk(state, judged, *id, &mut page),
        Item::Nic(id) => device::nic(state, judged, id, &mut page),
        Item::RemoteHost(address) => remote_host::remote_host(state, judged, *address, &mut page),
        Item::Cpu(id) => device::cpu(state, judged, *id, &mut page),
    }
    if page.entries.is_empty() {
        page.line(0, "it is not there at the moment shown".into(), StyleRole::Dim);
    }
    page
}
