//! `fleet --copy`: to hosts that lack stalltop, checked, and removed at the end.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use portable_pty::CommandBuilder;
use serde_json::Value;

use super::host_script::Hosts;
use crate::harness::{Session, prepared, program};
use crate::until::until;

/// A host that has no `stalltop-nowhere`; its temporary directory is `tmp` of the test.
fn run(hosts: &Hosts, words: &str) -> (Value, String, Option<i32>) {
    let temporary = hosts.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = hosts.command(&format!("{words} --json --for 400ms"), "stalltop-nowhere");
    command.arg(format!("--copy={}", program())).env("TMPDIR", &temporary);
    let output = command.output().unwrap();
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (report, String::from_utf8(output.stderr).unwrap(), output.status.code())
}

#[test]
fn a_copy_records_and_is_removed() {
    let hosts = Hosts::new();
    let (report, words, _) = run(&hosts, "web1 banner1 --yes");
    assert_eq!(words, "");
    for host in report["hosts"].as_array().unwrap() {
        assert!(host["error"].is_null() && host["figures"]["busy_ratio"].is_number(), "{host}");
    }
}

#[test]
fn a_copy_that_is_not_what_was_sent_is_not_run() {
    let hosts = Hosts::new();
    let (report, words, code) = run(&hosts, "corrupt1 refused1 --yes");
    assert!(words.contains("corrupt1: not copied: the copy is not what was sent: SHA-256 "), "{words}");
    assert!(report["hosts"][0]["error"].as_str().unwrap().contains("not found"), "{report}");
    assert_eq!(code, Some(3));
}

#[test]
fn nothing_is_copied_without_an_answer() {
    let (report, words, code) = run(&Hosts::new(), "web1");
    assert!(report.is_null() && words.contains("standard input is not a terminal: --yes"), "{words}");
    assert_eq!(code, Some(3));
}

#[test]
fn a_host_that_has_stalltop_is_not_asked_about() {
    let hosts = Hosts::new();
    let place = hosts.path("stalltop");
    std::os::unix::fs::symlink(program(), &place).unwrap();
    std::fs::set_permissions(hosts.directory.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let mut command = hosts.command("web1 --json --for 400ms --copy", place.to_str().unwrap());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert!(report["hosts"][0]["error"].is_null() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_signal_while_it_is_copied_leaves_no_copy() {
    let hosts = Hosts::new();
    let temporary = hosts.path("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    let mut command = hosts.command("stalled1 web1 --yes --json", "stalltop-nowhere");
    command.arg(format!("--copy={}", program())).env("TMPDIR", &temporary);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("it is copied", || hosts.path("copying").exists());
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), words.as_str()), (Some(3), "stalltop: stopped by a signal\n"));
    until("no copy is left", || std::fs::read_dir(&temporary).unwrap().next().is_none());
}

#[test]
fn a_signal_ends_the_question() {
    let hosts = Hosts::new();
    let mut command = CommandBuilder::new(program());
    command.args(hosts.arguments_with_remote("web1 --once", "stalltop-nowhere"));
    command.arg(format!("--copy={}", program()));
    let mut session = Session::start(prepared(command), 120, 24);
    session.until_text("[y/N]");
    session.signal(Signal::SIGTERM);
    session.until_text("stopped by a signal");
    assert_eq!(session.ended().exit_code(), 3);
}
