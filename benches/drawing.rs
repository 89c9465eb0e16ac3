//! The cost of a frame (80×24 and 200×50, 2,000 processes, each screen) and of an update by an interval.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a benchmark may fail loudly")]

#[path = "../tests/frames/machine.rs"]
mod machine;
#[path = "../tests/frames/network.rs"]
mod network;
#[path = "../tests/frames/scenes.rs"]
#[allow(dead_code, reason = "the frames' tests use the other scenes")]
mod scenes;
#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use criterion::{Criterion, criterion_group, criterion_main};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stalltop::state::{Event, Key, Screen, Source, State, update};
use stalltop::view;

fn drawing(criterion: &mut Criterion) {
    let intervals = crowd(2000).intervals(61, 30);
    let mut states = [(80, 24), (200, 50)].map(|size| {
        let mut state = synthetic::screen(size, Source::Live);
        for evaluation in &intervals {
            update(&mut state, Event::Evaluation(evaluation.clone()));
        }
        state
    });
    for state in &mut states {
        let (width, height) = state.setup.size;
        let mut frames = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        for screen in Screen::ALL {
            press(state, &screen.digit().to_string());
            criterion.bench_function(&format!("frame {width}x{height}, 2000 processes, {}", screen.label()), |bencher| {
                bencher.iter(|| frames.draw(|frame| drop(view::render(state, frame))).map(|_| ()));
            });
        }
    }
    let newest = intervals.last().expect("there are 61");
    let [_, state] = &mut states;
    for (key, screen) in [("1", "overview"), ("5", "tasks")] {
        press(state, key);
        criterion.bench_function(&format!("take an interval in, 2000 processes, {screen}"), |bencher| {
            bencher.iter(|| update(state, Event::Evaluation(newest.clone())));
        });
    }
}

fn press(state: &mut State, keys: &str) {
    keys.chars().for_each(|key| {
        update(state, Event::Key(Key::Char(key)));
    });
}

/// As many processes as a large server has, most of them asleep.
fn crowd(processes: u32) -> machine::Machine {
    let mut machine = scenes::lock_convoy();
    machine.workers.extend((0..processes).map(|at| scenes::idle(10_000 + at * 8, b"worker")));
    machine
}

criterion_group!(benches, drawing);
criterion_main!(benches);
