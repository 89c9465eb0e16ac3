//! Wrong arguments, closed pipes, a full disk.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use crate::made::{Machine, run, stalltop};
use crate::output::{is_one_line, texts_of};

#[test]
fn a_misspelt_column_is_reported_with_the_right_one() {
    let all = "--columns all shows all, docs/tables.md explains them";
    for (option, word, remedy) in [
        ("--columns", "r_awai", "did you mean 'r_await'?"),
        ("--sort", "w_awiat", "did you mean 'w_await'?"),
        ("--columns", "latencey", "did you mean 'latency'?"),
        ("--columns", "al", "did you mean 'all'?"),
        ("--sort", "al", all),
        ("--columns", "zzz", all),
    ] {
        let (code, _, stderr) = run(&["table", "disk", option, word]);
        assert_eq!((code, stderr), (2, format!("stalltop: 'disk' has no column '{word}': {remedy}\n")));
    }
}

#[test]
fn wrong_usage_exits_with_2_and_one_line() {
    let wrong: &[&[&str]] = &[
        &["table"],
        &["table", "nothing"],
        &["table", "cpu", "0"],
        &["table", "cpu", "-1"],
        &["table", "cpu", "text"],
        &["table", "cpu", "NaN"],
        &["table", "cpu", "1e9"],
        &["table", "cpu", "1", "0"],
        &["table", "cpu", "1", "-1"],
        &["table", "cpu", "1", "1.5"],
        &["table", "cpu", "1", "99999999999999"],
        &["table", "cpu", "1", "1", "1"],
        &["table", "cpu", "--format", "xml"],
        &["table", "cpu", "--columns", ""],
        &["table", "cpu", "--columns", "%usr,nonsense"],
        &["table", "cpu", "--sort", "nonsense"],
        &["table", "task", "--top", "0"],
        &["table", "task", "--name", "("],
        &["table", "task", "-p", "x"],
        &["table", "cpu", "-p", "1"],
        &["table", "cpu", "--name", "x"],
        &["table", "cpu", "--at", "12:00"],
        &["table", "cpu", "--for", "0"],
        &["table", "cpu", "--from", "x", "--", "true"],
    ];
    for arguments in wrong {
        let (code, stdout, stderr) = run(arguments);
        assert_eq!((code, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
        assert!(is_one_line(&stderr), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_file_that_is_no_recording_exits_with_4() {
    let (code, stdout, stderr) = run(&["table", "cpu", "--from", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    assert_eq!((code, stdout.as_str()), (4, ""), "{stderr}");
    assert!(is_one_line(&stderr));
}

#[test]
fn a_full_disk_exits_with_1_and_one_line() {
    let recording = Machine::default().record(5);
    for format in ["text", "csv", "json", "parseable"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = stalltop(&["table", "cpu", "--total", "--format", format, "--from", recording.path()]);
        let (code, _, stderr) = texts_of(&command.stdout(full).output().unwrap());
        assert_eq!(code, 1, "{stderr}");
        assert!(is_one_line(&stderr) && stderr.contains("No space left"), "{stderr}");
    }
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let recording = Machine::default().record(2000);
    let mut child = stalltop(&["table", "core", "--total", "--columns", "all", "--from", recording.path()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let (code, _, stderr) = texts_of(&child.wait_with_output().unwrap());
    assert_eq!((code, stderr.as_str()), (0, ""));
}
