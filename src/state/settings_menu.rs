//! The menu of settings: theme, characters, interval or speed, and on a large terminal the panes of the screen.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{ClickTarget, Direction, Effect};
use super::key::Key;
use super::notice::Notice;
use super::panes::Band;
use super::terminal_capabilities::{ColorSupport, GlyphSet};
use super::theme_choice::ThemeChoice;
use super::{Overlay, Screen, State};

/// The names of the hidden panes, by the name of the screen.
pub type HiddenPanes = BTreeMap<String, BTreeSet<String>>;

/// A line of the menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Theme,
    /// Unicode or ASCII
    Characters,
    /// Live: the time between two samples
    Interval,
    /// Replay: the multiple of real time
    Speed,
    /// Whether a pane of the displayed screen is shown
    Pane(&'static str),
}

/// The open menu.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingsMenu {
    pub settings: Vec<Setting>,
    /// Index in `settings`
    pub selected: usize,
}

impl SettingsMenu {
    pub(super) fn select_by(&mut self, by: i64) {
        let to = self.selected.saturating_add_signed(isize::try_from(by).unwrap_or(0));
        self.selected = to.min(self.settings.len().saturating_sub(1));
    }
}

impl State {
    /// Whether a pane of a screen is hidden.
    pub fn hides_pane(&self, screen: Screen, pane: &str) -> bool {
        self.hidden_panes.get(screen.label()).is_some_and(|names| names.contains(pane))
    }

    pub(super) fn open_settings(&mut self) {
        let capabilities = self.capabilities();
        let mut settings = vec![Setting::Theme, Setting::Characters];
        settings.extend(capabilities.set_interval.then_some(Setting::Interval));
        settings.extend(capabilities.set_speed.then_some(Setting::Speed));
        // A page covers them.
        if self.has_room_for_panes() && self.details.is_none() {
            settings.extend(self.optional_panes().into_iter().map(Setting::Pane));
        }
        self.overlay = Some(Overlay::Settings(SettingsMenu { settings, selected: 0 }));
    }

    /// The panes of the displayed screen that can be hidden: all but that of its list, and those for which the terminal is too small.
    fn optional_panes(&self) -> Vec<&'static str> {
        let definition = self.screen.definition();
        let has_rows = |band: &Band| self.current().is_some_and(|evaluation| (band.rows)(self, evaluation).1 > 0);
        let panes = definition.bands.iter().flat_map(|band| band.panes.iter().map(move |name| (band, *name))).enumerate();
        let others = panes.filter(|(at, _)| definition.list_pane != Some(*at)).map(|(_, pane)| pane);
        others.filter(|(band, name)| has_rows(band) || self.hides_pane(self.screen, name)).map(|(_, name)| name).collect()
    }

    /// A key while the menu is open.
    pub(super) fn edit_settings(&mut self, mut menu: SettingsMenu, key: Key) -> Effect {
        let is_pane = matches!(menu.settings.get(menu.selected), Some(Setting::Pane(_)));
        let effect = match key {
            Key::Escape | Key::Function(2) | Key::Char('q') => return Effect::Redraw,
            Key::Enter if !is_pane => return Effect::Redraw,
            Key::Up | Key::Char('k') => {
                menu.select_by(-1);
                Effect::Redraw
            }
            Key::Down | Key::Char('j') => {
                menu.select_by(1);
                Effect::Redraw
            }
            Key::Right | Key::Enter | Key::Char(' ' | '+') => self.change_setting(&menu, Direction::Forward),
            Key::Left | Key::Char('-') => self.change_setting(&menu, Direction::Back),
            _ => Effect::Nothing,
        };
        self.overlay = Some(Overlay::Settings(menu));
        effect
    }

    /// A click while the menu is open: outside of it, it closes.
    pub(super) fn click_settings(&mut self, mut menu: SettingsMenu, target: &ClickTarget) -> Effect {
        let effect = match *target {
            ClickTarget::Setting { index, direction } if index < menu.settings.len() => {
                menu.selected = index;
                self.change_setting(&menu, direction)
            }
            ClickTarget::Setting { .. } | ClickTarget::Overlay => Effect::Nothing,
            _ => return Effect::Redraw,
        };
        self.overlay = Some(Overlay::Settings(menu));
        effect
    }

    /// The selected setting takes its next (previous) value. What is remembered is saved at once.
    fn change_setting(&mut self, menu: &SettingsMenu, direction: Direction) -> Effect {
        match menu.settings.get(menu.selected) {
            Some(Setting::Theme) => return self.use_theme(self.theme_beside(direction)),
            Some(Setting::Characters) => {
                self.setup.terminal.glyphs = match self.setup.terminal.glyphs {
                    GlyphSet::Unicode => GlyphSet::Ascii,
                    GlyphSet::Ascii => GlyphSet::Unicode,
                }
            }
            Some(Setting::Interval | Setting::Speed) => {
                return match direction {
                    Direction::Forward => self.increase_interval_or_speed(),
                    Direction::Back => self.decrease_interval_or_speed(),
                };
            }
            Some(Setting::Pane(name)) => return self.toggle_pane(name),
            None => {}
        }
        Effect::Redraw
    }

    /// Changes the theme, and remembers it.
    pub(super) fn use_theme(&mut self, theme: ThemeChoice) -> Effect {
        self.setup.terminal.theme = theme;
        self.options.remembered_theme = Some(theme.name().to_owned());
        Effect::SaveChoices
    }

    /// The themes that differ on this terminal: 16 colors are too few for those with colors of their own.
    pub(super) fn usable_themes(&self) -> Vec<ThemeChoice> {
        let has_few = matches!(self.setup.terminal.colors, ColorSupport::None | ColorSupport::Ansi16);
        let is_usable = |theme: &ThemeChoice| !has_few || !matches!(theme, ThemeChoice::Colors(_));
        self.options.themes.iter().copied().filter(is_usable).collect()
    }

    /// The theme after (before) the present one.
    fn theme_beside(&self, direction: Direction) -> ThemeChoice {
        let themes = self.usable_themes();
        let at = themes.iter().position(|theme| *theme == self.setup.terminal.theme).unwrap_or(0);
        let step = match direction {
            Direction::Forward => 1,
            Direction::Back => themes.len().saturating_sub(1),
        };
        let beside = at.checked_add(step).and_then(|to| to.checked_rem(themes.len()));
        beside.and_then(|to| themes.get(to)).copied().unwrap_or(self.setup.terminal.theme)
    }

    /// Shows or hides a pane. The last one stays.
    fn toggle_pane(&mut self, name: &'static str) -> Effect {
        let screen = self.screen;
        let hides = !self.hides_pane(screen, name);
        let keeps_one = screen.definition().list_pane.is_some()
            || self.optional_panes().into_iter().any(|other| other != name && !self.hides_pane(screen, other));
        if hides && !keeps_one {
            self.notify(Notice::new("one pane stays"));
            return Effect::Redraw;
        }
        let names = self.hidden_panes.entry(screen.label().to_owned()).or_default();
        if !names.remove(name) {
            names.insert(name.to_owned());
        }
        if names.is_empty() {
            self.hidden_panes.remove(screen.label());
        }
        if hides {
            self.unfocus_pane(name);
        }
        self.scroll_to_cursor();
        Effect::SaveChoices
    }
}
