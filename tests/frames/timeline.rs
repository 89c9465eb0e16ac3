//! The timeline: blank cells exactly where samples are missing, and the position marker at the displayed time.

use stalltop::findings::Severity;
use stalltop::state::{Event, Position, Source, State, TimelineTick, update};

use crate::machine::instant;
use crate::scenes;
use crate::screen::{setup, text};

/// A replay of `count` intervals with up to 250 ms of jitter, without those in `gap`, displaying interval `at`.
fn recording(count: u64, gap: std::ops::Range<u64>, at: u64) -> State {
    let mut state = State::new(setup((80, 24), Source::Replay { name: "x".to_owned() }));
    let ticks: Vec<TimelineTick> = (0..count)
        .filter(|second| !gap.contains(second))
        .map(|second| TimelineTick {
            realtime_ns: instant(second).realtime_ns + [0, -250, 40, 250, -3][second as usize % 5] * 1_000_000,
            worst_severity: Some(Severity::Critical),
            busy: 0.5,
            blocked: 0.4,
            gap: second == gap.end,
            mark: None,
        })
        .collect();
    update(&mut state, Event::Timeline(ticks.into()));
    for evaluation in scenes::lock_convoy().intervals(at, 50) {
        update(&mut state, Event::Evaluation(evaluation));
    }
    let place = Position { index: at as usize, length: count as usize, first: instant(0), last: instant(count) };
    update(&mut state, Event::Position(place));
    state
}

fn timeline_row(state: &State) -> String {
    text(state).lines().nth(22).unwrap().to_owned()
}

#[test]
fn jitter_leaves_no_blank_cells() {
    for count in [8, 11, 40, 61, 62, 63, 70, 200, 3000] {
        let row = timeline_row(&recording(count, 0..0, 5));
        let cells: String = row.chars().skip_while(|cell| *cell != ' ').collect();
        assert!(!cells.trim_start().contains("━ ━") && !cells.contains("▼ ━"), "{count}: {row}");
    }
}

#[test]
fn missing_samples_leave_blank_cells() {
    let row = timeline_row(&recording(60, 20..30, 5));
    let pieces: Vec<usize> = row.split_whitespace().map(|piece| piece.chars().count()).collect();
    let [8, before, after, 8] = pieces[..] else { panic!("one gap: {row}") };
    assert!((20..=22).contains(&before) && (30..=32).contains(&after), "a third of the way: {row}");
}

#[test]
fn the_displayed_time_has_a_marker() {
    for at in [2, 3, 4, 8] {
        let row = timeline_row(&recording(11, 0..0, at));
        // The recording is as wide as the terminal without the labels.
        let (label, count) = ("12:00:00 ".len(), 11_usize);
        let cells: Vec<char> = row.chars().skip(label).take(80 - 2 * label).collect();
        let place = at as usize * (cells.len() - 1) / (count - 1);
        let found = cells.iter().position(|cell| *cell == '▼').unwrap();
        assert!(found.abs_diff(place) <= 1, "{found}, not {place}: {row}");
    }
}

#[test]
fn labels_of_a_short_recording_have_seconds() {
    let row = timeline_row(&recording(11, 0..0, 5));
    assert!(row.starts_with("12:00:00 ") && row.trim_end().ends_with(" 12:00:10"), "{row}");
}

#[test]
fn labels_of_a_long_recording_have_the_day() {
    let (short, long) = (recording(40_000, 0..0, 5), recording(86_400, 0..0, 5));
    let words = |state: &State| timeline_row(state).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let [first, _, _] = &words(&short)[..] else { panic!("{}", timeline_row(&short)) };
    assert_eq!(first, "12:00");
    let days = words(&long);
    let [month, day, time, _, _, next, last] = &days[..] else { panic!("{}", timeline_row(&long)) };
    assert_eq!((time.as_str(), last.as_str()), ("12:00", "11:59"));
    assert_ne!(day, next);
    let head = |state: &State| text(state).lines().next().unwrap().to_owned();
    let at = format!("{month} {day} 12:00:0");
    assert!(head(&long).contains(&at) && !head(&short).contains(&at), "{}", head(&long));
    // A narrow screen has no room for the day.
    let mut narrow = recording(86_400, 0..0, 5);
    update(&mut narrow, Event::Resize { width: 40, height: 24 });
    assert!(text(&narrow).lines().nth(22).unwrap().starts_with("12:00 "), "{}", text(&narrow));
}
