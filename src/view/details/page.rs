//! The content of a details page, built from top to bottom.

use super::entry::{Entry, Plot, height};
use super::table::PageTable;
use crate::interval::task::Microstates;
use crate::safe;
use crate::state::State;
use crate::state::graph_columns::GraphColumns;
use crate::view::panes::shown_time;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text;
use crate::view::theme::StyleRole;

/// The content of a page from top to bottom.
pub struct Page {
    pub width: u16,
    pub entries: Vec<Entry>,
}

/// Minimum width of the label column
const MIN_LABEL_WIDTH: u16 = 18;

impl Page {
    pub fn new(width: u16) -> Page {
        Page { width, entries: Vec::new() }
    }

    /// A section heading, with a gap above unless it is the first line.
    pub fn heading(&mut self, words: &'static str) {
        if !self.entries.is_empty() {
            self.entries.push(Entry::Gap);
        }
        self.line(0, words.into(), StyleRole::Heading);
    }

    pub fn line(&mut self, indent: u16, text: SafeText, role: StyleRole) {
        self.entries.push(Entry::Line { indent, text, role });
    }

    /// Wrapped text.
    pub fn paragraph(&mut self, indent: u16, words: &SafeText, role: StyleRole) {
        if words.is_empty() {
            return;
        }
        let cells = usize::from(self.width.saturating_sub(indent + 1)).clamp(10, 100);
        for line in text::wrap(words.as_str(), cells, usize::MAX) {
            self.line(indent, SafeText::sanitize(line), role);
        }
    }

    pub fn labelled(&mut self, label: impl Into<SafeText>, text: SafeText) {
        self.entries.push(Entry::Labelled { label: label.into(), text, role: StyleRole::Plain });
    }

    /// Width of the label column, so that all values begin in the same column.
    pub fn label_width(&self) -> u16 {
        let widths = self.entries.iter().filter_map(|entry| match entry {
            Entry::Labelled { label, .. } => u16::try_from(label.width()).ok(),
            _ => None,
        });
        widths.max().unwrap_or(0).min(self.width / 2).max(MIN_LABEL_WIDTH)
    }

    /// Number of lines.
    pub fn height(&self) -> usize {
        height(&self.entries)
    }

    /// The entries of the left and of the right column, about equally high. A section is not divided.
    pub fn columns(&self) -> [&[Entry]; 2] {
        let is_between = |at: &usize| matches!(self.entries.get(*at), Some(Entry::Gap));
        let halves = |at: usize| {
            let (left, right) = self.entries.split_at(at.min(self.entries.len()));
            [left, right.split_first().map_or(right, |(_, rest)| rest)]
        };
        let higher = |at: &usize| halves(*at).map(height).into_iter().max();
        let split = (0..self.entries.len()).filter(is_between).min_by_key(higher);
        halves(split.unwrap_or(self.entries.len()))
    }

    pub fn table(&mut self, table: PageTable) {
        self.entries.push(Entry::Table(table));
    }

    /// A graph below the time that it shows.
    pub fn plot(&mut self, state: &State, columns: &GraphColumns, plot: Plot) {
        self.shown_time(state, columns);
        self.entries.push(Entry::Plot(Box::new(plot), columns.axis()));
    }

    pub fn shown_time(&mut self, state: &State, columns: &GraphColumns) {
        let peaks = if columns.has_peaks { ", maxima" } else { "" };
        self.line(2, safe!("{}{peaks}", shown_time(state, columns)), StyleRole::Dim);
    }

    pub fn styled(&mut self, indent: u16, line: SafeLine) {
        self.entries.push(Entry::Styled { indent, line });
    }

    pub fn states_over_time(&mut self, state: &State, columns: &GraphColumns, shares: Vec<Option<[f32; 6]>>) {
        let words = shown_time(state, columns);
        self.line(2, safe!("{words}; blank: asleep, or not kept"), StyleRole::Dim);
        self.entries.push(Entry::States(shares, columns.axis()));
    }

    pub fn microstates_bar(&mut self, states: Microstates, throttled: f64) {
        self.entries.push(Entry::MicrostatesBar(states, throttled));
    }
}
