//! Kinds of terminals: dumb ones, consoles, slow lines, other encodings, and none.

use crate::harness::{Session, at_once, prepared, program, stalltop};
use nix::sys::signal::Signal;
use portable_pty::CommandBuilder;
use std::time::Duration;

#[test]
fn a_dumb_terminal_gets_plain_lines() {
    let mut command = stalltop(&["-i", "100ms"]);
    command.env("TERM", "dumb");
    let mut session = Session::start(command, 80, 24);
    session.until_text("CPUs busy");
    assert!(!session.bytes().contains(&0x1b));
    session.signal(Signal::SIGINT);
    session.ended();
}

#[test]
fn a_slow_line_gets_few_frames_without_graphs() {
    let program = program();
    let scripts = [format!("stty 9600; exec '{program}' -i 100ms"), format!("exec '{program}' -i 100ms --slow")];
    at_once(scripts, |script| {
        let mut command = CommandBuilder::new("/bin/sh");
        command.args(["-c", &script]);
        let mut session = Session::start(prepared(command), 200, 50);
        session.until_text("LOAD");
        assert!(!session.contents().contains("CPU, last"), "graphs:\n{}", session.contents());
        let before = session.bytes().len();
        session.type_keys("5");
        session.until_text("processes");
        std::thread::sleep(Duration::from_secs(4));
        let bytes = session.bytes().len() - before;
        assert!(bytes < 9600 * 5, "{bytes} bytes in four seconds");
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
    });
}

#[test]
fn consoles_and_other_encodings_get_ascii() {
    at_once([("TERM", "linux"), ("TERM", "vt220"), ("LC_ALL", "de_DE.ISO-8859-1"), ("LC_ALL", "POSIX")], |(name, value)| {
        let mut command = stalltop(&[]);
        command.env(name, value);
        if name == "TERM" {
            command.env("LANG", "");
        }
        let mut session = Session::start(command, 80, 24);
        session.until_text("busy");
        session.type_keys("3");
        session.until_text("KB/req");
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
        assert!(session.bytes().is_ascii(), "{name}={value}");
    });
    at_once(["screen", "screen-256color", "tmux-256color", "xterm"], |term| {
        let mut command = stalltop(&[]);
        command.env("TERM", term);
        let mut session = Session::start(command, 80, 24);
        session.until_text("busy");
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0, "{term}");
        session.terminal_is_restored();
    });
}

#[test]
fn without_a_terminal_type_lines_are_printed_and_replay_fails() {
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
    // An unknown type is treated as a modern terminal.
    let mut command = stalltop(&[]);
    command.env("TERM", "unknown-terminal");
    let mut session = Session::start(command, 80, 24);
    session.until_text("busy");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn standard_input_may_be_no_terminal() {
    let mut command = CommandBuilder::new("/bin/sh");
    command.args(["-c", &format!("exec '{}' < /dev/null", program())]);
    let mut session = Session::start(prepared(command), 80, 24);
    session.until_text("busy");
    session.type_keys("5");
    session.until_text("processes");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn no_color_and_an_ascii_locale_are_respected() {
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
fn the_unicode_option_overrides_the_locale() {
    let mut command = stalltop(&["--unicode"]);
    command.env("LC_ALL", "C");
    let mut session = Session::start(command, 80, 24);
    session.until_text("blocked-idle");
    session.until_text("── busy");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}
