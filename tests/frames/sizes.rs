//! Every terminal size with every screen, details page, help and prompt: no panic, no drawing outside.

use stalltop::state::{Event, Key, State, update};
use stalltop::view::hit_area::target_at;

use crate::scenes;
use crate::screen::{buffer, live, press, text};

/// Draws one share of the sizes up to 60 by 30, and some large ones.
fn draw_sizes(state: &mut State, share: usize) {
    let small = (1..=60).flat_map(|width| (1..=30).map(move |height| (width, height)));
    for (width, height) in small.skip(share).step_by(SHARES) {
        draw(state, width, height);
    }
    for width in [80, 95, 100, 140, 220, 300] {
        for height in [1, 2, 3, 5, 10, 24, 50, 100] {
            draw(state, width, height);
        }
    }
}

/// Number of shares into which the small sizes are divided among the screens.
const SHARES: usize = 9;

fn draw(state: &mut State, width: u16, height: u16) {
    update(state, Event::Resize { width, height });
    buffer(state);
}

#[test]
fn no_footer_is_cut() {
    let mut state = live(&scenes::lock_convoy(), (40, 24));
    press(&mut state, "2");
    for width in 40..=90 {
        update(&mut state, Event::Resize { width, height: 24 });
        let screen = text(&state);
        let foot: Vec<&str> = screen.lines().filter(|line| line.contains("tick-busy") || line.contains("itself")).collect();
        assert!(foot.len() == 2 && foot.iter().all(|line| !line.contains('…')), "{width}: {foot:?}");
    }
}

#[test]
fn every_screen_at_every_size() {
    for (share, machine) in [scenes::lock_convoy(), scenes::hot_core(), scenes::shaped_network()].iter().enumerate() {
        let mut state = live(machine, (80, 24));
        for (at, keys) in ["1", "2", "3", "4", "4p", "5", "5t", "5T", "5c", "5u", "6", "7"].into_iter().enumerate() {
            press(&mut state, keys);
            draw_sizes(&mut state, (share + at) % SHARES);
        }
    }
}

#[test]
fn extreme_sizes() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    for keys in ["1", "2", "3", "4", "5", "6", "7", "\n"] {
        press(&mut state, keys);
        for (width, height) in [(0, 0), (0, 24), (80, 0), (65_535, 1), (1, 65_535), (1_000, 60), (500, 150)] {
            draw(&mut state, width, height);
        }
    }
    draw(&mut state, 1_000, 1_000);
}

#[test]
fn every_page_and_prompt_at_every_size() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    let over =
        ["6\n", "\x1b5\n", "\x1b5t\n", "\x1b5c\n", "\x1b3\n", "\x1b4\n", "\x1b4p\n", "\x1b2\n", "\x1b?", "\x1b1/", "\x1bb"];
    for (share, keys) in over.into_iter().enumerate() {
        press(&mut state, keys);
        draw_sizes(&mut state, share % SHARES);
        press(&mut state, "\x1b\x1b");
    }
}

#[test]
fn a_click_anywhere_is_harmless() {
    let mut state = live(&scenes::lock_convoy(), (80, 24));
    for screen in ["1", "2", "3", "4", "5", "6", "7"] {
        for (width, height) in [(80, 24), (40, 10), (20, 3)] {
            update(&mut state, Event::Resize { width, height });
            press(&mut state, "\x1b");
            press(&mut state, screen);
            let areas = stalltop::view::drawn_frame(&state).1;
            for x in 0..width {
                for y in 0..height {
                    update(&mut state, Event::Key(Key::Escape));
                    screen.chars().for_each(|key| drop(update(&mut state, Event::Key(Key::Char(key)))));
                    update(&mut state, Event::Click(target_at(&areas, x, y)));
                    if x % 16 == 0 {
                        buffer(&state);
                    }
                }
            }
        }
    }
}
