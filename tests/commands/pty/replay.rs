//! The screens of recordings in a pseudo-terminal: a file, one that grows, a pipe; a span of it is saved.

use crate::harness::{Session, prepared, program, stalltop};
use crate::until::until;
use portable_pty::CommandBuilder;

#[test]
fn replay_has_the_same_screens() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("short.stalltop");
    let recorded =
        std::process::Command::new(program()).args(["record", "--for", "2s", "-i", "200ms"]).arg(&file).output().unwrap();
    assert!(recorded.status.success(), "{recorded:?}");
    let mut session = Session::start(stalltop(&["replay", file.to_str().unwrap()]), 80, 24);
    session.until("a replay", |screen| screen.contents().contains("REPLAY") && screen.contents().contains("busy"));
    session.type_keys(" ");
    session.type_keys("[");
    session.type_keys("]");
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn replay_starts_at_the_given_time() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/lab/15-lock-convoy.stalltop");
    for (at, place) in [("-2s", "9/11"), ("+5s", "7/11")] {
        let mut session = Session::start(stalltop(&["replay", file, "--at", at, "--speed", "0.01"]), 80, 24);
        session.until_text(place);
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    }
}

#[test]
fn replay_follows_a_growing_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("growing.stalltop");
    let mut recorder =
        std::process::Command::new(program()).args(["record", "-i", "100ms", "--for", "60s"]).arg(&file).spawn().unwrap();
    until("samples are recorded", || std::fs::metadata(&file).is_ok_and(|metadata| metadata.len() >= 5000));
    let mut session = Session::start(stalltop(&["replay", file.to_str().unwrap()]), 100, 24);
    // Position and length in the header.
    let place = |contents: &str| -> Option<(u64, u64)> {
        let (shown, all) = contents.lines().next()?.split_whitespace().find_map(|word| word.split_once('/'))?;
        Some((shown.parse().ok()?, all.parse().ok()?))
    };
    session.until("a place", |screen| place(&screen.contents()).is_some());
    let (_, before) = place(&session.contents()).unwrap();
    session.until("the end as it moves", |screen| {
        place(&screen.contents()).is_some_and(|(shown, all)| all > before + 5 && shown + 3 >= all)
    });
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    session.until_text("end");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn replay_of_a_pipe_reads_keys_from_the_terminal() {
    let program = program();
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", &format!("'{program}' record -i 200ms - | '{program}' replay -")]);
    let mut session = Session::start(prepared(command), 80, 24);
    session.until("a replay", |screen| screen.contents().contains("REPLAY") && screen.contents().contains("busy"));
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
    assert!(!session.contents().contains("stalltop:"), "an error of the recorder:\n{}", session.contents());
}

#[test]
fn v_and_w_save_a_span() {
    let directory = tempfile::tempdir().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/lab/15-lock-convoy.stalltop");
    let mut command = stalltop(&["replay", file, "--at", "+3s", "--speed", "0.01"]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 120, 24);
    session.until_text("REPLAY");
    session.type_keys("v]]");
    session.until("a span of three intervals", |screen| {
        let head = screen.rows(0, 120).next().unwrap_or_default();
        head.contains("SPAN") && head.trim_end().ends_with("(3 s)")
    });
    session.type_keys("w");
    session.until_text("saved the span: 4 samples");
    session.type_keys("\x1b");
    session.until_text("REPLAY");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let info = std::process::Command::new(program()).args(["info", "--verify"]).arg(&files[0]).output().unwrap();
    let text = String::from_utf8_lossy(&info.stdout).into_owned();
    assert!(info.status.success() && text.contains("4 samples"), "{info:?}");
}
