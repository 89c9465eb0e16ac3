//! The help page: all keys, from the key table, and a legend of the symbols.

use ratatui::layout::Rect;

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use crate::safe;
use crate::state::State;
use crate::state::keys::BINDINGS;

/// Column of the descriptions.
const DESCRIPTION_COLUMN: u16 = 15;

pub fn draw(state: &State, pane: &mut Pane) {
    let (width, height) = (pane.width(), pane.height());
    let area = Rect { x: 0, y: 1, width, height: height.saturating_sub(2) };
    let mut pane = pane.subarea(area.x, area.y, area.width, area.height);
    pane.clear();
    pane.rule(0);
    let mut title = pane.subarea(2, 0, width.saturating_sub(4), 1);
    title.line(0, (" KEYS ", StyleRole::Bold));
    title.line_right(0, (safe!(" stalltop {} ", env!("CARGO_PKG_VERSION")), StyleRole::Dim));
    let lines = key_lines(state, width);
    let mut y = 1;
    for line in lines.iter().skip(state.help.unwrap_or(0).min(max_scroll(state))) {
        let (key, words) =
            if line.applies_here { (StyleRole::Key, StyleRole::Plain) } else { (StyleRole::Dim, StyleRole::Dim) };
        let mut drawn = SafeLine::new(safe!("  {}", line.key_label), key);
        drawn.pad_to(usize::from(DESCRIPTION_COLUMN));
        pane.line(y, drawn.with(SafeText::sanitize(line.description.clone()), words));
        y += 1;
    }
    if y + 3 < pane.height() {
        draw_legend(&mut pane.subarea(0, y + 1, width, u16::MAX));
    }
}

/// Maximum scroll offset.
pub fn max_scroll(state: &State) -> usize {
    let (width, height) = state.setup.size;
    let legend = legend_entries(width).last().map_or(0, |sign| usize::from(sign.y) + 1);
    // Two more lines: the rule above the keys and the gap above the legend.
    (key_lines(state, width).len() + legend + 2).saturating_sub(usize::from(height.saturating_sub(2)))
}

/// One line of the list of keys.
struct KeyLine {
    /// The keys; empty on continuation lines
    key_label: &'static str,
    description: String,
    /// Whether the keys work on the displayed screen
    applies_here: bool,
}

fn key_lines(state: &State, width: u16) -> Vec<KeyLine> {
    let room = usize::from(width.saturating_sub(DESCRIPTION_COLUMN + 1));
    let mut lines = Vec::new();
    for binding in BINDINGS {
        let here = binding.screens.is_empty() || binding.screens.contains(&state.screen);
        let mut words = binding.description.to_owned();
        if let (Some(first), Some(last)) = (binding.screens.first(), binding.screens.last()) {
            let (first, last) = (first.digit(), last.digit());
            words += &if first == last { format!(" (on {first})") } else { format!(" (on {first}–{last})") };
        }
        for (at, words) in text::wrap(&words, room, usize::MAX).into_iter().enumerate() {
            lines.push(KeyLine {
                key_label: if at == 0 { binding.key_label } else { "" },
                description: words,
                applies_here: here,
            });
        }
    }
    lines
}

/// The meaning of bar textures and symbols.
fn draw_legend(pane: &mut Pane) {
    pane.rule(0);
    pane.subarea(2, 0, 10, 1).line(0, (" LEGEND ", StyleRole::Bold));
    for LegendEntry { x, y, glyph, role, description: words } in legend_entries(pane.width()) {
        let mut line = SafeLine::default();
        line.push_glyphs([(glyph, role)]);
        pane.subarea(x, y, u16::MAX, 1).line(0, line.with(" ", StyleRole::Plain).with(words, StyleRole::Dim));
    }
}

/// A symbol, its description and their position.
struct LegendEntry {
    x: u16,
    y: u16,
    glyph: char,
    role: StyleRole,
    description: &'static str,
}

fn legend_entries(width: u16) -> Vec<LegendEntry> {
    const SIGNS: [(char, StyleRole, &str); 15] = [
        ('█', StyleRole::User, "user"),
        ('▓', StyleRole::System, "system"),
        ('▒', StyleRole::Disk, "disk / irq"),
        ('╱', StyleRole::Blocked, "blocked"),
        ('╳', StyleRole::Steal, "steal"),
        ('░', StyleRole::RunQueue, "run queue"),
        ('·', StyleRole::Free, "free, sleep"),
        ('✖', StyleRole::Critical, "critical"),
        ('▲', StyleRole::Warning, "warning"),
        ('•', StyleRole::Note, "note"),
        ('~', StyleRole::Plain, "provisional baseline"),
        ('≥', StyleRole::Plain, "at least"),
        ('-', StyleRole::Plain, "unknown"),
        ('◆', StyleRole::Key, "mark"),
        ('▼', StyleRole::Playback, "time displayed"),
    ];
    let (mut x, mut y) = (2, 1);
    let place = |(glyph, role, words): (char, StyleRole, &'static str)| {
        let cells = 2 + u16::try_from(words.len()).unwrap_or(0);
        if x + cells > width {
            (x, y) = (2, y + 1);
        }
        let sign = LegendEntry { x, y, glyph, role, description: words };
        x += cells + 2;
        sign
    };
    SIGNS.into_iter().map(place).collect()
}
