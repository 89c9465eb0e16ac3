//! The column chooser: which columns of a screen are shown. Their order is that of the screen.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use super::event::Effect;
use super::key::Key;

/// Columns by the name of the screen; columns are named by their headings.
pub type ColumnChoices = BTreeMap<String, BTreeSet<String>>;

/// The columns that differ from what a screen shows by itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenColumns {
    pub hidden: ColumnChoices,
    /// Of those that are hidden by default
    pub shown: ColumnChoices,
}

/// A column that can be shown or hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoosableColumn {
    pub heading: &'static str,
    pub hidden_by_default: bool,
}

/// The open chooser.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnChooser {
    /// In the order of the screen; its first column is always shown
    pub columns: Vec<ChoosableColumn>,
    /// Index in `columns`
    pub selected: usize,
    was: ChosenColumns,
}

impl State {
    /// Whether a column of the displayed screen is hidden.
    pub fn hides_column(&self, column: ChoosableColumn) -> bool {
        let chosen = if column.hidden_by_default { &self.chosen_columns.shown } else { &self.chosen_columns.hidden };
        let differs = chosen.get(self.screen.label()).is_some_and(|headings| headings.contains(column.heading));
        differs != column.hidden_by_default
    }

    pub(super) fn open_column_chooser(&mut self, columns: Vec<ChoosableColumn>) {
        self.column_chooser = Some(ColumnChooser { columns, selected: 0, was: self.chosen_columns.clone() });
    }

    /// A key while the chooser is open.
    pub(super) fn edit_column_chooser(&mut self, key: Key) -> Effect {
        match key {
            Key::Escape | Key::Char('C' | 'q') => return self.close_column_chooser(),
            Key::Up | Key::Char('k') => self.select_column_by(-1),
            Key::Down | Key::Char('j') => self.select_column_by(1),
            Key::Enter | Key::Char(' ') => {
                let selected = self.column_chooser.as_ref().map_or(0, |chooser| chooser.selected);
                self.toggle_column(selected);
            }
            _ => return Effect::Nothing,
        }
        Effect::Redraw
    }

    pub(super) fn select_column_by(&mut self, by: i64) {
        if let Some(chooser) = &mut self.column_chooser {
            let to = chooser.selected.saturating_add_signed(isize::try_from(by).unwrap_or(0));
            chooser.selected = to.min(chooser.columns.len().saturating_sub(1));
        }
    }

    /// Shows or hides the column with this index.
    pub(super) fn toggle_column(&mut self, index: usize) {
        let Some(chooser) = &mut self.column_chooser else { return };
        let Some(&ChoosableColumn { heading, hidden_by_default }) = chooser.columns.get(index) else { return };
        chooser.selected = index;
        let chosen = &mut self.chosen_columns;
        let chosen = if hidden_by_default { &mut chosen.shown } else { &mut chosen.hidden };
        let headings = chosen.entry(self.screen.label().to_owned()).or_default();
        if !headings.remove(heading) {
            headings.insert(heading.to_owned());
        }
        if headings.is_empty() {
            chosen.remove(self.screen.label());
        }
    }

    /// Closes the chooser; a change is saved.
    pub(super) fn close_column_chooser(&mut self) -> Effect {
        let chooser = self.column_chooser.take();
        let changed = chooser.is_some_and(|chooser| chooser.was != self.chosen_columns);
        if changed { Effect::SaveLists } else { Effect::Redraw }
    }
}
