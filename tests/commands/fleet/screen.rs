//! The screen of the fleet in a pseudo-terminal.

use portable_pty::CommandBuilder;

use super::host_script::Hosts;
use crate::harness::{Session, at_once, prepared, program};

fn start(hosts: &Hosts, words: &str, size: (u16, u16)) -> Session {
    let mut command = CommandBuilder::new(program());
    command.args(hosts.arguments(words));
    let mut command = prepared(command);
    command.cwd(hosts.directory.path());
    Session::start(command, size.0, size.1)
}

/// Whether the row of a host shows its figures, not why there are none: a host without a sample is not opened.
fn has_figures(screen: &str, host: &str) -> bool {
    let row = screen.lines().find(|line| line.split_whitespace().nth(1) == Some(host));
    row.is_some_and(|row| row.split_whitespace().nth(2).is_some_and(|blocked| blocked.parse::<f64>().is_ok()))
}

#[test]
fn enter_opens_a_host_and_escape_comes_back() {
    at_once([(80, 24), (200, 50)], |size| {
        let hosts = Hosts::new();
        let mut session = start(&hosts, "web1 web2 refused1 hanging1", size);
        session.until("figures of two hosts, and why there are none of another", |screen| {
            let text = screen.contents();
            has_figures(&text, "web1") && has_figures(&text, "web2") && text.contains("Connection refused")
        });
        session.until_text("? hanging1 no sample for");
        session.type_keys("/web2\r");
        session.until("the filter", |screen| !screen.contents().contains("refused1"));
        session.type_keys("\r");
        session.until("the overview of the host", |screen| {
            let text = screen.contents();
            text.contains("LOAD") && text.contains("LIVE") && text.contains("TASKS")
        });
        // Its other screens.
        session.type_keys("5");
        session.until_text("processes");
        session.type_keys("\r");
        session.until("the details of a process", |screen| screen.contents().contains("Esc back"));
        session.type_keys("\x1b");
        session.until("the list again", |screen| screen.contents().contains("Esc fleet"));
        session.type_keys("\x1b");
        session.until_text("stalltop fleet  4 hosts");
        session.until("the filter as it was", |screen| screen.contents().contains("filter 'web2'"));
        session.type_keys("\x1b");
        session.until_text("refused1");
        session.type_keys("q");
        assert_eq!(session.ended().exit_code(), 0);
        session.terminal_is_restored();
    });
}

#[test]
fn w_saves_all_hosts() {
    let hosts = Hosts::new();
    let mut session = start(&hosts, "web1 web2", (120, 40));
    session.until("figures of both hosts", |screen| ["web1", "web2"].iter().all(|host| has_figures(&screen.contents(), host)));
    session.type_keys("w");
    session.until_text("of 2 hosts");
    session.until_text("stalltop fleet --replay");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    let mut saved = std::fs::read_dir(hosts.directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let saved = saved.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("fleet-")).unwrap();
    assert_eq!(std::fs::read_dir(&saved).unwrap().count(), 2);
    // They are replayed together.
    let mut command = CommandBuilder::new(program());
    command.args(["fleet", "--replay", saved.to_str().unwrap()]);
    let mut session = Session::start(prepared(command), 120, 40);
    session.until_text("REPLAY");
    session.until_text("web2");
    session.type_keys(" ");
    session.until_text("REPLAY ‖");
    session.type_keys("]\r");
    session.until("the replay of a host", |screen| screen.contents().contains("1 overview"));
    session.type_keys("\x1b");
    session.until_text("stalltop fleet");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_small_terminal_and_a_signal_are_survived() {
    let hosts = Hosts::new();
    let mut session = start(&hosts, "web1 garbage1 text1", (80, 24));
    session.until_text("web1");
    session.resize(30, 5);
    session.until_text("needs");
    session.resize(40, 8);
    session.until_text("web1");
    session.resize(200, 50);
    session.until_text("you may not enter");
    session.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}

#[test]
fn a_damaged_recording_does_not_end_the_fleet() {
    let directory = tempfile::tempdir().unwrap();
    let lab = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/lab");
    let mut bytes = std::fs::read(lab.join("15-lock-convoy.stalltop")).unwrap();
    std::fs::write(directory.path().join("intact.stalltop"), &bytes).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0);
    std::fs::write(directory.path().join("damaged.stalltop"), &bytes).unwrap();
    let mut command = CommandBuilder::new(program());
    command.args(["fleet", "--replay", directory.path().to_str().unwrap()]);
    let mut session = Session::start(prepared(command), 160, 30);
    session.until_text("REPLAY");
    session.type_keys("/damaged\r");
    session.until("the filter", |screen| !screen.contents().contains("intact"));
    session.type_keys("\r");
    session.until_text("damaged in ");
    session.type_keys("\x1b");
    session.until_text("the recording is damaged at byte");
    session.until_text("stalltop fleet  2 hosts");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
}
