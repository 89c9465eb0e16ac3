//! The help overlay: every key, printed from the table that the keys come from.

use ratatui::layout::Rect;

use super::canvas::Canvas;
use super::text::SafeText;
use super::theme::Ink;
use super::widgets::bar::{Part, bar};
use crate::safe;
use crate::state::State;
use crate::state::keys::BINDINGS;

pub fn draw(state: &State, canvas: &mut Canvas) {
    let (width, height) = (canvas.width(), canvas.height());
    let area = Rect { x: 0, y: 1, width, height: height.saturating_sub(2) };
    let mut canvas = canvas.part(area.x, area.y, area.width, area.height);
    for y in 0..canvas.height() {
        canvas.fill(0, y, width, ' ', Ink::Plain);
    }
    canvas.rule(0);
    canvas.text(2, 0, 8, " KEYS ", Ink::Bold);
    canvas.right(2, 0, width.saturating_sub(4), safe!(" stalltop {} ", env!("CARGO_PKG_VERSION")), Ink::Dim);
    let top = state.help.unwrap_or(0);
    let mut y = 1;
    for binding in BINDINGS.iter().skip(top) {
        let here = binding.screens.is_empty() || binding.screens.contains(&state.screen);
        canvas.text(2, y, 12, binding.shown, if here { Ink::Key } else { Ink::Dim });
        let x = canvas.rest(15, y, binding.words, if here { Ink::Plain } else { Ink::Dim });
        if !here && let Some(screen) = binding.screens.first() {
            canvas.rest(x + 1, y, safe!("({} …)", screen.word()), Ink::Dim);
        }
        y += 1;
    }
    if y + 3 < canvas.height() {
        legend(&mut canvas.part(0, y + 1, width, u16::MAX));
    }
}

/// What the textures of the bars and the signs stand for.
fn legend(canvas: &mut Canvas) {
    canvas.rule(0);
    canvas.text(2, 0, 10, " SIGNS ", Ink::Bold);
    let textures = [
        ('█', Ink::User, "user"),
        ('▓', Ink::System, "system"),
        ('▒', Ink::Disk, "disk / irq"),
        ('▞', Ink::Blocked, "blocked: idle, lock"),
        ('╳', Ink::Steal, "stolen"),
        ('░', Ink::RunQueue, "run queue"),
        ('·', Ink::Free, "free, asleep"),
    ];
    let mut x = 2;
    for (glyph, ink, words) in textures {
        bar(canvas, x, 1, 1, &[Part { share: 1.0, glyph, ink }]);
        x = canvas.rest(x + 2, 1, words, Ink::Dim) + 2;
    }
    let signs = "✖ critical  ▲ warning  • note   ~ provisional baseline  ≥ at least: more is hidden  - not known";
    canvas.rest(2, 2, SafeText::from(signs), Ink::Dim);
}
