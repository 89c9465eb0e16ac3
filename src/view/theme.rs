//! The style of each role, per number of colors. No other file names a color.
//!
//! Normal text keeps the terminal's own colors, so that it is readable on dark and light backgrounds. Color marks symbols,
//! bars and abnormal values, always beside a symbol or word with the same meaning.

pub mod colors;
pub mod rgb;

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::widgets::gradient::{Gradient, STEPS, step_of_value};
use crate::findings::Severity;
use crate::state::theme_choice::{Rgb, ThemeColors};
use crate::state::{ColorSupport, GlyphSet, TerminalCapabilities, ThemeChoice};
use colors::{base_style, exact, nearest_indexed, shade, themed_style};

/// What a piece of text or a glyph stands for, which determines its style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StyleRole {
    #[default]
    Plain,
    /// Secondary text
    Dim,
    Bold,
    /// Column headings and the names of sections
    Heading,
    Critical,
    Warning,
    Note,
    /// The line of a warning that lasts, on the terminal's background
    WarningLine,
    Good,
    /// CPU time: user (the first of five kinds)
    User,
    System,
    Irq,
    Steal,
    /// CPU time: idle but blocked
    Blocked,
    Free,
    /// Time of a task: in a run queue (the first of four kinds of waiting)
    RunQueue,
    Disk,
    Lock,
    OtherBlocked,
    /// The recorder is on
    Recording,
    /// Paused or replaying
    Playback,
    /// The heading of the sort column
    SortHeading,
    /// A key in the key line
    Key,
}

/// Makes a color of the terminal.
type MakeColor = fn(Rgb) -> Color;

/// The styles of a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Theme {
    capabilities: TerminalCapabilities,
}

impl Theme {
    pub fn new(capabilities: TerminalCapabilities) -> Theme {
        Theme { capabilities }
    }

    pub fn is_ascii(self) -> bool {
        self.capabilities.glyphs == GlyphSet::Ascii
    }

    pub fn style(self, role: StyleRole) -> Style {
        if let Some((colors, make)) = self.own_colors() {
            return themed_style(colors, role, make);
        }
        match (self.capabilities.colors, self.capabilities.theme) {
            (ColorSupport::None, _) | (_, ThemeChoice::Mono) => monochrome_style(role),
            (ColorSupport::Ansi16, _) => ansi16_style(role),
            _ => ansi256_style(role),
        }
    }

    /// Text and background of an empty cell.
    pub fn base_style(self) -> Style {
        self.own_colors().map_or_else(Style::new, |(colors, make)| base_style(colors, make))
    }

    /// The colors of a theme that has its own, and what makes those of the terminal from them; 16 are too few for that.
    fn own_colors(self) -> Option<(&'static ThemeColors, MakeColor)> {
        let ThemeChoice::Colors(theme) = self.capabilities.theme else { return None };
        match self.capabilities.colors {
            ColorSupport::None | ColorSupport::Ansi16 => None,
            ColorSupport::Ansi256 => Some((&theme.colors, nearest_indexed)),
            ColorSupport::TrueColor => Some((&theme.colors, exact)),
        }
    }

    /// The style of a role for the glyphs of a graph: a full block in reverse video would be invisible.
    pub fn graph_style(self, role: StyleRole) -> Style {
        let style = self.style(role);
        // Black on a background of its own would be a black block.
        let has_background = self.capabilities.colors == ColorSupport::Ansi16 && style.bg.is_some();
        let style = if has_background { Style::new().fg(Color::Red) } else { style };
        Style { add_modifier: style.add_modifier - Modifier::REVERSED, ..style }
    }

    /// The style of a role for an area of full blocks, which is calmer than the text of its figures. The dim attribute of the Linux
    /// console is a gray without color.
    pub fn area_style(self, role: StyleRole) -> Style {
        let style = self.graph_style(role);
        if self.capabilities.colors == ColorSupport::Ansi16 { style } else { style.add_modifier(Modifier::DIM) }
    }

    /// The styles of a filled graph of one series, by height: with the colors of a theme the higher the brighter. The color itself says
    /// what the graph shows.
    pub fn area_gradient(self, role: StyleRole) -> Gradient {
        self.gradient(role).unwrap_or_else(|| self.area_style(role).into())
    }

