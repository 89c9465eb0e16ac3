//! The real program in a real pseudo-terminal: the screen appears, follows keys and sizes, and the terminal is given back
//! whatever ends it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "pty/harness.rs"]
mod harness;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use harness::{Session, prepared, program, stalltop};
use nix::sys::signal::Signal;
use portable_pty::CommandBuilder;

#[test]
fn q_ends_it() {
    let mut session = Session::live(80, 24);
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn control_c_ends_it() {
    let mut session = Session::live(80, 24);
    session.type_keys("\x03");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn signals_end_it() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        let mut session = Session::live(80, 24);
        session.signal(signal);
        let status = session.ended();
        assert_eq!((status.exit_code(), status.signal()), (0, None), "{signal}");
        session.is_given_back();
    }
}

#[test]
fn every_screen_has_its_key() {
    for (columns, rows) in [(80, 24), (200, 50)] {
        let mut session = Session::live(columns, rows);
        // Words that no other screen has, and that stand there on a quiet machine too.
        let screens =
            [("2", "HOT THREADS"), ("3", "KB/req"), ("4", "OutSeg"), ("5", "processes"), ("6", "FINDINGS"), ("1", "LOAD")];
        for (key, text) in screens {
            session.type_keys(key);
            session.until_text(text);
        }
        session.type_keys("?");
        session.until_text("pause / go on");
        session.type_keys("\x1b");
        session.until("no help", |screen| !screen.contents().contains("pause / go on"));
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    }
}

