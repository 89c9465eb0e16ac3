//! Every size of terminal, every screen, with and without details, help and prompts: no panic, nothing outside.

use stalltop::state::{Event, State, update};

use crate::scenes;
use crate::screen::{buffer, live, press};

fn sweep(state: &mut State) {
    for width in (1..100).step_by(5).chain((100..=300).step_by(40)) {
        for height in (1..30).step_by(2).chain([24, 50, 100]) {
            update(state, Event::Resize { width, height });
            buffer(state);
        }
    }
}

#[test]
fn every_size_of_every_screen() {
    for machine in [scenes::lock_convoy(), scenes::hot_core()] {
        let mut state = live(&machine, (80, 24));
        for keys in ["1", "2", "3", "4", "5", "5t", "5T", "5c", "6"] {
            press(&mut state, keys);
            sweep(&mut state);
        }
    }
}

#[test]
fn every_size_of_what_stands_over_a_screen() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    for keys in ["6\n", "\x1b5\n", "\x1b5t\n", "\x1b5c\n", "\x1b3\n", "\x1b4\n", "\x1b2\n", "\x1b?", "\x1b1/", "\x1bb"] {
        press(&mut state, keys);
        sweep(&mut state);
        press(&mut state, "\x1b\x1b");
    }
}

#[test]
fn a_click_anywhere_is_harmless() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    for screen in ["1", "2", "3", "4", "5", "6"] {
        for (width, height) in [(80, 24), (40, 10), (20, 3)] {
            update(&mut state, Event::Resize { width, height });
            for x in 0..width {
                for y in 0..height {
                    press(&mut state, "\x1b");
                    press(&mut state, screen);
                    let click = stalltop::view::hit(&state, x, y);
                    update(&mut state, Event::Click(click));
                    if x % 16 == 0 {
                        buffer(&state);
                    }
                }
            }
        }
    }
}
