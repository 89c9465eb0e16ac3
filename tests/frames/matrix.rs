//! Each screen of recordings of the lab at four sizes. The text is the golden frame; without color it must be the same, in ASCII it
//! must be the same but for the glyphs, and the styles of both palettes are held by a number below the frame.

use std::hash::{Hash, Hasher};

use ratatui::buffer::Buffer;
use stalltop::state::{ColorSupport, GlyphSet, Screen, State};

use crate::recorded::{evaluations, replay};
use crate::screen::{buffer, press, text};

const SIZES: [(u16, u16); 4] = [(40, 10), (80, 24), (120, 40), (200, 50)];

/// The recording in which a screen has most to say.
fn recording(screen: Screen) -> &'static str {
    match screen {
        Screen::Cpu => "07-one-hot-thread-pinned",
        Screen::Disk => "09-depth64",
        Screen::Network => "10-full",
        _ => "15-lock-convoy",
    }
}

/// A number that changes with the style of any cell.
pub fn styles(buffer: &Buffer) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    for cell in &buffer.content {
        (cell.fg, cell.bg, cell.modifier).hash(&mut hasher);
    }
    hasher.finish()
}

pub fn with_colors(state: &mut State, colors: ColorSupport) -> Buffer {
    state.setup.terminal.colors = colors;
    buffer(state)
}

fn check(state: &mut State, name: &str) {
    let colored = with_colors(state, ColorSupport::Ansi16);
    let frame = text(state);
    let plain = with_colors(state, ColorSupport::None);
    assert_eq!(text(state), frame, "{name}: colors change no text");
    let is_heading =
        |line: &&str| ["%CPU", "conns", "r_await", "rKB/s", "KB/req", "backlog"].iter().any(|word| line.contains(word));
    let cut = frame.lines().filter(is_heading).find(|line| line.contains('…'));
    assert!(plain.area.width < 120 || cut.is_none(), "{name}: {cut:?}");
    state.setup.terminal.glyphs = GlyphSet::Ascii;
    let ascii = text(state);
    assert!(ascii.is_ascii(), "{name}: {ascii}");
    for (own, other) in frame.chars().zip(ascii.chars()).filter(|(own, _)| own.is_ascii()) {
        assert_eq!(own, other, "{name}: {ascii}");
    }
    state.setup.terminal.glyphs = GlyphSet::Unicode;
    insta::assert_snapshot!(name, format!("{frame}styles {:016x}, without color {:016x}\n", styles(&colored), styles(&plain)));
}

#[test]
fn each_screen_at_each_size() {
    for screen in Screen::ALL {
        let name = recording(screen);
        let evaluations = evaluations(name);
        for size in SIZES {
            let mut state = replay(name, &evaluations, size);
            press(&mut state, &screen.digit().to_string());
            check(&mut state, &format!("matrix-{}-{}x{}", screen.label(), size.0, size.1));
        }
    }
}
