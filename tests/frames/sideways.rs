//! Lists that are wider than the screen, which `(` and `)` move.

use stalltop::state::{ClickTarget, Event, Key, State, update};
use stalltop::view;
use stalltop::view::hit_area::{list_end_offset, target_at};

use crate::machine::{Device, Machine};
use crate::scenes;
use crate::screen::{live, live_after, live_intervals, press, send, text};

const LISTS: [&str; 10] = ["2", "3", "4", "4p", "5", "5t", "5T", "5c", "5u", "7"];

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
        if list_end_offset(&view::drawn_frame(state).1).is_some() {
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
    send(&mut state, Event::Key(Key::ShiftRight));
    assert!(state.sideways_offset() <= end, "no further than the longest row");
    insta::assert_snapshot!("tasks-moved-to-end-80x24", text(&state));
}

#[test]
fn a_list_moves_back_from_where_it_was_drawn() {
    let mut state = live(&machine(), (80, 24));
    press(&mut state, "5");
    assert!(move_to_end(&mut state) > 5);
    press(&mut state, "/sshd\n");
    let moved = text(&state);
    let end = list_end_offset(&view::drawn_frame(&state).1);
    assert!(moved.contains('‹') && end.is_some_and(|end| end < state.sideways_offset()), "{moved}");
    press(&mut state, "(");
    assert_ne!(text(&state), moved, "the rows are shorter");
}

#[test]
fn keys_that_come_before_the_next_frame_move_the_list_too() {
    let mut state = live(&machine(), (80, 24));
    press(&mut state, "5");
    send(&mut state, Event::Key(Key::Char(')')));
    let areas = view::drawn_frame(&state).1;
    for _ in 0..2 {
        view::frame_events(&state, &areas).into_iter().for_each(|event| drop(update(&mut state, event)));
        update(&mut state, Event::Key(Key::Char(')')));
    }
    assert_eq!(state.sideways_offset(), 60);
}

#[test]
fn each_list_moves_and_comes_back() {
    let intervals = live_intervals(&machine());
    for keys in LISTS {
        for size in [(40, 10), (80, 24), (120, 40), (200, 50)] {
            let mut state = live_after(&intervals, size);
            press(&mut state, keys);
            let before = text(&state);
            let steps = move_to_end(&mut state);
            assert_eq!(steps > 0, text(&state).contains('‹'), "{keys} at {size:?}:\n{}", text(&state));
            (0..steps).for_each(|_| press(&mut state, "("));
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
        send(state, Event::Click(target_at(&areas, u16::try_from(column).unwrap(), u16::try_from(row).unwrap())));
    };
    click(&mut state, "›");
    assert_eq!(state.sideways_offset(), 20);
    click(&mut state, "mem");
    assert_eq!(state.sort().column.label(), "memory");
    click(&mut state, "‹");
    assert_eq!(state.sideways_offset(), 0);
}

/// A list that scrolls leaves a column to the scroll bar, which cuts graphs but no text.
#[test]
fn a_list_of_graphs_with_a_scroll_bar_does_not_go_on() {
    let mut machine = machine();
    let device = machine.devices[0].clone();
    machine.devices = (0..20).map(|at| Device { minor: 16 + at, ..device.clone() }).collect();
    let mut state = live(&machine, (100, 24));
    press(&mut state, "3");
    let frame = text(&state);
    assert!(frame.contains("await, log") && frame.contains('█') && !frame.contains('›'), "{frame}");
}

#[test]
fn a_moved_list_has_each_command_line_once() {
    let mut machine = machine();
    machine.workers[1].cmdline = b"/usr/sbin/sshd\0-D";
    let mut state = live(&machine, (150, 24));
    press(&mut state, "5");
    let times = |state: &State| text(state).matches("/usr/sbin/sshd").count();
    let before = times(&state);
    press(&mut state, ")");
    assert_eq!((before, times(&state)), (1, 1), "{}", text(&state));
}

#[test]
fn a_heading_that_is_cut_says_so() {
    let mut state = live(&machine(), (80, 24));
    for keys in LISTS {
        press(&mut state, keys);
        for width in 40..=110 {
            update(&mut state, Event::Resize { width, height: 24 });
            let (frame, areas) = (text(&state), view::drawn_frame(&state).1);
            let Some(line) = frame.lines().find(|line| line.ends_with('›')) else { continue };
            let line = line.trim_end_matches(['›', ' ', '▴', '▾']);
            // Of lists whose columns cannot be chosen.
            let mut headings =
                vec!["waits for", "processes", "conns", "wKB/s", "rtt ms", "min", "×min", "retr/s", "limited by"];
            for hit in areas {
                if let ClickTarget::Columns(columns) = hit.target {
                    headings.extend(columns.into_iter().map(|column| column.heading));
                }
            }
            let is_whole = headings.into_iter().any(|heading| line.ends_with(&format!(" {heading}")));
            assert!(is_whole || line.ends_with('…'), "{keys} at {width}: {line}");
        }
    }
}
