//! The note of a recording of the demo: below the body, above the timeline, at each size.

use stalltop::state::demo::DemoNote;
use stalltop::state::{Event, State, update};

use crate::scenes;
use crate::screen::{live, press, text};

fn state(size: (u16, u16), has_next: bool) -> State {
    let mut state = live(&scenes::lock_convoy(), size);
    let notice = "The CPUs are idle and none of it is free, since all wait. Press 6 and Enter: who waits for whom.";
    state.options.demo = Some(DemoNote { number: 1, count: 6, title: "a blocked database", notice, has_next });
    update(&mut state, Event::Resize { width: size.0, height: size.1 });
    state
}

#[test]
fn the_note_says_what_to_notice_and_how_to_go_on() {
    let frame = text(&state((80, 24), true));
    let lines: Vec<&str> = frame.lines().collect();
    assert!(lines[19].starts_with("DEMO 1 of 6: a blocked database") && lines[19].ends_with("q next recording  Ctrl-C end"));
    assert!(lines[20].starts_with("The CPUs are idle"), "{frame}");
    assert!(lines[21].ends_with("whom."), "{frame}");
    assert!(lines[23].starts_with("1 over 2 cpu"), "{frame}");
    assert!(text(&state((80, 24), false)).contains("q end"));
}

#[test]
fn every_screen_has_room_for_the_note() {
    for size in [(40, 10), (40, 16), (80, 24), (100, 32), (200, 50)] {
        let mut state = state(size, true);
        for keys in ["1", "2", "3", "4", "5", "6", "7", "1z", "?", "\x1b5\n"] {
            press(&mut state, keys);
            let frame = text(&state);
            assert!(keys == "?" || frame.contains("DEMO 1 of 6"), "{size:?} {keys}: {frame}");
        }
    }
}