#[test]
fn it_follows_the_size() {
    let mut session = Session::live(80, 24);
    session.resize(40, 10);
    session.until("a small screen", |screen| !screen.contents().trim().is_empty());
    session.resize(200, 50);
    session.until("a large screen", |screen| screen.rows(0, 200).last().is_some_and(|row| row.contains("overview")));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn a_storm_of_sizes_and_noise_leaves_a_whole_screen() {
    let mut session = Session::live(80, 24);
    let mut noise = 7_u32;
    for round in 0..300 {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (columns, rows) = ((noise >> 8) % 120 + 1, (noise >> 20) % 40 + 1);
        session.resize(columns as u16, rows as u16);
        // Screens, moves, half sequences, the mouse, bytes that are no text: nothing that quits or asks for text.
        session.type_keys(
            ["1", "2", "3", "4", "5", "6", "j", "\x1b[B", "\x1b[1;", "\x1b[<64;3;3M", "\x1b[<0;5;5M", "\u{9b}"][round % 12],
        );
    }
    session.resize(1, 1);
    session.resize(80, 24);
    // An escape before a key is Alt: the first 1 is lost with it.
    session.type_keys("\x1b");
    session.type_keys("11");
    session.until("an overview", |screen| screen.contents().contains("LOAD") && screen.contents().contains("help"));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn more_keys_than_one_read_takes_are_all_heard() {
    let mut session = Session::live(80, 24);
    session.type_keys(&("25".repeat(1500) + "6"));
    session.until("the findings", |screen| screen.contents().contains("FINDINGS"));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_terminal_that_is_gone_ends_it_at_once() {
    // Under sudo or nohup no SIGHUP comes: the end of the line must be seen by itself.
    for ignored in [false, true] {
        let program = program();
        let trap = if ignored { "trap '' HUP; " } else { "" };
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", &format!("{trap}exec '{program}'")]);
        let mut session = Session::start(prepared(command), 80, 24);
        session.until_text("busy");
        let before = session.ticks().unwrap();
        session.hang_up();
        let begun = Instant::now();
        let mut after = before;
        while session.child.try_wait().unwrap().is_none() {
            after = session.ticks().unwrap_or(after);
            assert!(after - before < 50, "it spins without a terminal");
            assert!(begun.elapsed() < harness::DEADLINE, "it goes on without a terminal");
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = session.ended();
        assert_eq!(status.signal().filter(|signal| ignored || !signal.contains("angup")), None, "{status:?}");
    }
}

#[test]
fn a_terminal_that_stands_still_stops_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stalltop(&["-i", "100ms"]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 200, 50);
    session.until_text("busy");
    session.type_keys("R");
    session.until_text("rec");
    let resident = |session: &Session| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", session.pid())).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        resident.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let kib_before = resident(&session);
    session.stall();
    // Whole frames, many times what a pseudo-terminal holds.
    for _ in 0..100 {
        session.type_keys("2\x0c5\x0c");
    }
    let size = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let (begun, before) = (Instant::now(), size());
    while size() < before + 20_000 {
        assert!(begun.elapsed() < harness::DEADLINE, "recording stands still with the terminal");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Frames that wait would be tens of megabytes; how many tasks this machine has is not the terminal's doing.
    let kib = resident(&session);
    assert!(kib < kib_before + (40 << 10), "{kib} KiB after {kib_before}");
    session.signal(Signal::SIGTERM);
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_fault_of_its_own_gives_the_terminal_back_before_it_is_told() {
    if !cfg!(debug_assertions) || std::env::var_os("STALLTOP_BIN").is_some() {
        println!("skipped: a release build has no rehearsed panics");
        return;
    }
    for place in ["screen", "sampling"] {
        let mut command = stalltop(&[]);
        command.env("STALLTOP_PANIC", place);
        let mut session = Session::start(command, 80, 24);
        assert_eq!(session.ended().exit_code(), 1, "{place}");
        session.is_given_back();
        session.until_text("please report it");
        let bytes = String::from_utf8_lossy(&session.bytes()).into_owned();
        let told = bytes.find("a fault of stalltop itself").unwrap();
        // It may have come before there was a screen.
        let last = |sequence: &str| bytes[..told].rfind(sequence);
        assert!(last("\x1b[?1049h") <= last("\x1b[?1049l"), "{place}: told on a screen that was about to vanish");
        assert!(!bytes[told..].contains("\x1b[?1049h"), "{place}: a screen was shown after that");
        assert!(!bytes.contains("panicked at"), "{place}: {bytes}");
        assert_eq!(bytes.matches("please report it").count(), 1, "{place}");
    }
}

#[test]
fn control_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again() {
    let mut command = CommandBuilder::new("/bin/bash");
    command.args(["--norc", "--noprofile", "-i"]);
    let mut command = prepared(command);
    command.env("PS1", "ready> ");
    let mut session = Session::start(command, 80, 24);
    session.until_text("ready>");
    session.type_keys(&format!("'{}'\n", program()));
    session.until("figures", |screen| screen.alternate_screen() && screen.contents().contains("busy"));
    for _ in 0..2 {
        session.type_keys("\x1a");
        session.until("shell", |screen| !screen.alternate_screen() && screen.contents().contains("Stopped"));
        session.type_keys("stty -a | grep -c ' icanon'\n");
        session.until("cooked mode", |screen| screen.contents().lines().any(|line| line.trim() == "1"));
        session.type_keys("clear; fg\n");
        session.until("figures again", |screen| screen.alternate_screen() && screen.contents().contains("busy"));
    }
    session.type_keys("q");
    session.until("shell", |screen| !screen.alternate_screen() && screen.contents().contains("ready>"));
    session.type_keys("exit\n");
    session.ended();
}

#[test]
fn a_recording_is_replayed_on_the_same_screens() {
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
    session.is_given_back();
}

#[test]
fn a_replay_begins_where_it_is_told_to() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/lab/15-lock-convoy.stalltop");
    for (at, place) in [("-2s", "9/11"), ("+5s", "7/11")] {
        let mut session = Session::start(stalltop(&["replay", file, "--at", at, "--speed", "0.01"]), 80, 24);
        session.until_text(place);
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    }
}

#[test]
fn a_growing_recording_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("growing.stalltop");
    let mut recorder =
        std::process::Command::new(program()).args(["record", "-i", "100ms", "--for", "60s"]).arg(&file).spawn().unwrap();
    let begun = Instant::now();
    while std::fs::metadata(&file).map_or(0, |metadata| metadata.len()) < 5000 {
        assert!(begun.elapsed() < harness::DEADLINE, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut session = Session::start(stalltop(&["replay", file.to_str().unwrap()]), 100, 24);
    // The head line says which interval of how many is shown.
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
    session.is_given_back();
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let mut command = stalltop(&["-i", "100ms"]);
    command.env("TERM", "dumb");
    let mut session = Session::start(command, 80, 24);
    session.until_text("CPUs busy");
    assert!(!session.bytes().contains(&0x1b));
    session.signal(Signal::SIGINT);
    session.ended();
}

#[test]
fn a_stream_is_watched_as_it_comes_while_keys_come_from_the_terminal() {
    let program = program();
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", &format!("'{program}' record -i 200ms - | '{program}' replay -")]);
    let mut session = Session::start(prepared(command), 80, 24);
    session.until("a replay", |screen| screen.contents().contains("REPLAY") && screen.contents().contains("busy"));
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
    assert!(!session.contents().contains("stalltop:"), "the recorder complained:\n{}", session.contents());
}

#[test]
fn what_has_just_happened_can_be_saved() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stalltop(&["-i", "200ms"]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 120, 30);
    session.until_text("busy");
    session.type_keys("w");
    session.until_text("saved");
    session.type_keys("q");
    session.ended();
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let info = std::process::Command::new(program()).args(["info", "--verify"]).arg(&files[0]).output().unwrap();
    assert!(info.status.success(), "{info:?}");
}

#[test]
fn an_ordinary_user_sees_less_and_no_error() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: becoming somebody else needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("stalltop");
    std::fs::copy(program(), &copy).unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = CommandBuilder::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(&copy);
    let mut command = prepared(command);
    command.cwd("/");
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

/// Bytes from a seed.
struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u8
    }
}

#[test]
fn any_bytes_are_keys_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stalltop(&[]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    let mut noise = Noise(11);
    for _ in 0..64 {
        // All but what ends it, stops it or writes files: Ctrl-C, Ctrl-Z, q, R, w.
        let bytes: Vec<u8> = (0..256).map(|_| noise.byte()).filter(|byte| !b"\x03\x1aqQRw".contains(byte)).collect();
        session.type_bytes(&bytes);
    }
    // Whatever it stands in: out of a half sequence, out of a prompt, out of help.
    session.type_keys("\x1b\\\x1b");
    session.type_keys("\x1b\x1b");
    session.type_keys("\x1b");
    session.type_keys("11");
    session.until_text("LOAD");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn a_megabyte_pasted_is_not_typed() {
    let mut session = Session::live(80, 24);
    session.type_keys("\x1b[200~");
    for _ in 0..256 {
        session.type_keys(&"q5".repeat(2048));
    }
    session.type_keys("\x1b[201~");
    session.type_keys("6");
    session.until_text("FINDINGS");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn without_a_type_the_terminal_gets_lines_and_a_replay_is_refused() {
    for term in ["", "dumb"] {
        let mut command = stalltop(&["-i", "100ms"]);
        command.env("TERM", term);
        let mut session = Session::start(command, 80, 24);
        session.until_text("CPUs busy");
        assert!(!session.bytes().contains(&0x1b), "TERM={term:?}");
        session.signal(Signal::SIGINT);
        session.ended();
        let mut command = stalltop(&["replay", "x.stalltop"]);
        command.env("TERM", term);
        let mut session = Session::start(command, 200, 24);
        assert_eq!(session.ended().exit_code(), 2, "TERM={term:?}");
        session.until_text("cannot replay");
    }
    // One that nobody knows is taken for one of today.
    let mut command = stalltop(&[]);
    command.env("TERM", "nobody-knows-this");
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn standard_input_that_is_no_terminal_ends_nothing() {
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", &format!("exec '{}' < /dev/null", program())]);
    let mut session = Session::start(prepared(command), 80, 24);
    session.until_text("busy");
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.is_given_back();
}

#[test]
fn no_color_and_a_plain_locale_are_kept_to() {
    let mut command = stalltop(&[]);
    command.env("NO_COLOR", "1");
    command.env("LC_ALL", "C");
    command.env("TZ", "No/Such_Zone");
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    let text = String::from_utf8(session.bytes()).unwrap();
    assert!(text.is_ascii(), "only ASCII: {text:?}");
    for sequence in text.split("\x1b[").skip(1) {
        let Some((parameters, _)) = sequence.split_once('m') else { continue };
        if parameters.bytes().all(|byte| byte.is_ascii_digit() || byte == b';') {
            let coloured =
                |number: &str| number.parse::<u32>().is_ok_and(|n| (30..=38).contains(&n) || (40..=48).contains(&n) || n >= 90);
            assert!(!parameters.split(';').any(coloured), "a colour: {parameters}");
        }
    }
}

#[test]
fn who_asks_for_all_characters_gets_them_in_any_locale() {
    let mut command = stalltop(&["--unicode"]);
    command.env("LC_ALL", "C");
    let mut session = Session::start(command, 80, 24);
    session.until_text("blocked-idle");
    session.until_text("────");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}
