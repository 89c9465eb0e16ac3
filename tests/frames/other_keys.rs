//! Keys of pages, function keys that stand for another key, and the key for the order of the CPUs.

use stalltop::state::{Event, Key, PromptKind, State, update};

use crate::scenes;
use crate::screen::{live, press, text};

fn key(state: &mut State, key: Key) {
    update(state, Event::Key(key));
}

/// The threads of a screen of 24 lines, of which it shows a part.
fn threads() -> State {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    press(&mut state, "5tg");
    state
}

#[test]
fn page_keys_move_by_what_the_screen_shows() {
    let mut state = threads();
    let (all, first) = (state.rows().len(), text(&state));
    assert!(all > 40, "{all} threads");
    key(&mut state, Key::PageDown);
    let page = state.cursor().selected;
    assert!((10..24).contains(&page), "a page of {page} rows");
    key(&mut state, Key::PageDown);
    assert_eq!(state.cursor().selected, 2 * page);
    assert_ne!(text(&state), first);
    key(&mut state, Key::PageUp);
    assert_eq!(state.cursor().selected, page);
    key(&mut state, Key::PageUp);
    assert_eq!(state.cursor().selected, 0);
    key(&mut state, Key::PageUp);
    assert_eq!((state.cursor().selected, text(&state)), (0, first), "there is nothing above it");
    (0..all).for_each(|_| key(&mut state, Key::PageDown));
    assert_eq!(state.cursor().selected, all - 1);
}

#[test]
fn f3_f4_and_f9_are_the_filter_and_the_signal() {
    for number in [3, 4] {
        let mut state = threads();
        key(&mut state, Key::Function(number));
        assert_eq!(state.prompt.as_ref().map(|prompt| prompt.kind), Some(PromptKind::Filter), "F{number}");
    }
    let mut state = threads();
    state.options.allows_signals = true;
    key(&mut state, Key::Function(9));
    assert!(state.signal_question().is_some() && text(&state).contains("Send SIGTERM to pid "), "{}", text(&state));
}

#[test]
fn a_sorts_the_cpus_by_number_or_by_use() {
    let mut state = live(&scenes::lock_convoy(), (120, 30));
    press(&mut state, "2");
    let is_by_use = |state: &State| {
        let frame = text(state);
        let marked = [frame.contains("busy▾"), frame.contains("CPU▴")];
        assert!(marked[0] != marked[1], "{frame}");
        marked[0]
    };
    assert!(is_by_use(&state));
    press(&mut state, "a");
    assert!(!is_by_use(&state));
    press(&mut state, "a");
    assert!(is_by_use(&state));
    press(&mut state, "5a2");
    assert!(is_by_use(&state), "on that screen only");
}
