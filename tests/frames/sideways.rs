//! Lists that are wider than the screen, which `(` and `)` move.

use stalltop::state::{Event, Key, State, update};
use stalltop::view;
use stalltop::view::hit_area::{goes_on_at_right, target_at};

use crate::machine::Machine;
use crate::scenes;
use crate::screen::{live, press, text};

/// Of 240 cells; the end is a wide character, and one with a combining mark.
fn long_command_line() -> &'static [u8] {
    let line = format!("/usr/bin/postgres\0-D\0{}\0--end=日本e\u{301}", "x".repeat(205));
    Vec::leak(line.into_bytes())
}

fn machine() -> Machine {
    let mut machine = scenes::lock_convoy();
    machine.workers[0].cmdline = long_command_line();
    machine
}

/// Moves the list to its right end; returns the number of steps.
fn move_to_end(state: &mut State) -> usize {
    for steps in 0..100 {
        if !goes_on_at_right(&view::drawn_frame(state).1) {
            return steps;
        }
        press(state, ")");
    }
    panic!("no end: {}", text(state));
}

#[test]
fn the_end_of_a_command_line_is_within_reach() {
    let mut state = live(&machine(), (80, 24));
    press(&mut state, "5");
    press(&mut state, "))");
    insta::assert_snapshot!("tasks-moved-80x24", text(&state));
    assert!(move_to_end(&mut state) > 5);
    insta::assert_snapshot!("tasks-moved-to-end-80x24", text(&state));
    let end = state.sideways_offset();
    update(&mut state, Event::ListEndsAtRight(true));
    update(&mut state, Event::Key(Key::ShiftRight));
    assert_eq!(state.sideways_offset(), end, "no further than the longest row");
    (0..100).for_each(|_| press(&mut state, "("));
    assert_eq!(state.sideways_offset(), 0);
}

#[test]
fn each_list_moves_and_comes_back() {
    for keys in ["2", "3", "4", "4p", "5", "5t", "5T", "5c", "5u", "7"] {
        for size in [(40, 10), (80, 24), (120, 40), (200, 50)] {
            let mut state = live(&machine(), size);
            press(&mut state, keys);
            let before = text(&state);
            let steps = move_to_end(&mut state);
            assert!(steps > 0 || text(&state) == before, "{keys} at {size:?}");
            (0..100).for_each(|_| press(&mut state, "("));
            assert_eq!(text(&state), before, "{keys} at {size:?}");
        }
    }
}

#[test]
fn a_click_on_a_sign_moves_the_list_and_a_heading_sorts_where_it_stands() {
    let mut state = live(&machine(), (80, 24));
    press(&mut state, "5");
    let click = |state: &mut State, wanted: &str| {
        let frame = text(state);
        let (row, line) = frame.lines().enumerate().find(|(_, line)| line.contains(wanted)).expect("it is there");
        let column = line.split(wanted).next().map_or(0, |before| before.chars().count());
        let areas = view::drawn_frame(state).1;
        update(state, Event::Click(target_at(&areas, u16::try_from(column).unwrap(), u16::try_from(row).unwrap())));
    };
    click(&mut state, "›");
    assert_eq!(state.sideways_offset(), 20);
    click(&mut state, "mem");
    assert_eq!(state.sort().column.label(), "memory");
    click(&mut state, "‹");
    assert_eq!(state.sideways_offset(), 0);
}
