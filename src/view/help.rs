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
    let top = state.help.unwrap_or(0);
    let mut y = 1;
    for binding in BINDINGS.iter().skip(top) {
        let here = binding.screens.is_empty() || binding.screens.contains(&state.screen);
        canvas.text(2, y, 12, binding.shown, if here { Ink::Key } else { Ink::Dim });
        let mut words = binding.words.to_owned();
        if let (Some(first), Some(last)) = (binding.screens.first(), binding.screens.last()) {
            let (first, last) = (first.digit(), last.digit());
            words += &if first == last { format!(" (on {first})") } else { format!(" (on {first}–{last})") };
        }
        let room = usize::from(width.saturating_sub(WORDS + 1));
        for line in text::wrap(&words, room, usize::MAX) {
            canvas.rest(WORDS, y, SafeText::of(line), if here { Ink::Plain } else { Ink::Dim });
            y += 1;
        }
    }
    if y + 3 < canvas.height() {
        legend(&mut canvas.part(0, y + 1, width, u16::MAX));
    }
}

/// What the textures of the bars and the signs stand for, in as many lines as it takes.
fn legend(canvas: &mut Canvas) {
    canvas.rule(0);
    canvas.text(2, 0, 10, " SIGNS ", Ink::Bold);
    const SIGNS: [(char, Ink, &str); 14] = [
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
    ];
    let (mut x, mut y) = (2, 1);
    for (glyph, ink, words) in SIGNS {
        let end = x + 2 + u16::try_from(words.len()).unwrap_or(0);
        if end > canvas.width() {
            (x, y) = (2, y + 1);
        }
        canvas.glyph(x, y, glyph, ink);
        x = canvas.rest(x + 2, y, words, Ink::Dim) + 2;
    }
}
