//! The strip of time: holes are where samples are missing, nowhere else, and the mark of the moment is where the moment is.

use stalltop::findings::Severity;
use stalltop::state::{Event, Position, Source, State, TimelineTick, update};

use crate::machine::instant;
use crate::scenes;
use crate::screen::{setup, text};

/// A recording of so many intervals, each up to a quarter of a second off its time, without those of a gap.
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
    for judged in scenes::lock_convoy().intervals(at, 50) {
        update(&mut state, Event::Evaluation(judged));
    }
    let place = Position { index: at as usize, length: count as usize, first: instant(0), last: instant(count) };
    update(&mut state, Event::Position(place));
    state
}

fn strip(state: &State) -> String {
    text(state).lines().nth(22).unwrap().to_owned()
}

#[test]
fn intervals_of_uneven_length_leave_no_holes() {
    for count in [8, 11, 40, 61, 62, 63, 70, 200, 3000] {
        let strip = strip(&recording(count, 0..0, 5));
        let cells: String = strip.chars().skip_while(|cell| *cell != ' ').collect();
        assert!(!cells.trim_start().contains("█ █") && !cells.contains("▼ █"), "{count}: {strip}");
    }
}

#[test]
fn samples_that_are_missing_do() {
    let strip = strip(&recording(60, 20..30, 5));
    let pieces: Vec<usize> = strip.split_whitespace().map(|piece| piece.chars().count()).collect();
    let [8, before, after, 8] = pieces[..] else { panic!("one hole: {strip}") };
    assert!((16..=18).contains(&before) && (24..=26).contains(&after), "a third of the way: {strip}");
}

#[test]
fn the_moment_shown_has_a_sign_of_its_own() {
    for at in [2, 3, 4, 8] {
        let strip = strip(&recording(11, 0..0, at));
        let cells: Vec<char> = strip.chars().skip("12:00:00 ".len()).take(11).collect();
        assert_eq!(cells.iter().position(|cell| *cell == '▼'), Some(at as usize), "{strip}");
    }
}

#[test]
fn the_ends_of_a_short_recording_are_told_apart() {
    let strip = strip(&recording(11, 0..0, 5));
    assert!(strip.starts_with("12:00:00 ") && strip.trim_end().ends_with(" 12:00:10"), "{strip}");
}

/// A day has each time of day twice, a week eight times.
#[test]
fn a_recording_of_half_a_day_and_more_says_which_day() {
    let (short, long) = (recording(40_000, 0..0, 5), recording(86_400, 0..0, 5));
    let words = |state: &State| strip(state).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let [first, _, _] = &words(&short)[..] else { panic!("{}", strip(&short)) };
    assert_eq!(first, "12:00");
    let days = words(&long);
    let [month, day, time, _, _, next, last] = &days[..] else { panic!("{}", strip(&long)) };
    assert_eq!((time.as_str(), last.as_str()), ("12:00", "11:59"));
    assert_ne!(day, next);
    let head = |state: &State| text(state).lines().next().unwrap().to_owned();
    let at = format!("{month} {day} 12:00:0");
    assert!(head(&long).contains(&at) && !head(&short).contains(&at), "{}", head(&long));
    // A week that is read as one, on a narrow screen: what there is room for.
    let mut narrow = recording(86_400, 0..0, 5);
    update(&mut narrow, Event::Resize { width: 40, height: 24 });
    assert!(text(&narrow).lines().nth(22).unwrap().starts_with("12:00 "), "{}", text(&narrow));
}
