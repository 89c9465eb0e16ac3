//! The theme of the screen, and the colors of those that have their own. `view::theme` makes styles of them.

/// Red, green and blue, 0 … 255.
pub type Rgb = [u8; 3];

/// The theme of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThemeChoice {
    /// The 16 or 256 colors of the terminal, on its own background
    #[default]
    Terminal,
    /// No color: bold, dim and reverse video only
    Mono,
    /// Colors of its own, the background included
    Colors(&'static NamedTheme),
}

/// A theme with colors of its own. It lives as long as the program.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedTheme {
    /// Its name in the configuration, in `--theme` and in the palette
    pub name: String,
    pub colors: ThemeColors,
}

/// A color for each purpose, by `Purpose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThemeColors(pub [Rgb; Purpose::ALL.len()]);

/// What a color is for, as the keys of a theme's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Background,
    Text,
    /// Secondary text, frames, free CPU time
    Dim,
    /// Keys
    Accent,
    Critical,
    Warning,
    Note,
    Good,
    /// CPU time
    User,
    System,
    Irq,
    Steal,
    /// Idle but blocked, and the time of tasks behind a lock
    Blocked,
    /// Time of tasks
    RunQueue,
    Disk,
    OtherBlocked,
}

impl Purpose {
    pub const ALL: [Purpose; 16] = [
        Purpose::Background,
        Purpose::Text,
        Purpose::Dim,
        Purpose::Accent,
        Purpose::Critical,
        Purpose::Warning,
        Purpose::Note,
        Purpose::Good,
        Purpose::User,
        Purpose::System,
        Purpose::Irq,
        Purpose::Steal,
        Purpose::Blocked,
        Purpose::RunQueue,
        Purpose::Disk,
        Purpose::OtherBlocked,
    ];

    /// The key in a theme's file.
    pub fn key(self) -> &'static str {
        match self {
            Purpose::Background => "background",
            Purpose::Text => "text",
            Purpose::Dim => "dim",
            Purpose::Accent => "accent",
            Purpose::Critical => "critical",
            Purpose::Warning => "warning",
            Purpose::Note => "note",
            Purpose::Good => "good",
            Purpose::User => "user",
            Purpose::System => "system",
            Purpose::Irq => "irq",
            Purpose::Steal => "steal",
            Purpose::Blocked => "blocked",
            Purpose::RunQueue => "run-queue",
            Purpose::Disk => "disk",
            Purpose::OtherBlocked => "other-blocked",
        }
    }
}

impl ThemeColors {
    pub fn color(&self, purpose: Purpose) -> Rgb {
        self.0.get(purpose as usize).copied().unwrap_or_default()
    }

    pub fn set(&mut self, purpose: Purpose, color: Rgb) {
        if let Some(place) = self.0.get_mut(purpose as usize) {
            *place = color;
        }
    }
}

impl ThemeChoice {
    pub fn name(self) -> &'static str {
        match self {
            ThemeChoice::Terminal => "terminal",
            ThemeChoice::Mono => "mono",
            ThemeChoice::Colors(theme) => &theme.name,
        }
    }
}
