//! One item looked at closely: a page of lines and graphs that can be scrolled.

mod baselines;
mod device;
mod finding;
mod peer;
mod task;

use super::canvas::Canvas;
use super::text::{self, SafeText};
use super::theme::Ink;
use super::widgets::graph::Graph;
use crate::findings::{Finding, Judged};
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
        ink: Ink,
    },
    /// A label in a column of its own, and what belongs to it
    Pair {
        label: SafeText,
        text: SafeText,
        ink: Ink,
    },
    /// Cells of a row of figures: column, text
    Row {
        cells: Vec<(u16, SafeText)>,
        ink: Ink,
    },
    Plot(Box<Plot>),
    States(Microstates),
}

/// A graph with its labels.
pub struct Plot {
    pub values: Vec<Option<f32>>,
    pub threshold: Option<f32>,
    pub top: f32,
    pub top_label: SafeText,
    pub threshold_label: SafeText,
    pub height: u16,
    pub over: Ink,
}

/// Cells of the column of labels, where none of them is longer
const LABELS: u16 = 18;
/// Where a graph begins: room for the label of its top edge.
pub const AXIS: u16 = 11;

impl Page {
    fn new(width: u16) -> Page {
        Page { width, entries: Vec::new() }
    }

    /// A section: a gap above, unless it is the first.
    fn heading(&mut self, words: &'static str) {
        if !self.entries.is_empty() {
            self.entries.push(Entry::Gap);
        }
        self.line(0, words.into(), Ink::Heading);
    }

    fn line(&mut self, indent: u16, text: SafeText, ink: Ink) {
        self.entries.push(Entry::Line { indent, text, ink });
    }

    /// Text of any length, broken between words.
    fn prose(&mut self, indent: u16, words: &SafeText, ink: Ink) {
        if words.is_empty() {
            return;
        }
        let cells = usize::from(self.width.saturating_sub(indent + 1)).clamp(10, 100);
        for line in text::wrap(words.as_str(), cells, usize::MAX) {
            self.line(indent, SafeText::of(line), ink);
        }
    }

    fn pair(&mut self, label: impl Into<SafeText>, text: SafeText) {
        self.entries.push(Entry::Pair { label: label.into(), text, ink: Ink::Plain });
    }

    /// Cells that the longest label takes: what belongs to them begins in one column.
    fn labels(&self) -> u16 {
        let widths = self.entries.iter().filter_map(|entry| match entry {
            Entry::Pair { label, .. } => u16::try_from(label.width()).ok(),
            _ => None,
        });
        widths.max().unwrap_or(0).min(self.width / 2).max(LABELS)
    }

    /// By how many lines it can be scrolled in so many rows.
    fn furthest(&self, height: u16) -> usize {
        let whole: usize = self.entries.iter().map(Entry::height).sum();
        whole.saturating_sub(usize::from(height))
    }

    fn row(&mut self, cells: Vec<(u16, SafeText)>, ink: Ink) {
        self.entries.push(Entry::Row { cells, ink });
    }

    fn plot(&mut self, plot: Plot) {
        self.entries.push(Entry::Plot(Box::new(plot)));
    }

    fn states(&mut self, states: Microstates) {
        self.entries.push(Entry::States(states));
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
            Entry::Line { indent, text, ink } => {
                canvas.rest(*indent, y, text, *ink);
            }
            Entry::Pair { label, text, ink } => {
                canvas.text(2, y, labels, label, Ink::Dim);
                canvas.rest(4 + labels, y, text, *ink);
            }
            Entry::Row { cells, ink } => {
                for (x, text) in cells {
                    canvas.rest(*x, y, text, *ink);
                }
            }
            Entry::States(states) => {
                let width = canvas.width().saturating_sub(4).min(80);
                super::tasks::state_bar(states, canvas, 2, y, width);
            }
            Entry::Plot(plot) => {
                canvas.right(0, y, AXIS - 1, &plot.top_label, Ink::Dim);
                if let Some(threshold) = plot.threshold.filter(|threshold| *threshold <= plot.top) {
                    let share = threshold / plot.top;
                    let row = (plot.height - 1).saturating_sub((share * f32::from(plot.height)) as u16);
                    if row > 0 {
                        canvas.right(0, y + row, AXIS - 1, &plot.threshold_label, Ink::Dim);
                    }
                }
                let graph =
                    Graph { values: &plot.values, threshold: plot.threshold, top: plot.top, ink: Ink::System, over: plot.over };
                let width = canvas.width().saturating_sub(AXIS + 1);
                graph.draw(&mut canvas.part(AXIS, y, width, plot.height));
            }
        }
    }
}

/// Draws the page from the line that it is scrolled to.
pub fn draw(state: &State, judged: &Judged, details: &Details, canvas: &mut Canvas) {
    let (width, height) = (canvas.width(), canvas.height());
    let page = page(state, judged, details, width);
    let most = page.furthest(height);
    let top = details.top.min(most);
    let labels = page.labels();
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
        canvas.right(0, height.saturating_sub(1), width, &words, Ink::Key);
    }
}

/// By how many lines that page can be scrolled on a screen with so many rows for it.
pub fn furthest(state: &State, judged: &Judged, details: &Details, width: u16, height: u16) -> usize {
    page(state, judged, details, width).furthest(height)
}

fn page(state: &State, judged: &Judged, details: &Details, width: u16) -> Page {
    let mut page = Page::new(width);
    match &details.item {
        Item::Finding { kind, subject, since } => {
            let ended: Vec<&Finding> = state.timeline.ended_before(judged.interval.at()).collect();
            // It may have been raised anew meanwhile: the one of the same kind and subject that holds is meant then.
            let same = |finding: &&Finding| finding.kind == *kind && finding.subject == *subject;
            let exact = |finding: &&Finding| same(finding) && finding.since == *since;
            let found = (judged.verdict.iter().find(exact))
                .or_else(|| ended.iter().copied().find(exact))
                .or_else(|| judged.verdict.iter().find(same));
            match found {
                Some(finding) => finding::page(state, judged, finding, &mut page),
                None => page.line(0, "this finding did not hold at the moment shown".into(), Ink::Dim),
            }
        }
        Item::Process(id) => task::process(state, judged, *id, &mut page),
        Item::Thread(id) => task::thread(judged, *id, &mut page),
        Item::Class(class) => task::class(judged, *class, &mut page),
        Item::Disk(id) => device::disk(state, judged, *id, &mut page),
        Item::Nic(id) => device::nic(state, judged, id, &mut page),
        Item::Peer(address) => peer::peer(state, judged, *address, &mut page),
        Item::Cpu(id) => device::cpu(state, judged, *id, &mut page),
    }
    if page.entries.is_empty() {
        page.line(0, "it is not there at the moment shown".into(), Ink::Dim);
    }
    page
}
