//! What keys write: recordings, the screen, bug reports, the clipboard, and the choices that the next run remembers.

use crate::harness::{Session, program, stalltop};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_bug_report_is_written_after_a_question() {
    let directory = tempfile::tempdir().unwrap();
    for (answer, code, written) in [("n", 0, false), ("", 0, false), ("y", 0, true), ("y", 6, true)] {
        let mut command = stalltop(&["bug-report", "--for", "300ms", "-o", "report.tar.zst"]);
        command.cwd(directory.path());
        let mut session = Session::start(command, 80, 24);
        // The last one would overwrite the file.
        if code == 0 {
            session.until_text("Write it? [y/N]");
            session.type_keys(&format!("{answer}\n"));
        }
        assert_eq!(session.ended().exit_code(), code, "{answer}: {}", session.contents());
        assert_eq!(directory.path().join("report.tar.zst").exists(), written, "{answer}");
    }
}

#[test]
fn w_saves_the_samples_in_memory() {
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
fn p_saves_the_screen_as_text_ansi_and_svg() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = stalltop(&[]);
    command.cwd(directory.path());
    let mut session = Session::start(command, 120, 30);
    session.until_text("busy");
    session.type_keys("P");
    session.until_text("screen saved");
    session.type_keys("q");
    session.ended();
    let read = |extension: &str| {
        let mut files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| path.extension().is_some_and(|found| found == extension)).expect(extension);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::read_to_string(file).unwrap()
    };
    assert!(read("txt").contains("blocked-idle") && !read("txt").contains('\x1b'));
    assert!(read("ansi").contains("\x1b["));
    assert!(read("svg").starts_with("<svg ") && read("svg").contains("blocked-idle"));
}

/// The text that base64 stands for.
fn decode_base64(encoded: &str) -> String {
    let digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_usize, 0);
    for digit in encoded.trim_end_matches('=').chars() {
        bits = bits << 6 | digits.find(digit).unwrap_or_else(|| panic!("no base64: {encoded}"));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn y_copies_to_the_clipboard_of_the_terminal() {
    let mut session = Session::live(120, 30);
    session.type_keys("5");
    session.until_text("processes");
    // The row stays as it is.
    session.type_keys(" ");
    session.until_text("PAUSED");
    session.type_keys("jy");
    session.until_text("copied");
    let bytes = String::from_utf8_lossy(&session.bytes()).into_owned();
    let sequence = bytes.split_once("\x1b]52;c;").expect("OSC 52").1;
    let copied = decode_base64(sequence.split_once('\x1b').unwrap().0);
    // The last column may be longer than the screen.
    let begin: String = copied.chars().take(90).collect();
    let screen = session.contents();
    assert!(begin.trim().len() > 60 && screen.lines().any(|line| line.starts_with(&begin)), "{copied:?} is not on:\n{screen}");
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn hidden_columns_are_remembered() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = stalltop(&[]);
        command.env("XDG_STATE_HOME", directory.path());
        let mut session = Session::start(command, 120, 30);
        session.until_text("busy");
        session.type_keys("5");
        session.until_text("processes");
        session
    };
    let mut session = start();
    session.until_text("user");
    session.type_keys("C");
    session.until_text("[x] user");
    let lines: Vec<String> = session.contents().lines().filter(|line| line.contains("[x]")).map(str::to_owned).collect();
    let below = lines.iter().position(|line| line.contains("[x] user")).unwrap();
    session.type_keys(&"j".repeat(below));
    session.type_keys(" ");
    session.until_text("[ ] user");
    session.type_keys("\x1b");
    let file = directory.path().join("stalltop/lists.toml");
    session.until("the file", |_| std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"user\"")));
    session.type_keys("q");
    session.ended();
    let mut session = start();
    session.type_keys("C");
    session.until_text("[ ] user");
    session.type_keys("qq");
    assert_eq!(session.ended().exit_code(), 0);
}

#[test]
fn a_chosen_theme_is_remembered_and_the_configuration_precedes_it() {
    let directory = tempfile::tempdir().unwrap();
    let start = |arguments: &[&str]| {
        let mut command = stalltop(arguments);
        command.env("XDG_STATE_HOME", directory.path());
        let mut session = Session::start(command, 120, 40);
        session.until_text("busy");
        session.type_keys("\x1bOQ");
        session.until_text("Settings");
        session
    };
    let mut session = start(&[]);
    session.until_text("◂ terminal ▸");
    session.type_keys("+");
    session.until_text("◂ mono ▸");
    let file = directory.path().join("stalltop/lists.toml");
    session.until("the file", |_| std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"mono\"")));
    session.type_keys("qq");
    session.ended();
    let configuration = directory.path().join("config.toml");
    std::fs::write(&configuration, "[screen]\ntheme = \"dark\"\n").unwrap();
    let runs = [(&["--config", configuration.to_str().unwrap()][..], "◂ dark ▸"), (&[], "◂ mono ▸")];
    for (arguments, theme) in runs {
        let mut session = start(arguments);
        session.until_text(theme);
        session.type_keys("qq");
        assert_eq!(session.ended().exit_code(), 0);
    }
}
