//! The help page: all keys, from the key table, a legend of the symbols, and the words of the headings.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::StyleRole;
use crate::safe;
use crate::state::keys::BINDINGS;
use crate::state::{Screen, State};

/// Column of the descriptions.
const DESCRIPTION_COLUMN: u16 = 15;

pub fn draw(state: &State, scroll_offset: usize, pane: &mut Pane) {
    let lines = page_lines(state, pane.width());
    draw_page(lines, scroll_offset, pane);
}

/// Maximum scroll offset.
pub fn max_scroll(state: &State) -> usize {
    let (width, height) = state.setup.size;
    max_scroll_of(page_lines(state, width).len(), height)
}

/// Between the first and the last row of the screen: a rule with titles, the lines from this one on, and a scroll bar.
pub fn draw_page(lines: Vec<SafeLine>, scroll_offset: usize, pane: &mut Pane) {
    let (width, height) = (pane.width(), pane.height());
    let top = scroll_offset.min(max_scroll_of(lines.len(), height));
    let mut pane = pane.subarea(0, 1, width, height.saturating_sub(2));
    pane.clear();
    pane.rule(0);
    let mut title = pane.subarea(2, 0, width.saturating_sub(4), 1);
    title.line(0, (" KEYS ", StyleRole::Bold));
    title.line_right(0, (safe!(" stalltop {} ", env!("CARGO_PKG_VERSION")), StyleRole::Dim));
    let count = lines.len();
    for (y, line) in (1..pane.height()).zip(lines.into_iter().skip(top)) {
        pane.line(y, line);
    }
    let visible = pane.height().saturating_sub(1);
    pane.subarea(0, 1, width, visible).scroll_bar(count, top, usize::from(visible));
}

/// Of a page with this number of lines, on a screen of this height.
pub fn max_scroll_of(lines: usize, height: u16) -> usize {
    // The header, the key line, and the rule above the keys.
    lines.saturating_sub(usize::from(height.saturating_sub(3)))
}

/// The keys, the legend and the glossary.
fn page_lines(state: &State, width: u16) -> Vec<SafeLine> {
    let mut lines = Vec::new();
    for KeyLine { key_label, description, applies_here } in key_lines(state, width) {
        let (key, words) = if applies_here { (StyleRole::Key, StyleRole::Plain) } else { (StyleRole::Dim, StyleRole::Dim) };
        lines.push(entry_line(key_label, key, description, words));
    }
    lines.extend([SafeLine::default(), title_line(" LEGEND ", width)]);
    lines.extend(legend_lines(width));
    lines.extend([SafeLine::default(), title_line(" WORDS ", width)]);
    for (word, meaning) in WORDS {
        for (at, words) in text::wrap(meaning, description_width(width), usize::MAX).into_iter().enumerate() {
            lines.push(entry_line(if at == 0 { word } else { "" }, StyleRole::Bold, words, StyleRole::Dim));
        }
    }
    lines
}

/// The words of headings that are not those of top, iostat and mpstat.
const WORDS: [(&str, &str); 9] = [
    ("blocked-idle", "idle CPU time that threads would use if they were not blocked"),
    (
        "other",
        "CPU time in no field of /proc/stat, or between the sub-samples: busy, steal, blocked-idle, free and other are 100 %",
    ),
    ("await", "milliseconds of a request from its queue to its end"),
    ("×base r×base", "await as a multiple of its learned baseline"),
    ("queue busy%", "requests in flight on average; time with one or more, no measure of saturation"),
    ("runq", "threads that wait for a CPU, on average"),
    ("rAvs wAvs", "average size of a received and of a sent packet, in bytes"),
    (
        "Sat",
        "packets that the interface lost or repeated (drops, FIFO and carrier errors, collisions), per second; not those of its queueing discipline",
    ),
    ("PSI", "share of the time in which some task (full: all tasks) waited, from /proc/pressure"),
];

/// A key or a word, and its meaning.
pub fn entry_line(label: &'static str, label_role: StyleRole, words: String, role: StyleRole) -> SafeLine {
    let mut line = SafeLine::new(safe!("  {label}"), label_role);
    line.pad_to(usize::from(DESCRIPTION_COLUMN));
    line.with(SafeText::sanitize(words), role)
}

/// A rule with a title.
fn title_line(title: &'static str, width: u16) -> SafeLine {
    let mut line = SafeLine::default();
    line.push_glyphs(std::iter::repeat_n(('─', StyleRole::Dim), 2));
    line.push(title, StyleRole::Bold);
    line.push_glyphs(std::iter::repeat_n(('─', StyleRole::Dim), usize::from(width).saturating_sub(line.width())));
    line
}

/// Cells of a meaning.
pub fn description_width(width: u16) -> usize {
    usize::from(width.saturating_sub(DESCRIPTION_COLUMN + 1))
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
    let room = description_width(width);
    let mut lines = Vec::new();
    let screens: Vec<String> = Screen::ALL.iter().map(|screen| format!("{} {}", screen.digit(), screen.label())).collect();
    let list = Some(screens.join(", ")).filter(|list| list.len() <= room).unwrap_or_else(|| screens.join(" "));
    for words in text::wrap(&list, room, usize::MAX) {
        lines.push(KeyLine { key_label: if lines.is_empty() { "digits" } else { "" }, description: words, applies_here: true });
    }
    for binding in BINDINGS {
        let here = binding.screens.contain(state.screen);
        let mut words = binding.description.to_owned();
        if let Some(digits) = binding.screens.digits() {
            words += &format!(" (on {digits})");
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
fn legend_lines(width: u16) -> Vec<SafeLine> {
    const SIGNS: [(char, StyleRole, &str); 24] = [
        ('█', StyleRole::User, "user"),
        ('▇', StyleRole::User, "user of a task"),
        ('▓', StyleRole::System, "system"),
        ('▒', StyleRole::Disk, "disk / irq"),
        ('╱', StyleRole::Blocked, "blocked"),
        ('╳', StyleRole::Steal, "steal"),
        ('░', StyleRole::RunQueue, "run queue"),
        ('‖', StyleRole::Warning, "throttled by a quota"),
        ('·', StyleRole::Free, "free, sleep"),
        ('✖', StyleRole::Critical, "critical"),
        ('▲', StyleRole::Warning, "warning"),
        ('•', StyleRole::Note, "note"),
        ('┈', StyleRole::Note, "a note lasts"),
        ('─', StyleRole::WarningLine, "a warning lasts"),
        ('━', StyleRole::Critical, "a critical finding lasts"),
        ('↳', StyleRole::Dim, "follows from the finding above"),
        ('▒', StyleRole::Dim, "of a graph: minimum to mean"),
        ('│', StyleRole::Dim, "up to the maximum"),
        ('▴', StyleRole::Warning, "full for a part of the time"),
        ('~', StyleRole::Plain, "provisional baseline"),
        ('≥', StyleRole::Plain, "at least"),
        ('-', StyleRole::Plain, "unknown"),
        ('◆', StyleRole::Key, "mark"),
        ('▼', StyleRole::Playback, "time displayed"),
    ];
    let mut lines = vec![SafeLine::default()];
    for (glyph, role, words) in SIGNS {
        let mut entry = SafeLine::new("  ", StyleRole::Plain);
        entry.push_glyphs([(glyph, role)]);
        entry.push(safe!(" {words}"), StyleRole::Dim);
        match lines.last_mut() {
            Some(line) if line.width() + entry.width() <= usize::from(width) => line.append(entry),
            _ => lines.push(entry),
        }
    }
    lines
}