    /// The style of a value of 0 … 1 in a map, whose glyphs say the level: with the colors of a theme the higher the brighter.
    pub fn value_style(self, role: StyleRole, share: f32) -> Style {
        self.step_style(role, step_of_value(share)).unwrap_or_else(|| self.graph_style(role))
    }

    fn gradient(self, role: StyleRole) -> Option<Gradient> {
        self.own_colors()?;
        Some(Gradient(std::array::from_fn(|step| self.step_style(role, step).unwrap_or_default())))
    }

    /// A step of a gradient; `None` without colors of the theme's own.
    fn step_style(self, role: StyleRole, step: usize) -> Option<Style> {
        let (colors, make) = self.own_colors()?;
        Some(Style::new().fg(make(shade(colors, role, step as f32 / (STEPS - 1) as f32))))
    }

    /// The selected row: reverse video, which works in every terminal on every background.
    pub fn cursor_style(self) -> Style {
        // Dim text would be a gap in the bar.
        Style::new().add_modifier(Modifier::REVERSED).remove_modifier(Modifier::DIM)
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

/// The symbol of a severity.
pub fn severity_symbol(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "•",
        Severity::Warning => "▲",
        Severity::Critical => "✖",
    }
}

/// The same as a glyph.
pub fn severity_sign(severity: Severity) -> char {
    match severity {
        Severity::Note => '•',
        Severity::Warning => '▲',
        Severity::Critical => '✖',
    }
}

fn monochrome_style(role: StyleRole) -> Style {
    let style = Style::new();
    match role {
        StyleRole::Dim | StyleRole::Free => style.add_modifier(Modifier::DIM),
        StyleRole::Bold | StyleRole::Heading | StyleRole::Warning | StyleRole::WarningLine | StyleRole::Key => {
            style.add_modifier(Modifier::BOLD)
        }
        StyleRole::Critical | StyleRole::Recording | StyleRole::SortHeading | StyleRole::Playback => {
            style.add_modifier(Modifier::BOLD.union(Modifier::REVERSED))
        }
        _ => style,
    }
}

fn ansi16_style(role: StyleRole) -> Style {
    let fg = |colour| Style::new().fg(colour);
    match role {
        // Yellow on white is unreadable, so a warning has its own background; its line in the timeline is bold, without a color.
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
        _ => monochrome_style(role),
    }
}

/// Indexed colors with a contrast of at least 4.5:1 against black and of at least 3:1 against white.
fn ansi256_style(role: StyleRole) -> Style {
    let fg = |index| Style::new().fg(Color::Indexed(index));
    match role {
        StyleRole::Critical => fg(196).add_modifier(Modifier::BOLD),
        StyleRole::Recording => fg(196),
        StyleRole::Warning => fg(166).add_modifier(Modifier::BOLD),
        StyleRole::Note => fg(33),
        StyleRole::WarningLine => fg(166),
        StyleRole::Good => fg(64),
        StyleRole::User => fg(64),
        StyleRole::System => fg(33),
        StyleRole::Irq => fg(30),
        StyleRole::Steal => fg(133),
        StyleRole::Blocked | StyleRole::Lock => fg(202),
        StyleRole::RunQueue => fg(30),
        StyleRole::Disk => fg(168),
        StyleRole::OtherBlocked => fg(98),
        StyleRole::Playback => fg(33).add_modifier(Modifier::BOLD.union(Modifier::REVERSED)),
        _ => monochrome_style(role),
    }
}

/// The ASCII replacement of a glyph.
pub fn ascii_fallback(character: char) -> char {
    match character {
        '█' => '#',
        '▓' => '=',
        '▒' => '%',
        '╳' => '$',
        '╱' => '/',
        '·' => '.',
        '░' => ':',
        '▁' => '_',
        '▂' => '.',
        '▃' => '-',
        '▄' => '=',
        '▅' => '+',
        '▆' => '*',
        '▇' => '&',
        '─' | '–' | '—' | '−' => '-',
        '┄' => ':',
        '╌' => '\'',
        '━' => '=',
        '┈' => '.',
        '│' | '┊' => '|',
        '└' | '├' | '┌' | '┐' | '┘' | '┤' | '┬' | '┴' | '┼' => '+',
        '✖' => 'X',
        '▲' => '!',
        '•' => 'o',
        '✔' => '*',
        '●' => '*',
        '◆' => '@',
        '▸' | '▶' | '→' | '›' => '>',
        '↳' => '`',
        '←' | '‹' | '◂' => '<',
        '↑' => '^',
        '↓' | '▼' | '▽' | '▾' => 'v',
        '▴' => '^',
        '×' => 'x',
        '≥' => '>',
        '≤' => '<',
        '…' => '~',
        '÷' => '/',
        'µ' => 'u',
        '‖' => '"',
        _ => '?',
    }
}

/// Replaces the symbols of a frame by ASCII of the same width.
pub fn replace_with_ascii(buffer: &mut Buffer) {
    let mut hidden = 0;
    for cell in &mut buffer.content {
        // The second cell of a wide character.
        if hidden > 0 {
            hidden -= 1;
            cell.set_char('?');
        } else if !cell.symbol().is_ascii() {
            let width = cell.symbol().width().max(1);
            let first = cell.symbol().chars().next().unwrap_or(' ');
            let plain = if first.is_ascii() { first } else { ascii_fallback(first) };
            cell.set_char(if width > 1 { '?' } else { plain });
            hidden = width - 1;
        }
    }
}

/// The role of a used amount: dim for zero.
pub fn used_role(value: f64) -> StyleRole {
    if value > 0.0 { StyleRole::Plain } else { StyleRole::Dim }
}

/// The role of an average number of blocked threads: dim for zero, bold from one half.
pub fn blocked_role(threads: f64) -> StyleRole {
    match threads {
        none if none <= 0.0 => StyleRole::Dim,
        few if few < 0.5 => StyleRole::Plain,
        _ => StyleRole::Bold,
    }
}

#[cfg(test)]
mod tests {
    use super::rgb::{contrast, rgb};
    use super::*;
    use crate::interval::task::Microstates;
    use crate::view::task_states::state_segments;
    use crate::view::widgets::heat_map::{self, PARTLY_FULL};
    use crate::view::widgets::range_column::{ABOVE_MIN, PEAK};
    use crate::view::widgets::sparkline;
    use crate::view::widgets::time_cursor::CURSOR;

