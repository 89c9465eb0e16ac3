//! The menu of settings, over the screen: a line for each setting.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::theme::StyleRole;
use crate::safe;
use crate::state::settings_menu::{Setting, SettingsMenu};
use crate::state::{ClickTarget, Direction, GlyphSet, State};
use crate::units::time;

/// Cells of the menu, and of the names in it.
const WIDTH: u16 = 50;
const NAME_WIDTH: usize = 14;

/// Cells of the name and the sign of the previous value, where a click sets that.
const PREVIOUS_WIDTH: u16 = 16;

pub fn draw(state: &State, menu: &SettingsMenu, pane: &mut Pane) {
    let lines = u16::try_from(menu.settings.len()).unwrap_or(u16::MAX);
    let (width, height) = (WIDTH.min(pane.width()), lines.saturating_add(2).min(pane.height()));
    let mut frame = pane.subarea((pane.width() - width) / 2, (pane.height() - height) / 2, width, height);
    frame.clear();
    frame.on_click(ClickTarget::Overlay);
    let mut inner = frame.framed(("Settings", StyleRole::Bold), ("← → change, Esc closes", StyleRole::Dim));
    let top = (menu.selected + 1).saturating_sub(usize::from(inner.height()));
    for (y, (at, &setting)) in (0..inner.height()).zip(menu.settings.iter().enumerate().skip(top)) {
        let mut row = inner.subarea(0, y, u16::MAX, 1);
        row.line(0, setting_line(state, setting));
        row.on_click(ClickTarget::Setting { index: at, direction: Direction::Forward });
        if !matches!(setting, Setting::Pane(_)) {
            row.subarea(0, 0, PREVIOUS_WIDTH, 1).on_click(ClickTarget::Setting { index: at, direction: Direction::Back });
        }
        if at == menu.selected {
            row.highlight_rows(0, 1);
        }
    }
    let rows = height.saturating_sub(2);
    frame.subarea(0, 1, width, rows).scroll_bar(menu.settings.len(), top, usize::from(rows));
}

fn setting_line(state: &State, setting: Setting) -> SafeLine {
    let value = |name: &'static str, value: SafeText| {
        let mut line = SafeLine::new(safe!(" {name}"), StyleRole::Plain);
        line.pad_to(NAME_WIDTH);
        line.with("◂ ", StyleRole::Dim).with(value, StyleRole::Bold).with(" ▸", StyleRole::Dim)
    };
    match setting {
        Setting::Theme => value("theme", SafeText::sanitize(state.setup.terminal.theme.name())),
        Setting::Characters => {
            value("characters", if state.setup.terminal.glyphs == GlyphSet::Ascii { "ASCII" } else { "Unicode" }.into())
        }
        Setting::Interval => value("interval", safe!("{}", time::duration(state.setup.interval_ms as f64 / 1e3))),
        Setting::Speed => value("speed", safe!("×{}", state.playback.speed)),
        Setting::Pane(name) => {
            let hidden = state.hides_pane(state.screen, name);
            let (mark, role) = if hidden { (" [ ] ", StyleRole::Dim) } else { (" [x] ", StyleRole::Plain) };
            SafeLine::new(mark, role).with(name, role).with(" pane", StyleRole::Dim)
        }
    }
}
