//! Colors: NO_COLOR disables all of them, and no information depends on them.

use ratatui::style::Color;
use stalltop::state::{ColorSupport, Effect, Event, Key, ThemeChoice, update};
use stalltop::view::theme::colors::built_in_themes;

use crate::scenes;
use crate::screen::{buffer, live, press, text};

#[test]
fn no_color_disables_all_colors() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    state.setup.terminal.colors = ColorSupport::None;
    for keys in ["1", "2", "3", "4", "5", "6", "\n", "7", "?"] {
        press(&mut state, keys);
        for cell in &buffer(&state).content {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "{cell:?} on {keys}");
        }
    }
}

#[test]
fn the_text_is_the_same_in_every_palette() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    let frames = [ColorSupport::None, ColorSupport::Ansi16, ColorSupport::Ansi256].map(|colours| {
        state.setup.terminal.colors = colours;
        text(&state)
    });
    assert_eq!(frames[0], frames[1]);
    assert_eq!(frames[1], frames[2]);
}

#[test]
fn a_theme_changes_colors_alone_and_gives_every_cell_a_background() {
    for name in ["dark", "light", "high-contrast", "color-blind"] {
        let theme = built_in_themes().find(|theme| theme.name() == name).unwrap();
        for colors in [ColorSupport::Ansi256, ColorSupport::TrueColor] {
            let mut state = live(&scenes::lock_convoy(), (200, 50));
            for keys in ["1", "2", "3", "4", "5", "6", "\n", "?", "?:"] {
                press(&mut state, keys);
                state.setup.terminal.theme = ThemeChoice::Terminal;
                let plain = text(&state);
                (state.setup.terminal.theme, state.setup.terminal.colors) = (theme, colors);
                assert_eq!(text(&state), plain, "{name} on {keys}");
                for cell in &buffer(&state).content {
                    assert!(cell.bg != Color::Reset && cell.fg != Color::Reset, "{name} on {keys}: {cell:?}");
                }
            }
            state.setup.terminal.colors = ColorSupport::None;
            assert!(buffer(&state).content.iter().all(|cell| cell.bg == Color::Reset), "NO_COLOR disables a theme");
        }
    }
}

/// The rows of a filled graph are the brighter the higher, in a theme with colors of its own alone.
#[test]
fn the_graphs_of_a_theme_have_a_gradient() {
    let theme = |name: &str| built_in_themes().find(|theme| theme.name() == name).unwrap();
    for keys in ["1", "3", "4", "7"] {
        let mut state = live(&scenes::lock_convoy(), (200, 50));
        press(&mut state, keys);
        let mut drawn = |name: &str, colors| {
            (state.setup.terminal.theme, state.setup.terminal.colors) = (theme(name), colors);
            buffer(&state)
        };
        let shades = |buffer: &ratatui::buffer::Buffer| {
            let blocks = buffer.content.iter().filter(|cell| cell.symbol() == "█");
            blocks.map(|cell| (cell.fg, cell.modifier)).collect::<std::collections::HashSet<_>>().len()
        };
        let plain = shades(&drawn("terminal", ColorSupport::TrueColor));
        for colors in [ColorSupport::Ansi256, ColorSupport::TrueColor] {
            // The other screens of that load have several colors in one graph, or low values.
            for name in ["dark", "light"].into_iter().filter(|_| keys == "3") {
                let found = shades(&drawn(name, colors));
                assert!(found > plain, "{name}: {found} shades, not more than {plain}");
            }
        }
        for colors in [ColorSupport::None, ColorSupport::Ansi16] {
            assert_eq!(drawn("dark", colors), drawn("terminal", colors), "{keys}");
        }
        assert_eq!(drawn("mono", ColorSupport::TrueColor), drawn("mono", ColorSupport::None), "{keys}");
    }
}

#[test]
fn the_palette_changes_the_theme() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    state.options.themes = built_in_themes().collect();
    state.setup.terminal.colors = ColorSupport::Ansi256;
    press(&mut state, ":theme light");
    assert_eq!(update(&mut state, Event::Key(Key::Enter)), Effect::SaveChoices);
    assert_eq!(state.setup.terminal.theme.name(), "light");
    assert_eq!(state.options.remembered_theme.as_deref(), Some("light"));
}

#[test]
fn no_white_or_yellow_on_the_default_background() {
    // The second one has a warning, whose line is in the timeline.
    let machines = [scenes::lock_convoy(), scenes::saturated_disk()];
    for (machine, colours) in
        machines.iter().flat_map(|machine| [(machine, ColorSupport::Ansi16), (machine, ColorSupport::Ansi256)])
    {
        let mut state = live(machine, (200, 50));
        assert!(text(&state).contains(['━', '─']));
        state.setup.terminal.colors = colours;
        for keys in ["1", "2", "3", "4", "5", "6", "7"] {
            press(&mut state, keys);
            for cell in &buffer(&state).content {
                let faint = matches!(cell.fg, Color::White | Color::Yellow | Color::Gray | Color::LightYellow);
                assert!(!(faint && cell.bg == Color::Reset), "{cell:?}");
            }
        }
    }
}
