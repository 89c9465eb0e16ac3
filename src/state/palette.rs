//! The palette: every action, screen and finding by fuzzy search. The actions are those of the table of keys.

use tui_input::Input;

use super::event::{ClickTarget, Effect};
use super::filter::{FilterMatcher, MatchMode};
use super::key::Key;
use super::keys::{Action, BINDINGS, Screens};
use super::prompt::edit_line;
use super::rows::Item;
use super::screen::Screen;
use super::theme_choice::ThemeChoice;
use super::{Overlay, State};
use crate::units::SmallSort;

/// The open palette.
#[derive(Clone, Debug)]
pub struct Palette {
    pub input: Input,
    /// What matches the text, the best match first
    pub entries: Vec<PaletteEntry>,
    /// Index in `entries`
    pub selected: usize,
}

/// A line of the palette.
#[derive(Clone, Debug, PartialEq)]
pub struct PaletteEntry {
    /// Not sanitized: the sentence of a finding has names
    pub label: String,
    /// The key that does the same; empty if none does
    pub key_label: String,
    pub command: PaletteCommand,
}

/// What an entry does.
#[derive(Clone, Debug, PartialEq)]
pub enum PaletteCommand {
    /// An action, on one of these screens
    Run(Action, Screens),
    /// Opens the page of a finding
    Open(Item),
    /// Changes the theme
    UseTheme(ThemeChoice),
}

impl State {
    pub(super) fn open_palette(&mut self) {
        let palette = Palette { input: Input::default(), entries: self.palette_entries(""), selected: 0 };
        self.overlay = Some(Overlay::Palette(palette));
    }

    /// A key while the palette is open.
    pub(super) fn edit_palette(&mut self, mut palette: Palette, key: Key) -> Effect {
        let page = 10;
        let mut effect = Effect::Redraw;
        match key {
            Key::Escape => return Effect::Redraw,
            Key::Enter => {
                let entry = palette.entries.get(palette.selected).cloned();
                return entry.map_or(Effect::Redraw, |entry| self.run_palette_entry(entry));
            }
            Key::Up | Key::BackTab | Key::Control('p') => palette.select_by(-1),
            Key::Down | Key::Tab | Key::Control('n') => palette.select_by(1),
            Key::PageUp => palette.select_by(-page),
            Key::PageDown => palette.select_by(page),
            key if edit_line(&mut palette.input, key) => {
                palette.entries = self.palette_entries(palette.input.value());
                palette.selected = 0;
            }
            _ => effect = Effect::Nothing,
        }
        self.overlay = Some(Overlay::Palette(palette));
        effect
    }

    /// A click while the palette is open: outside of it, it closes.
    pub(super) fn click_palette(&mut self, palette: &Palette, target: &ClickTarget) -> Effect {
        let entry = match *target {
            ClickTarget::PaletteEntry(entry) => entry,
            ClickTarget::Overlay => {
                self.overlay = Some(Overlay::Palette(palette.clone()));
                return Effect::Nothing;
            }
            _ => return Effect::Redraw,
        };
        let entry = palette.entries.get(entry).cloned();
        entry.map_or(Effect::Redraw, |entry| self.run_palette_entry(entry))
    }

    fn run_palette_entry(&mut self, entry: PaletteEntry) -> Effect {
        let effect = match entry.command {
            PaletteCommand::Run(action, screens) => {
                if !screens.contain(self.screen)
                    && let Some(screen) = Screen::ALL.into_iter().find(|&screen| screens.contain(screen))
                {
                    self.switch_screen(screen);
                }
                self.run_action(action)
            }
            PaletteCommand::UseTheme(theme) => self.use_theme(theme),
            PaletteCommand::Open(item) => {
                self.switch_screen(Screen::Findings);
                self.open_page(item);
                Effect::Redraw
            }
        };
        // The palette has closed.
        if effect == Effect::Nothing { Effect::Redraw } else { effect }
    }

    /// All entries that match the text, the best match first.
    fn palette_entries(&self, text: &str) -> Vec<PaletteEntry> {
        let mut matcher = FilterMatcher::new(text, MatchMode::Fuzzy);
        let mut scored: Vec<(u32, PaletteEntry)> =
            (self.all_palette_entries().into_iter()).filter_map(|entry| Some((matcher.score(&entry.label)?, entry))).collect();
        scored.small_sort_by_key(|entry| std::cmp::Reverse(entry.0));
        scored.into_iter().map(|(_, entry)| entry).collect()
    }

    fn all_palette_entries(&self) -> Vec<PaletteEntry> {
        let screens = Screen::ALL.into_iter().map(|screen| PaletteEntry {
            label: format!("show the screen {}", screen.label()),
            key_label: screen.digit().to_string(),
            command: PaletteCommand::Run(Action::Show(screen), Screens::All),
        });
        let mut entries: Vec<PaletteEntry> = screens.collect();
        for (binding, &(key, action)) in BINDINGS.iter().flat_map(|binding| binding.keys.iter().map(move |key| (binding, key)))
        {
            let command = PaletteCommand::Run(action, binding.screens);
            if let Some(label) = action.label()
                && !entries.iter().any(|entry| entry.command == command)
            {
                entries.push(PaletteEntry { label: label.to_owned(), key_label: key.label(), command });
            }
        }
        entries.extend(self.usable_themes().into_iter().map(|theme| PaletteEntry {
            label: format!("theme: {}", theme.name()),
            key_label: String::new(),
            command: PaletteCommand::UseTheme(theme),
        }));
        let now = self.playback.current.iter().flat_map(|evaluation| evaluation.active.iter());
        let ended =
            self.playback.current.iter().flat_map(|evaluation| self.finding_history.ended_before(evaluation.interval.at()));
        entries.extend(now.chain(ended.take(MAX_ENDED_FINDINGS)).map(|finding| PaletteEntry {
            label: format!("finding: {}", finding.sentence),
            key_label: String::new(),
            command: PaletteCommand::Open(Item::from_finding(finding)),
        }));
        entries
    }
}

/// Ended findings that can be searched, the latest ones.
const MAX_ENDED_FINDINGS: usize = 100;

impl Palette {
    pub(super) fn select_by(&mut self, by: i64) {
        let to = self.selected.saturating_add_signed(isize::try_from(by).unwrap_or(0));
        self.selected = to.min(self.entries.len().saturating_sub(1));
    }
}
