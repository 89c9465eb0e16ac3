//! docs/screens/*.svg: screens drawn by the program from recordings of real loads. `STALLTOP_BLESS=1 cargo test --test
//! pictures` draws them again.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stalltop::app::config::Settings;
use stalltop::app::evaluated_recording::EvaluatedRecording;
use stalltop::findings::Evaluation;
use stalltop::state::history::IntervalSummary;
use stalltop::state::{ColorSupport, Event, Key, Position, Setup, Source, State, TerminalCapabilities, TimelineTick, update};
use stalltop::view;

/// A picture of a screen.
struct Picture {
    name: &'static str,
    /// File in assets/demo or tests/recordings/lab
    recording: &'static str,
    size: (u16, u16),
    /// The keys that lead to it
    keys: &'static str,
}

const LARGE: (u16, u16) = (120, 40);

const SMALL: (u16, u16) = (100, 24);

const PICTURES: [Picture; 12] = [
    Picture { name: "overview", recording: "1-blocked-database", size: SMALL, keys: "" },
    Picture { name: "one-thread", recording: "2-saturated-thread", size: SMALL, keys: "2" },
    Picture { name: "one-disk", recording: "3-slow-disk", size: SMALL, keys: "3\n" },
    Picture { name: "blocked-database", recording: "1-blocked-database", size: LARGE, keys: "" },
    Picture { name: "who-waits-for-whom", recording: "1-blocked-database", size: (100, 40), keys: "6\n" },
    Picture { name: "saturated-thread", recording: "2-saturated-thread", size: LARGE, keys: "2" },
    Picture { name: "slow-disk", recording: "3-slow-disk", size: LARGE, keys: "3" },
    Picture { name: "saturated-nic", recording: "4-saturated-nic", size: LARGE, keys: "4" },
    Picture { name: "throttled-container", recording: "5-throttled-container", size: (120, 32), keys: "7" },
    Picture { name: "cgroup", recording: "5-throttled-container", size: (100, 24), keys: "7\n" },
    Picture { name: "thrashing", recording: "14-memory-thrash", size: (100, 24), keys: "6\n" },
    Picture { name: "harmless-load", recording: "6-harmless-load", size: (80, 24), keys: "" },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The replay of a recording, shortly before its end.
fn replay(file: &Path, terminal: TerminalCapabilities, size: (u16, u16)) -> State {
    let evaluations: Vec<Evaluation> = EvaluatedRecording::open(file, &Settings::default()).expect("a recording").collect();
    let shown = evaluations.len().checked_sub(3).expect("a recording of some intervals");
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut state =
        State::new(Setup { terminal, source: Source::Replay { name }, time_zone: TimeZone::UTC, size, interval_ms: 1000 });
    update(
        &mut state,
        Event::Timeline(evaluations.iter().map(|evaluation| TimelineTick::new(evaluation, false, None)).collect()),
    );
    update(&mut state, Event::Summaries(evaluations.iter().map(IntervalSummary::for_graphs).collect()));
    update(&mut state, Event::Findings(evaluations.last().unwrap().active.to_vec()));
    let (first, last) = (evaluations.first().unwrap().interval.at(), evaluations.last().unwrap().interval.at());
    for (index, evaluation) in evaluations.iter().enumerate().take(shown + 1) {
        update(&mut state, Event::Evaluation(evaluation.clone()));
        update(&mut state, Event::Position(Position { index, length: evaluations.len(), first, last }));
    }
    state
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        update(state, Event::Key(if key == '\n' { Key::Enter } else { Key::Char(key) }));
    }
}

fn draw(picture: &Picture) -> String {
    let places = ["assets/demo", "tests/recordings/lab"];
    let mut files = places.iter().map(|place| root().join(place).join(format!("{}.stalltop", picture.recording)));
    let file = files.find(|file| file.exists()).expect("its recording");
    let terminal = TerminalCapabilities { colors: ColorSupport::TrueColor, ..Default::default() };
    let mut state = replay(&file, terminal, picture.size);
    press(&mut state, picture.keys);
    let mut buffer = Buffer::empty(Rect::new(0, 0, picture.size.0, picture.size.1));
    view::render_into(&state, &mut buffer);
    view::svg::svg(&buffer)
}

#[test]
fn the_pictures_are_those_that_the_program_draws() {
    let folder = root().join("docs/screens");
    let mut stale = Vec::new();
    for picture in &PICTURES {
        let (path, drawn) = (folder.join(format!("{}.svg", picture.name)), draw(picture));
        if std::env::var_os("STALLTOP_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &drawn).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != drawn {
            stale.push(picture.name);
        }
    }
    assert!(stale.is_empty(), "stale pictures: {stale:?}: STALLTOP_BLESS=1 cargo test --test pictures");
}

#[test]
fn each_picture_is_drawn_by_this_test_and_shown_in_the_docs() {
    let mut pages = vec![root().join("README.md"), root().join("docs/screens.md")];
    pages.extend(fs::read_dir(root().join("docs/symptoms")).unwrap().map(|entry| entry.unwrap().path()));
    let pages: String = pages.iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    for picture in &PICTURES {
        assert!(pages.contains(&format!("screens/{}.svg", picture.name)), "{} is shown nowhere", picture.name);
    }
    for file in fs::read_dir(root().join("docs/screens")).unwrap() {
        let file = file.unwrap().file_name().into_string().unwrap();
        assert!(PICTURES.iter().any(|picture| file == format!("{}.svg", picture.name)), "nothing draws {file}");
    }
}

/// The demo is in every copy of the program, and so are these in every clone.
#[test]
fn the_pictures_are_small() {
    let sizes = fs::read_dir(root().join("docs/screens")).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(sizes.sum::<u64>() <= 1_000_000);
}
