//! How a key changes the fleet screen: the cursor, the filter, playback.

use tui_input::Input;

use super::keys::{self, FleetAction};
use super::layout::FleetLayout;
use super::{FleetEffect, FleetState};
use crate::state::key::Key;
use crate::state::notice::Notice;
use crate::state::prompt::edit_line;

/// The fastest playback.
const MAX_SPEED: f64 = 1000.0;

/// The header, the rule above the help, and the key line.
const HELP_FRAME_ROWS: u16 = 3;

impl FleetState {
    pub(super) fn on_key(&mut self, key: Key) -> FleetEffect {
        if key == Key::Control('c') {
            return FleetEffect::Quit;
        }
        if self.prompt.is_some() {
            return self.edit_filter(key);
        }
        self.notice = None;
        let Some(action) = keys::action(key, self.playback.is_some()) else {
            let help = self.help.take();
            if help.is_none()
                && let Key::Char(character) = key
            {
                self.notify(Notice::new(format!("{character} does nothing here: ? shows all keys")));
            }
            return FleetEffect::Redraw;
        };
        if self.help.is_some() {
            let page = i64::from(self.setup.size.1.saturating_sub(HELP_FRAME_ROWS).max(2)) - 1;
            match rows_of(action, page) {
                Some(rows) => self.scroll_help(rows),
                None => self.help = None,
            }
            return FleetEffect::Redraw;
        }
        let page = i64::from(FleetLayout::new(self).host_rows.max(2)) - 1;
        if let Some(rows) = rows_of(action, page) {
            self.move_by(rows);
        }
        match action {
            FleetAction::Up
            | FleetAction::Down
            | FleetAction::PageUp
            | FleetAction::PageDown
            | FleetAction::First
            | FleetAction::Last => {}
            FleetAction::Open => return self.selected_host().map_or(FleetEffect::Nothing, FleetEffect::Open),
            FleetAction::Back => self.set_filter(String::new()),
            FleetAction::Filter => self.prompt = Some(Input::new(self.filter.clone())),
            FleetAction::Save if self.playback.is_some() => {
                self.notify(Notice::new("these are recordings already"));
            }
            FleetAction::Save => return FleetEffect::Save,
            FleetAction::TogglePause => return self.toggle_pause(),
            FleetAction::Faster => return self.set_speed(2.0),
            FleetAction::Slower => return self.set_speed(0.5),
            FleetAction::Step(seconds) => return FleetEffect::Step(seconds),
            FleetAction::Help => self.help = Some(0),
            FleetAction::Repaint => return FleetEffect::Repaint,
            FleetAction::Suspend => return FleetEffect::Suspend,
            FleetAction::Quit => return FleetEffect::Quit,
        }
        self.scroll_to_cursor();
        FleetEffect::Redraw
    }

    /// A key while the filter is edited; it applies with each key.
    fn edit_filter(&mut self, key: Key) -> FleetEffect {
        let Some(mut input) = self.prompt.take() else { return FleetEffect::Nothing };
        match key {
            Key::Escape => self.set_filter(String::new()),
            Key::Enter => {}
            key => {
                if edit_line(&mut input, key) {
                    self.set_filter(input.value().to_owned());
                }
                self.prompt = Some(input);
            }
        }
        FleetEffect::Redraw
    }

    fn set_filter(&mut self, filter: String) {
        self.filter = filter;
        self.arrange();
        self.scroll_to_cursor();
    }

    fn toggle_pause(&mut self) -> FleetEffect {
        let Some(playback) = &mut self.playback else { return FleetEffect::Nothing };
        playback.paused = !playback.paused;
        FleetEffect::Pause(playback.paused)
    }

    fn set_speed(&mut self, factor: f64) -> FleetEffect {
        let Some(playback) = &mut self.playback else { return FleetEffect::Nothing };
        playback.speed = (playback.speed * factor).clamp(1.0 / MAX_SPEED, MAX_SPEED);
        FleetEffect::Speed(playback.speed)
    }

    pub(super) fn move_by(&mut self, rows: i64) {
        let row = self.selected_row().saturating_add_signed(isize::try_from(rows).unwrap_or(0));
        self.selected = self.rows.get(row.min(self.rows.len().saturating_sub(1))).copied();
    }

    /// `FleetEvent::MaxScroll` limits it.
    pub(super) fn scroll_help(&mut self, rows: i64) {
        self.help = self.help.map(|offset| offset.saturating_add_signed(isize::try_from(rows).unwrap_or(0)));
    }

    /// Scrolls the least distance that makes the row under the cursor visible.
    pub(super) fn scroll_to_cursor(&mut self) {
        let (row, height) = (self.selected_row(), usize::from(FleetLayout::new(self).host_rows).max(1));
        self.top = self.top.clamp((row + 1).saturating_sub(height), row).min(self.rows.len().saturating_sub(height));
    }
}

/// The number of rows by which an action moves the cursor; `None`: it does something else.
fn rows_of(action: FleetAction, page: i64) -> Option<i64> {
    Some(match action {
        FleetAction::Up => -1,
        FleetAction::Down => 1,
        FleetAction::PageUp => -page,
        FleetAction::PageDown => page,
        FleetAction::First => i64::from(i32::MIN),
        FleetAction::Last => i64::from(i32::MAX),
        _ => return None,
    })
}
