//! docs/screens/*.svg: screens drawn by the program from the recordings of `stalltop demo`. `STALLTOP_BLESS=1 cargo test --test
//! pictures` draws them anew.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail loudly")]

use std::fs;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use stalltop::app::config::Settings;
use stalltop::app::evaluated_recording::EvaluatedRecording;
use stalltop::state::{ColorSupport, Event, Key, Setup, Source, State, TerminalCapabilities, update};
use stalltop::view;

/// A picture: its name, the recording, the size, and the keys that lead to it.
const PICTURES: [(&str, &str, (u16, u16), &str); 8] = [
    ("blocked-database", "1-blocked-database", (120, 40), ""),
    ("who-waits-for-whom", "1-blocked-database", (120, 40), "6\n"),
    ("saturated-thread", "2-saturated-thread", (120, 40), "2"),
    ("slow-disk", "3-slow-disk", (120, 40), "3\n"),
    ("saturated-nic", "4-saturated-nic", (120, 40), "4"),
    ("throttled-container", "5-throttled-container", (120, 40), "7"),
    ("limits-of-a-cgroup", "5-throttled-container", (120, 40), "7\n"),
    ("harmless-load", "6-harmless-load", (80, 24), ""),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn draw(recording: &str, size: (u16, u16), keys: &str) -> String {
    let file = root().join("assets/demo").join(format!("{recording}.stalltop"));
    let evaluations = EvaluatedRecording::open(&file, &Settings::default()).expect("a recording of the demo");
    let terminal = TerminalCapabilities { colors: ColorSupport::TrueColor, ..TerminalCapabilities::default() };
    let source = Source::Replay { name: recording.to_owned() };
    let mut state = State::new(Setup { terminal, source, time_zone: TimeZone::UTC, size, interval_ms: 1000 });
    for evaluation in evaluations {
        update(&mut state, Event::Evaluation(evaluation));
    }
    for key in keys.chars() {
        let key = if key == '\n' { Key::Enter } else { Key::Char(key) };
        update(&mut state, Event::Key(key));
    }
    let mut buffer = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    view::render_into(&state, &mut buffer);
    view::svg::svg(&buffer)
}

#[test]
fn the_pictures_are_those_that_the_program_draws() {
    let folder = root().join("docs/screens");
    let mut stale = Vec::new();
    for (name, recording, size, keys) in PICTURES {
        let (path, drawn) = (folder.join(format!("{name}.svg")), draw(recording, size, keys));
        if std::env::var_os("STALLTOP_BLESS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &drawn).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != drawn {
            stale.push(name);
        }
    }
    assert!(stale.is_empty(), "stale pictures: {stale:?}: STALLTOP_BLESS=1 cargo test --test pictures");
    let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let unknown: Vec<String> = names.filter(|file| !PICTURES.iter().any(|(name, ..)| *file == format!("{name}.svg"))).collect();
    assert!(unknown.is_empty(), "pictures that nothing draws: {unknown:?}");
}
