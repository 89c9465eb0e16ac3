//! What is open above the screen or a page. Only one is open at a time: it takes the clicks and the wheel, and all but the help also
//! take the keys. A prompt is none of them: while a text is typed, the mouse still works on the screen.

use super::State;
use super::column_chooser::ColumnChooser;
use super::event::{ClickTarget, Effect};
use super::key::Key;
use super::palette::Palette;
use super::settings_menu::SettingsMenu;
use super::signal_question::SignalQuestion;

/// What is open above the screen.
#[derive(Clone, Debug)]
pub enum Overlay {
    Help {
        /// The first visible line
        scroll_offset: usize,
    },
    Palette(Palette),
    ColumnChooser(ColumnChooser),
    SignalQuestion(SignalQuestion),
    Settings(SettingsMenu),
}

impl State {
    /// The open help: its first visible line.
    pub fn help(&self) -> Option<usize> {
        if let Some(Overlay::Help { scroll_offset }) = self.overlay { Some(scroll_offset) } else { None }
    }

    pub fn palette(&self) -> Option<&Palette> {
        if let Some(Overlay::Palette(palette)) = &self.overlay { Some(palette) } else { None }
    }

    pub fn column_chooser(&self) -> Option<&ColumnChooser> {
        if let Some(Overlay::ColumnChooser(chooser)) = &self.overlay { Some(chooser) } else { None }
    }

    pub fn signal_question(&self) -> Option<&SignalQuestion> {
        if let Some(Overlay::SignalQuestion(question)) = &self.overlay { Some(question) } else { None }
    }

    /// A key for what is open; `None` if it is for the screen. What stays open is put back.
    pub(super) fn on_overlay_key(&mut self, key: Key) -> Option<Effect> {
        match self.overlay.take()? {
            Overlay::Palette(palette) => Some(self.edit_palette(palette, key)),
            Overlay::ColumnChooser(chooser) => Some(self.edit_column_chooser(chooser, key)),
            Overlay::SignalQuestion(question) => Some(self.answer_signal_question(question, key)),
            Overlay::Settings(menu) => Some(self.edit_settings(menu, key)),
            // The keys of the screen close or scroll it.
            help @ Overlay::Help { .. } => {
                self.overlay = Some(help);
                None
            }
        }
    }

    /// A click while something is open; `None` if nothing is.
    pub(super) fn on_overlay_click(&mut self, target: &ClickTarget) -> Option<Effect> {
        Some(match self.overlay.take()? {
            Overlay::Help { .. } => Effect::Redraw,
            Overlay::Palette(palette) => self.click_palette(&palette, target),
            Overlay::ColumnChooser(chooser) => self.click_column_chooser(chooser, target),
            Overlay::SignalQuestion(question) => self.click_signal_question(question, target),
            Overlay::Settings(menu) => self.click_settings(menu, target),
        })
    }

    /// The wheel moves what is in front.
    pub(super) fn on_wheel(&mut self, rows: i64) {
        match &mut self.overlay {
            Some(Overlay::Palette(palette)) => palette.select_by(rows.signum()),
            Some(Overlay::ColumnChooser(chooser)) => chooser.select_by(rows.signum()),
            Some(Overlay::SignalQuestion(question)) => question.select_by(rows.signum()),
            Some(Overlay::Settings(menu)) => menu.select_by(rows.signum()),
            Some(Overlay::Help { .. }) | None => self.move_by(rows),
        }
    }
}
