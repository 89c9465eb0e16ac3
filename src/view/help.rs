//! The help overlay: every key, printed from the table that the keys come from.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use super::text::{self, SafeText};
use super::theme::Ink;
use crate::safe;
use crate::state::State;
use crate::state::keys::BINDINGS;

/// Where the words behind the keys begin.
const WORDS: u16 = 15;

pub fn draw(state: &State, canvas: &mut Canvas) {
    let (width, height) = (canvas.width(), canvas.height());
    let area = Rect { x: 0, y: 1, width, height: height.saturating_sub(2) };
    let mut canvas = canvas.part(area.x, area.y, area.width, area.height);
    canvas.clear();
    canvas.rule(0);
    canvas.text(2, 0, 8, " KEYS ", Ink::Bold);
    canvas.right(2, 0, width.saturating_sub(4), safe!(" stalltop {} ", env!("CARGO_PKG_VERSION")), Ink::Dim);
    let lines = keys(state, width);
    let mut y = 1;
    for line in lines.iter().skip(state.help.unwrap_or(0).min(furthest(state))) {
        canvas.text(2, y, 12, line.shown, if line.here { Ink::Key } else { Ink::Dim });
        canvas.rest(WORDS, y, SafeText::of(line.words.clone()), if line.here { Ink::Plain } else { Ink::Dim });
        y += 1;
    }
    if y + 3 < canvas.height() {
        legend(&mut canvas.part(0, y + 1, width, u16::MAX));
    }
}

/// By how many lines it can be scrolled before its end stands at the foot of the screen.
pub fn furthest(state: &State) -> usize {
    let (width, height) = state.setup.size;
    let legend = signs(width).last().map_or(0, |sign| usize::from(sign.y) + 1);
    // The rule above the keys, and the gap above the legend.
    (keys(state, width).len() + legend + 2).saturating_sub(usize::from(height.saturating_sub(2)))
}

/// One line of the keys.
struct Line {
    /// Of the first line of a binding
    shown: &'static str,
    words: String,
    /// Whether it does something on this screen
    here: bool,
}

fn keys(state: &State, width: u16) -> Vec<Line> {
    let room = usize::from(width.saturating_sub(WORDS + 1));
    let mut lines = Vec::new();
    for binding in BINDINGS {
        let here = binding.screens.is_empty() || binding.screens.contains(&state.screen);
        let mut words = binding.words.to_owned();
        if let (Some(first), Some(last)) = (binding.screens.first(), binding.screens.last()) {
            let (first, last) = (first.digit(), last.digit());
            words += &if first == last { format!(" (on {first})") } else { format!(" (on {first}–{last})") };
        }
        for (at, words) in text::wrap(&words, room, usize::MAX).into_iter().enumerate() {
            lines.push(Line { shown: if at == 0 { binding.shown } else { "" }, words, here });
        }
    }
    lines
}

/// What the textures of the bars and the signs stand for, in as many lines as it takes.
fn legend(canvas: &mut Canvas) {
    canvas.rule(0);
    canvas.text(2, 0, 10, " SIGNS ", Ink::Bold);
    for Sign { x, y, glyph, ink, words } in signs(canvas.width()) {
        canvas.glyph(x, y, glyph, ink);
        canvas.rest(x + 2, y, words, Ink::Dim);
    }
}

/// A sign, its words, and their place in the legend.
struct Sign {
    x: u16,
    y: u16,
    glyph: char,
    ink: Ink,
    words: &'static str,
}

fn signs(width: u16) -> Vec<Sign> {
    const SIGNS: [(char, Ink, &str); 15] = [
        ('█', Ink::User, "user"),
        ('▓', Ink::System, "system"),
        ('▒', Ink::Disk, "disk / irq"),
        ('▞', Ink::Blocked, "blocked"),
        ('╳', Ink::Steal, "stolen"),
        ('░', Ink::RunQueue, "run queue"),
        ('·', Ink::Free, "free, asleep"),
        ('✖', Ink::Critical, "critical"),
        ('▲', Ink::Warning, "warning"),
        ('•', Ink::Note, "note"),
        ('~', Ink::Plain, "provisional baseline"),
        ('≥', Ink::Plain, "at least"),
        ('-', Ink::Plain, "not known"),
        ('◆', Ink::Key, "mark"),
        ('▼', Ink::Playback, "the moment shown"),
    ];
    let (mut x, mut y) = (2, 1);
    let place = |(glyph, ink, words): (char, Ink, &'static str)| {
        let cells = 2 + u16::try_from(words.len()).unwrap_or(0);
        if x + cells > width {
            (x, y) = (2, y + 1);
        }
        let sign = Sign { x, y, glyph, ink, words };
        x += cells + 2;
        sign
    };
    SIGNS.into_iter().map(place).collect()
}
