//! The menu of settings, by what a frame shows.

use stalltop::state::{ColorSupport, Effect, Event, GlyphSet, Key, State, update};
use stalltop::view::click_target;
use stalltop::view::theme::colors::built_in_themes;

use crate::scenes;
use crate::screen::{live, press, text};

fn open(size: (u16, u16)) -> State {
    let mut state = live(&scenes::lock_convoy(), size);
    state.options.themes = built_in_themes().collect();
    state.setup.terminal.colors = ColorSupport::Ansi256;
    key(&mut state, Key::Function(2));
    state
}

fn key(state: &mut State, key: Key) -> Effect {
    update(state, Event::Key(key))
}

/// Selects the line with this text.
fn select(state: &mut State, wanted: &str) {
    let line = |text: &str| text.lines().position(|line| line.contains(wanted)).expect("the setting is on the screen");
    let first = text(state).lines().position(|line| line.contains(" theme ")).unwrap();
    for _ in first..line(&text(state)) {
        key(state, Key::Down);
    }
}

#[test]
fn theme_and_characters_change_at_once_and_the_theme_is_remembered() {
    let mut state = open((80, 24));
    assert!(text(&state).contains("◂ terminal ▸"), "{}", text(&state));
    assert!(!text(&state).contains("pane"), "80×24 has none:\n{}", text(&state));
    key(&mut state, Key::Left);
    let last = built_in_themes().last().unwrap();
    assert_eq!(state.setup.terminal.theme, last, "before the first one comes the last one");
    key(&mut state, Key::Right);
    key(&mut state, Key::Right);
    let second = built_in_themes().nth(1).unwrap();
    assert_eq!((state.setup.terminal.theme, state.options.remembered_theme.as_deref()), (second, Some(second.name())));
    key(&mut state, Key::Down);
    press(&mut state, " ");
    assert_eq!(state.setup.terminal.glyphs, GlyphSet::Ascii);
    assert!(text(&state).is_ascii(), "{}", text(&state));
    assert!(text(&state).contains("< mono >"), "{}", text(&state));
    press(&mut state, " ");
    assert_eq!(key(&mut state, Key::Enter), Effect::Redraw, "Enter closes it");
    assert!(!text(&state).contains("Settings"));
    // Themes with colors of their own are not offered where they look like the terminal's.
    state.setup.terminal.colors = ColorSupport::Ansi16;
    key(&mut state, Key::Function(2));
    for wanted in ["terminal", "mono", "terminal"] {
        assert_eq!(key(&mut state, Key::Right), Effect::SaveChoices);
        assert!(text(&state).contains(&format!("◂ {wanted} ▸")), "{}", text(&state));
    }
}

/// Presses the left button on a text on the frame.
fn click(state: &mut State, wanted: &str) -> Effect {
    let text = text(state);
    let (y, line) = text.lines().enumerate().find(|(_, line)| line.contains(wanted)).expect("the text is on the screen");
    let x = line.split_once(wanted).unwrap().0.chars().count();
    let target = click_target(state, u16::try_from(x).unwrap(), u16::try_from(y).unwrap());
    update(state, Event::Click(target))
}

#[test]
fn a_click_sets_the_next_or_the_previous_value() {
    let mut state = open((80, 24));
    let interval = |state: &State| state.setup.interval_ms;
    click(&mut state, "1 s ▸");
    assert_eq!(interval(&state), 2_000);
    click(&mut state, "◂ 2 s");
    click(&mut state, "◂ 1 s");
    assert_eq!(interval(&state), 500);
}

#[test]
fn the_interval_is_that_of_the_keys() {
    let mut state = open((80, 24));
    select(&mut state, " interval ");
    assert_eq!(key(&mut state, Key::Right), Effect::ChangeInterval(2_000));
    assert!(text(&state).contains("◂ 2 s ▸"), "{}", text(&state));
    assert_eq!(key(&mut state, Key::Left), Effect::ChangeInterval(1_000));
}

#[test]
fn a_hidden_pane_leaves_its_room_to_others_and_the_last_one_stays() {
    let mut state = open((200, 50));
    select(&mut state, "[x] network pane");
    assert_eq!(key(&mut state, Key::Char(' ')), Effect::SaveChoices);
    assert!(text(&state).contains("[ ] network pane"), "{}", text(&state));
    key(&mut state, Key::Escape);
    let shown = text(&state);
    assert!(!shown.contains("Network ─") && shown.contains("Disks") && shown.contains("Tasks: where"), "{shown}");
    // Beside it there was another one.
    key(&mut state, Key::Function(2));
    select(&mut state, "[x] who waits for whom pane");
    press(&mut state, " ");
    key(&mut state, Key::Escape);
    let top = text(&state).lines().find(|line| line.contains("CPU, last")).map(|line| line.matches('┬').count());
    assert_eq!(top, Some(0), "the CPU has the whole width:\n{}", text(&state));
    press(&mut state, "4");
    assert!(text(&state).contains("NET"), "of the overview alone");
    press(&mut state, "1");
    key(&mut state, Key::Function(2));
    for _ in 0..3 {
        key(&mut state, Key::Down);
    }
    for _ in 0..20 {
        if !text(&state).lines().any(|line| line.contains("[x]")) {
            break;
        }
        press(&mut state, " j");
    }
    assert!(text(&state).contains("[x]"), "one pane stays:\n{}", text(&state));
}

#[test]
fn a_hidden_pane_is_not_zoomed() {
    let mut state = open((200, 50));
    select(&mut state, "[x] cpu pane");
    press(&mut state, " ");
    key(&mut state, Key::Escape);
    press(&mut state, "z");
    assert!(text(&state).contains("Who waits for whom") && !text(&state).contains("CPU, last"), "{}", text(&state));
    key(&mut state, Key::Tab);
    key(&mut state, Key::Function(2));
    select(&mut state, "[x] cores pane");
    press(&mut state, " ");
    key(&mut state, Key::Escape);
    assert!(!text(&state).contains("Cores") && text(&state).contains("Tasks: where"), "all others:\n{}", text(&state));
}

#[test]
fn others_take_the_rows_of_hidden_panes() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    press(&mut state, "2");
    key(&mut state, Key::Function(2));
    for pane in ["[x] threads by state pane", "[x] hottest threads pane"] {
        select(&mut state, pane);
        press(&mut state, " ");
        key(&mut state, Key::Escape);
        key(&mut state, Key::Function(2));
    }
    key(&mut state, Key::Escape);
    let shown = text(&state);
    let last = shown.lines().position(|line| line.starts_with('└'));
    assert_eq!(last, Some(47), "above the timeline:\n{shown}");
}

#[test]
fn the_pane_of_the_list_cannot_be_hidden() {
    let mut state = live(&scenes::lock_convoy(), (200, 50));
    for keys in ["2", "3", "4", "5", "6", "7"] {
        press(&mut state, keys);
        key(&mut state, Key::Function(2));
        let panes = state.screen.definition().bands.iter().flat_map(|band| band.panes).enumerate();
        for (at, name) in panes {
            let offered = text(&state).contains(&format!("] {name} pane"));
            assert_eq!(offered, state.screen.definition().list_pane != Some(at), "{name} of\n{}", text(&state));
        }
        key(&mut state, Key::Escape);
    }
}
