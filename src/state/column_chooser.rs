//! The column chooser: which columns of a screen are shown. Their order is that of the screen.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{ClickTarget, Effect};
use super::key::Key;
use super::screen::Screen;
use super::{Overlay, State};

/// Columns by the name of the screen; columns by their keys.
pub type ColumnChoices = BTreeMap<String, BTreeSet<String>>;

/// The columns that differ from what a screen shows by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChosenColumns {
    pub hidden: ColumnChoices,
    /// Of those that are hidden by default
    pub shown: ColumnChoices,
}

/// A column that can be shown or hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoosableColumn {
    /// The figure's key, or the column's own
    pub key: &'static str,
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

impl ChosenColumns {
    fn hides(&self, screen: Screen, column: ChoosableColumn) -> bool {
        let chosen = if column.hidden_by_default { &self.shown } else { &self.hidden };
        let differs = chosen.get(screen.label()).is_some_and(|keys| keys.contains(column.key));
        differs != column.hidden_by_default
    }

    /// Shows or hides a column.
    fn toggle(&mut self, screen: Screen, column: ChoosableColumn) {
        let chosen = if column.hidden_by_default { &mut self.shown } else { &mut self.hidden };
        let keys = chosen.entry(screen.label().to_owned()).or_default();
        if !keys.remove(column.key) {
            keys.insert(column.key.to_owned());
        }
        if keys.is_empty() {
            chosen.remove(screen.label());
        }
    }
}

impl ColumnChooser {
    pub(super) fn select_by(&mut self, by: i64) {
        let to = self.selected.saturating_add_signed(isize::try_from(by).unwrap_or(0));
        self.selected = to.min(self.columns.len().saturating_sub(1));
    }
}

impl State {
    /// Whether a column of the displayed screen is hidden.
    pub fn hides_column(&self, column: ChoosableColumn) -> bool {
        self.lists.chosen_columns.hides(self.screen, column)
    }

    pub(super) fn open_column_chooser(&mut self, columns: Vec<ChoosableColumn>) {
        let chooser = ColumnChooser { columns, selected: 0, was: self.lists.chosen_columns.clone() };
        self.overlay = Some(Overlay::ColumnChooser(chooser));
    }

    /// A key while the chooser is open.
    pub(super) fn edit_column_chooser(&mut self, mut chooser: ColumnChooser, key: Key) -> Effect {
        let mut effect = Effect::Redraw;
        match key {
            Key::Escape | Key::Char('C' | 'q') => return self.close_column_chooser(&chooser),
            Key::Up | Key::Char('k') => chooser.select_by(-1),
            Key::Down | Key::Char('j') => chooser.select_by(1),
            Key::Enter | Key::Char(' ') => self.toggle_column(&chooser),
            _ => effect = Effect::Nothing,
        }
        self.overlay = Some(Overlay::ColumnChooser(chooser));
        effect
    }

    /// A click while the chooser is open: outside of it, it closes.
    pub(super) fn click_column_chooser(&mut self, mut chooser: ColumnChooser, target: &ClickTarget) -> Effect {
        let effect = match *target {
            ClickTarget::ColumnChoice(index) => {
                if index < chooser.columns.len() {
                    chooser.selected = index;
                    self.toggle_column(&chooser);
                }
                Effect::Redraw
            }
            ClickTarget::Overlay => Effect::Nothing,
            _ => return self.close_column_chooser(&chooser),
        };
        self.overlay = Some(Overlay::ColumnChooser(chooser));
        effect
    }

    /// Shows or hides the selected column.
    fn toggle_column(&mut self, chooser: &ColumnChooser) {
        if let Some(&column) = chooser.columns.get(chooser.selected) {
            self.lists.chosen_columns.toggle(self.screen, column);
        }
    }

    /// The effect of closing: a change is saved.
    fn close_column_chooser(&self, chooser: &ColumnChooser) -> Effect {
        if chooser.was != self.lists.chosen_columns { Effect::SaveChoices } else { Effect::Redraw }
    }
}
