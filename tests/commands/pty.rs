//! The program in a pseudo-terminal: the screen appears, follows keys and sizes, and the terminal is restored however it ends.

mod multiplexers;
mod replay;
mod saved_files;
mod signals;
mod terminal_types;

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::executable::copy_executable;
use crate::harness::{Session, at_once, prepared, program, stalltop};
use crate::until::until;
use nix::sys::signal::Signal;
use portable_pty::CommandBuilder;

#[test]
fn q_quits() {
    let mut session = Session::live(80, 24);
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn control_c_quits() {
    let mut session = Session::live(80, 24);
    session.type_keys("\x03");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn signals_quit() {
    at_once([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT], |signal| {
        let mut session = Session::live(80, 24);
        session.signal(signal);
        let status = session.ended();
        assert_eq!((status.exit_code(), status.signal()), (0, None), "{signal}");
        session.terminal_is_restored();
    });
}

#[test]
fn every_screen_has_its_key() {
    at_once([(80, 24), (200, 50)], |(columns, rows)| {
        let mut session = Session::live(columns, rows);
        // Texts that only this screen has, also on a quiet machine.
        let screens = [
            ("2", "HOT THREADS"),
            ("3", "KB/req"),
            ("4", "OutSeg"),
            ("5", "processes"),
            ("6", "before"),
            ("7", "300 s"),
            ("1", "LOAD"),
        ];
        for (key, text) in screens {
            session.type_keys(key);
            session.until_text(text);
        }
        session.type_keys("?");
        session.until_text("pause / resume");
        session.type_keys("\x1b");
        session.until("no help", |screen| !screen.contents().contains("pause / resume"));
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    });
}

#[test]
fn a_resize_redraws() {
    let mut session = Session::live(80, 24);
    session.resize(40, 10);
    session.until("a small screen", |screen| !screen.contents().trim().is_empty());
    session.resize(200, 50);
    session.until("a large screen", |screen| screen.rows(0, 200).last().is_some_and(|row| row.contains("overview")));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn many_resizes_and_random_input_leave_a_valid_screen() {
    let mut session = Session::live(80, 24);
    let mut noise = 7_u32;
    for round in 0..300 {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (columns, rows) = match round % 10 {
            0 => (500, 150),
            1 => (1, 1),
            _ => ((noise >> 8) % 120 + 1, (noise >> 20) % 40 + 1),
        };
        session.resize(columns as u16, rows as u16);
        // Screens, moves, incomplete sequences, the mouse, invalid text: nothing that quits or opens a prompt.
        session.type_keys(
            ["1", "2", "3", "4", "5", "6", "j", "\x1b[B", "\x1b[1;", "\x1b[<64;3;3M", "\x1b[<0;5;5M", "\u{9b}"][round % 12],
        );
    }
    session.resize(1, 1);
    session.resize(80, 24);
    // Escape before a key is Alt: the first 1 is lost.
    session.type_keys("\x1b");
    session.type_keys("11");
    session.until("an overview", |screen| screen.contents().contains("LOAD") && screen.contents().contains("help"));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn input_longer_than_one_read_is_complete() {
    let mut session = Session::live(80, 24);
    session.type_keys(&("25".repeat(1500) + "6"));
    session.until("the findings", |screen| screen.contents().contains("FINDINGS"));
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_manual_page_is_not_printed_on_a_terminal() {
    let mut session = Session::start(stalltop(&["man", "check"]), 100, 24);
    session.until_text("try 'stalltop man check | man -l -'");
    assert!(!session.contents().contains(".TH"), "{}", session.contents());
}

#[test]
fn a_closed_terminal_ends_the_program() {
    // Under sudo or nohup there is no SIGHUP: the end of file must end the program.
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
            assert!(after - before < 50, "busy loop without a terminal");
            assert!(begun.elapsed() < crate::harness::DEADLINE, "still running without a terminal");
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = session.ended();
        assert_eq!((status.exit_code(), status.signal()), (0, None), "SIGHUP ignored: {ignored}");
    }
}

#[test]
fn a_blocked_terminal_does_not_stop_recording() {
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
    // Full redraws, many times the size of the pseudo-terminal's buffer.
    for _ in 0..100 {
        session.type_keys("2\x0c5\x0c");
    }
    let size = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    let before = size();
    until("the recording grows", || size() >= before + 20_000);
    // Queued frames would take tens of megabytes.
    let kib = resident(&session);
    assert!(kib < kib_before + (40 << 10), "{kib} KiB after {kib_before}");
    session.signal(Signal::SIGTERM);
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_panic_restores_the_terminal_before_its_message() {
    if !cfg!(debug_assertions) || std::env::var_os("STALLTOP_BIN").is_some() {
        println!("skipped: a release build has no test panics");
        return;
    }
    for place in ["screen", "sampling"] {
        let mut command = stalltop(&[]);
        command.env("STALLTOP_PANIC", place);
        let mut session = Session::start(command, 80, 24);
        assert_eq!(session.ended().exit_code(), 1, "{place}");
        session.terminal_is_restored();
        session.until_text("please report it");
        let bytes = String::from_utf8_lossy(&session.bytes()).into_owned();
        let told = bytes.find("internal error at ").unwrap();
        // The panic may come before the first frame.
        let last = |sequence: &str| bytes[..told].rfind(sequence);
        assert!(last("\x1b[?1049h") <= last("\x1b[?1049l"), "{place}: the message is on the alternate screen");
        assert!(!bytes[told..].contains("\x1b[?1049h"), "{place}: the alternate screen was entered again");
        assert!(!bytes.contains("panicked at"), "{place}: {bytes}");
        assert_eq!(bytes.matches("please report it").count(), 1, "{place}");
    }
}

#[test]
fn control_z_suspends_and_fg_resumes() {
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
fn the_palette_and_the_mouse_work() {
    let mut session = Session::live(120, 30);
    session.type_keys(":");
    session.until_text("Actions, screens, findings");
    session.type_keys("screen net\r");
    session.until_text("NET ");
    // A press of the left button on `5 tasks` in the last line.
    let column = session.contents().lines().last().unwrap().find("5 tasks").unwrap() + 1;
    session.type_bytes(format!("\x1b[<0;{column};30M\x1b[<0;{column};30m").as_bytes());
    session.until_text("TASKS ");
    // A press on the timeline, and a drag to the right beyond its end.
    session.until("an interval at the place of the press", |screen| {
        screen.cell(28, 111).is_some_and(|cell| !cell.contents().trim().is_empty())
    });
    session.type_bytes(b"\x1b[<0;112;29M\x1b[<32;113;29M\x1b[<32;112;20M\x1b[<0;112;20m");
    session.until_text("PAUSED");
    session.type_keys(":quit\r");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn an_unprivileged_user_gets_no_error() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: changing the user needs root");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("stalltop");
    copy_executable(program(), &copy);
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
    session.terminal_is_restored();
    let said = String::from_utf8_lossy(&session.bytes()).into_owned();
    for error in ["stalltop: ", "Permission denied"] {
        assert!(!said.contains(error), "{said}");
    }
}

/// Pseudo-random bytes.
struct Noise(u64);

impl Noise {
    fn byte(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u8
    }
}

#[test]
fn random_bytes_are_keys_or_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stalltop(&[]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    let mut noise = Noise(11);
    // A million bytes; fewer for a slow debug build.
    let is_debug_build = cfg!(debug_assertions) && std::env::var_os("STALLTOP_BIN").is_none();
    for _ in 0..if is_debug_build { 256 } else { 4096 } {
        // All bytes but those that quit, suspend or write files: Ctrl-C, Ctrl-Z, q, R, w.
        let bytes: Vec<u8> = (0..256).map(|_| noise.byte()).filter(|byte| !b"\x03\x1aqQRw".contains(byte)).collect();
        session.type_bytes(&bytes);
    }
    // Leaves an incomplete sequence, a prompt, help.
    session.type_keys("\x1b\\\x1b");
    session.type_keys("\x1b\x1b");
    session.type_keys("\x1b");
    session.type_keys("11");
    // The overview, whichever pane the noise has left zoomed.
    session.until_text("1 over");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn pasted_text_is_ignored() {
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
    session.terminal_is_restored();
}
