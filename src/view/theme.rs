//! What each kind of thing looks like. One table from ink to style; nothing else in the program names a colour.
//!
//! Text stays in the terminal's own foreground on its own background, so that it can be read on dark and on light. Colour
//! goes to signs, bars and figures that are out of order, and always beside a sign or a word that says the same.

use ratatui::style::{Color, Modifier, Style};

use crate::findings::Severity;
use crate::state::{ColorSupport, GlyphSet, TerminalCapabilities};

/// What something is, as far as its looks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StyleRole {
    Plain,
    /// There, but not what the eye shall land on
    Dim,
    Bold,
    /// Column headings and the names of sections
    Heading,
    Critical,
    Warning,
    Note,
    Good,
    /// Kinds of CPU time
    User,
    System,
    Irq,
    Steal,
    /// Idle but blocked
    Blocked,
    Free,
    /// Kinds of waiting
    RunQueue,
    Disk,
    Lock,
    OtherBlocked,
    /// The recorder is on
    Recording,
    /// What the paused or replayed state is written in
    Playback,
    /// A key in the key line
    Key,
}

/// The looks of one terminal.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    capabilities: TerminalCapabilities,
}

impl Theme {
    pub fn new(look: TerminalCapabilities) -> Theme {
        Theme { capabilities: look }
    }

    pub fn is_ascii(self) -> bool {
        self.capabilities.glyphs == GlyphSet::Ascii
    }

    pub fn style(self, ink: StyleRole) -> Style {
        match self.capabilities.colors {
            ColorSupport::None => monochrome_style(ink),
            ColorSupport::Ansi16 => ansi16_style(ink),
            ColorSupport::Ansi256 => ansi256_style(ink),
        }
    }

    /// The row under the cursor: reversed, which every terminal can do on every background.
    pub fn cursor_style(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

impl From<Severity> for StyleRole {
    fn from(severity: Severity) -> StyleRole {
        match severity {
            Severity::Note => StyleRole::Note,
            Severity::Warning => StyleRole::Warning,
            Severity::Critical => StyleRole::Critical,
        }
    }
}

/// The sign that stands beside the colour.
pub fn severity_symbol(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "•",
        Severity::Warning => "▲",
        Severity::Critical => "✖",
    }
}

fn monochrome_style(ink: StyleRole) -> Style {
    let style = Style::new();
    match ink {
        StyleRole::Dim | StyleRole::Free => style.add_modifier(Modifier::DIM),
        StyleRole::Bold | StyleRole::Heading | StyleRole::Warning | StyleRole::Key | StyleRole::Playback => {
            style.add_modifier(Modifier::BOLD)
        }
        StyleRole::Critical | StyleRole::Recording => style.add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        _ => style,
    }
}

fn ansi16_style(ink: StyleRole) -> Style {
    let fg = |colour| Style::new().fg(colour);
    match ink {
        // Yellow on white cannot be read: the warning brings its own background.
        StyleRole::Warning => Style::new().fg(Color::Black).bg(Color::Yellow),
        StyleRole::Critical | StyleRole::Recording => fg(Color::Red).add_modifier(Modifier::BOLD),
        StyleRole::Note => fg(Color::Blue).add_modifier(Modifier::BOLD),
        StyleRole::Good => fg(Color::Green),
        StyleRole::User => fg(Color::Green),
        StyleRole::System => fg(Color::Blue),
        StyleRole::Irq => fg(Color::Cyan),
        StyleRole::Steal => fg(Color::Magenta),
        StyleRole::Blocked | StyleRole::Lock => fg(Color::Red),
        StyleRole::RunQueue => fg(Color::Cyan),
        StyleRole::Disk | StyleRole::OtherBlocked => fg(Color::Magenta),
        _ => monochrome_style(ink),
    }
}

/// Of the 256 those that stand at least 3 : 1 against black and against white.
fn ansi256_style(ink: StyleRole) -> Style {
    let fg = |index| Style::new().fg(Color::Indexed(index));
    match ink {
        StyleRole::Critical => fg(196).add_modifier(Modifier::BOLD),
        StyleRole::Recording => fg(196),
        StyleRole::Warning => fg(166).add_modifier(Modifier::BOLD),
        StyleRole::Note => fg(33),
        StyleRole::Good => fg(34),
        StyleRole::User => fg(34),
        StyleRole::System => fg(33),
        StyleRole::Irq => fg(30),
        StyleRole::Steal => fg(133),
        StyleRole::Blocked | StyleRole::Lock => fg(202),
        StyleRole::RunQueue => fg(30),
        StyleRole::Disk => fg(161),
        StyleRole::OtherBlocked => fg(97),
        StyleRole::Playback => fg(33).add_modifier(Modifier::BOLD),
        _ => monochrome_style(ink),
    }
}

/// What stands for a character where there is nothing but ASCII.
pub fn ascii_fallback(character: char) -> char {
    match character {
        '█' => '#',
        '▓' => '=',
        '▒' => '%',
        '╳' => '$',
        '▞' => '/',
        '·' => '.',
        '░' => ':',
        '▁' => '_',
        '▂' => '.',
        '▃' => '-',
        '▄' => '=',
        '▅' => '+',
        '▆' => '*',
        '▇' => '%',
        '─' | '╌' | '–' | '—' | '−' => '-',
        '│' | '┊' => '|',
        '└' | '├' => '`',
        '✖' => 'X',
        '▲' => '!',
        '•' => '-',
        '✔' => '*',
        '●' => '*',
        '◆' => '^',
        '▸' | '▶' | '→' | '↳' => '>',
        '←' => '<',
        '↑' => '^',
        '↓' | '▼' | '▽' => 'v',
        '×' => 'x',
        '≥' => '>',
        '≤' => '<',
        '…' => '~',
        '÷' => '/',
        'µ' => 'u',
        '‖' => '=',
        _ => '?',
    }
}
