//! The six screens.

/// The six screens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Screen {
    #[default]
    Overview,
    Cpu,
    Disk,
    Network,
    Tasks,
    Findings,
}

impl Screen {
    pub const ALL: [Screen; 6] =
        [Screen::Overview, Screen::Cpu, Screen::Disk, Screen::Network, Screen::Tasks, Screen::Findings];

    /// The name in the key line.
    pub fn label(self) -> &'static str {
        match self {
            Screen::Overview => "overview",
            Screen::Cpu => "cpu",
            Screen::Disk => "disk",
            Screen::Network => "net",
            Screen::Tasks => "tasks",
            Screen::Findings => "findings",
        }
    }

    /// The key of the screen.
    pub fn digit(self) -> u8 {
        self as u8 + 1
    }

    pub fn next(self) -> Screen {
        Screen::ALL.get(self as usize + 1).copied().unwrap_or_default()
    }

    pub fn previous(self) -> Screen {
        Screen::ALL.get((self as usize).wrapping_sub(1)).copied().unwrap_or(Screen::Findings)
    }
}
