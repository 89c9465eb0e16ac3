//! Bytes to the terminal for each new interval: graphs that sweep change two columns.

use ratatui::backend::Backend;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stalltop::app::terminal::AnsiBackend;
use stalltop::state::{ColorSupport, Event, Source, State, ThemeChoice, update};
use stalltop::view::theme::colors::built_in_themes;

use crate::recorded::evaluations;
use crate::screen::{buffer, setup};

/// The median of the frames of a recording, shown as on the machine itself.
fn median_bytes(name: &str, size: (u16, u16), colors: ColorSupport, theme: ThemeChoice) -> usize {
    let mut state = State::new(setup(size, Source::Live));
    (state.setup.terminal.colors, state.setup.terminal.theme) = (colors, theme);
    let mut backend = AnsiBackend::new(Vec::new(), size);
    let mut shown = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    let mut lengths = Vec::new();
    for evaluation in evaluations(name) {
        update(&mut state, Event::Evaluation(evaluation));
        let frame = buffer(&state);
        backend.draw(shown.diff(&frame).into_iter()).unwrap();
        lengths.push(std::mem::take(&mut backend.pending).len());
        shown = frame;
    }
    // The first frames are new as a whole.
    lengths.drain(..2);
    lengths.sort_unstable();
    lengths[lengths.len() / 2]
}

#[test]
fn a_frame_takes_few_bytes() {
    let dark = built_in_themes().find(|theme| theme.name() == "dark").unwrap();
    let palettes = [(ColorSupport::Ansi16, ThemeChoice::Terminal, 1_200, 3_500), (ColorSupport::TrueColor, dark, 1_800, 5_000)];
    for name in ["01-commit-serialised-db", "10-full"] {
        for (colors, theme, small, large) in palettes {
            for (size, most) in [((80, 24), small), ((200, 50), large)] {
                let bytes = median_bytes(name, size, colors, theme);
                println!("{name} {size:?} {}: {bytes}", theme.name());
                assert!(bytes <= most, "{name} at {size:?}, {}: {bytes} bytes", theme.name());
            }
        }
    }
}