    const ROLES: [StyleRole; 22] = [
        StyleRole::Plain,
        StyleRole::Dim,
        StyleRole::Bold,
        StyleRole::Heading,
        StyleRole::Critical,
        StyleRole::Warning,
        StyleRole::Note,
        StyleRole::WarningLine,
        StyleRole::Good,
        StyleRole::User,
        StyleRole::System,
        StyleRole::Irq,
        StyleRole::Steal,
        StyleRole::Blocked,
        StyleRole::Free,
        StyleRole::RunQueue,
        StyleRole::Disk,
        StyleRole::Lock,
        StyleRole::OtherBlocked,
        StyleRole::Recording,
        StyleRole::Playback,
        StyleRole::Key,
    ];

    /// The terminal has its own background, which is dark or light.
    #[test]
    fn indexed_colors_are_readable_on_black_and_on_white() {
        for role in ROLES {
            let Some(color) = ansi256_style(role).fg.and_then(rgb) else { continue };
            let (on_black, on_white) = (contrast(color, [0; 3]), contrast(color, [255; 3]));
            assert!(on_black >= 4.5 && on_white >= 3.0, "{role:?}: {on_black:.2} on black, {on_white:.2} on white");
        }
    }

    #[test]
    fn glyphs_that_are_used_together_differ_in_ascii() {
        let states = state_segments(&Microstates::default(), 0.0).map(|segment| segment.glyph);
        let together = [
            states.to_vec(),
            vec!['█', '▓', '▒', '╳', '?', '╱', ' ', '·', PEAK],
            [&heat_map::LEVELS[..], &[PARTLY_FULL, CURSOR, PEAK, ' ']].concat(),
            [&sparkline::LEVELS[..], &['┄', '╌', ABOVE_MIN, PEAK, CURSOR, ' ']].concat(),
            // The timeline
            vec!['▁', '•', '▲', '✖', '┈', '─', '━', '◆', CURSOR, ' '],
        ];
        for glyphs in together {
            let ascii = |glyph: char| if glyph.is_ascii() { glyph } else { ascii_fallback(glyph) };
            for (at, &glyph) in glyphs.iter().enumerate() {
                let same = glyphs[..at].iter().find(|&&other| ascii(other) == ascii(glyph));
                assert_eq!(same, None, "{glyph} is {} too", ascii(glyph));
            }
        }
    }
}
