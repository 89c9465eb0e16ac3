//! What each kind of thing looks like. One table from ink to style; nothing else in the program names a colour.
//!
//! Text stays in the terminal's own foreground on its own background, so that it can be read on dark and on light. Colour
//! goes to signs, bars and figures that are out of order, and always beside a sign or a word that says the same.

use ratatui::style::{Color, Modifier, Style};

use crate::findings::Severity;
use crate::state::{Colours, Glyphs, Look};

/// What something is, as far as its looks are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ink {
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
    look: Look,
}

impl Theme {
    pub fn new(look: Look) -> Theme {
        Theme { look }
    }

    pub fn is_ascii(self) -> bool {
        self.look.glyphs == Glyphs::Ascii
    }

    pub fn style(self, ink: Ink) -> Style {
        match self.look.colours {
            Colours::None => without_colour(ink),
            Colours::Sixteen => sixteen(ink),
            Colours::Many => many(ink),
        }
    }

    /// The row under the cursor: reversed, which every terminal can do on every background.
    pub fn cursor(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }
}

impl From<Severity> for Ink {
    fn from(severity: Severity) -> Ink {
        match severity {
            Severity::Note => Ink::Note,
            Severity::Warning => Ink::Warning,
            Severity::Critical => Ink::Critical,
        }
    }
}

/// The sign that stands beside the colour.
pub fn sign(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "•",
        Severity::Warning => "▲",
        Severity::Critical => "✖",
    }
}

fn without_colour(ink: Ink) -> Style {
    let style = Style::new();
    match ink {
        Ink::Dim | Ink::Free => style.add_modifier(Modifier::DIM),
        Ink::Bold | Ink::Heading | Ink::Warning | Ink::Key | Ink::Playback => style.add_modifier(Modifier::BOLD),
        Ink::Critical | Ink::Recording => style.add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        _ => style,
    }
}

fn sixteen(ink: Ink) -> Style {
    let fg = |colour| Style::new().fg(colour);
    match ink {
        // Yellow on white cannot be read: the warning brings its own background.
        Ink::Warning => Style::new().fg(Color::Black).bg(Color::Yellow),
        Ink::Critical | Ink::Recording => fg(Color::Red).add_modifier(Modifier::BOLD),
        Ink::Note => fg(Color::Blue).add_modifier(Modifier::BOLD),
        Ink::Good => fg(Color::Green),
        Ink::User => fg(Color::Green),
        Ink::System => fg(Color::Blue),
        Ink::Irq => fg(Color::Cyan),
        Ink::Steal => fg(Color::Magenta),
        Ink::Blocked | Ink::Lock => fg(Color::Red),
        Ink::RunQueue => fg(Color::Cyan),
        Ink::Disk | Ink::OtherBlocked => fg(Color::Magenta),
        _ => without_colour(ink),
    }
}

/// Of the 256 those that stand at least 3 : 1 against black and against white.
fn many(ink: Ink) -> Style {
    let fg = |index| Style::new().fg(Color::Indexed(index));
    match ink {
        Ink::Critical => fg(196).add_modifier(Modifier::BOLD),
        Ink::Recording => fg(196),
        Ink::Warning => fg(166).add_modifier(Modifier::BOLD),
        Ink::Note => fg(33),
        Ink::Good => fg(34),
        Ink::User => fg(34),
        Ink::System => fg(33),
        Ink::Irq => fg(30),
        Ink::Steal => fg(133),
        Ink::Blocked | Ink::Lock => fg(202),
        Ink::RunQueue => fg(30),
        Ink::Disk => fg(161),
        Ink::OtherBlocked => fg(97),
        Ink::Playback => fg(33).add_modifier(Modifier::BOLD),
        _ => without_colour(ink),
    }
}

/// What stands for a character where there is nothing but ASCII.
pub fn ascii(character: char) -> char {
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
