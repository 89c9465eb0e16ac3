//! Settings known before the first sample: terminal, source, time zone, interval.

use jiff::tz::TimeZone;

use super::State;
use super::demo::DemoNote;
use super::source::Source;
use super::terminal_capabilities::TerminalCapabilities;
use super::theme_choice::ThemeChoice;

/// Settings that exist before the first sample.
#[derive(Clone, Debug)]
pub struct Setup {
    pub terminal: TerminalCapabilities,
    pub source: Source,
    /// Time zone of all displayed times
    pub time_zone: TimeZone,
    /// Columns and rows of the terminal
    pub size: (u16, u16),
    /// Configured time between two samples
    pub interval_ms: u64,
}

impl State {
    /// Theme and characters as on the screen that was shown before in the same terminal.
    pub fn keep_appearance_of(&mut self, shown: &State) {
        self.setup.terminal = shown.setup.terminal;
        self.options.remembered_theme.clone_from(&shown.options.remembered_theme);
    }
}

/// What a session offers.
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// Live: whether signals can be sent to processes
    pub allows_signals: bool,
    /// Esc leads back to the fleet
    pub leads_back: bool,
    /// The note on a recording of the demo
    pub demo: Option<DemoNote>,
    /// The themes that the palette and the settings offer
    pub themes: Vec<ThemeChoice>,
    /// The name of the theme that was chosen on a screen, now or in an earlier run
    pub remembered_theme: Option<String>,
}
