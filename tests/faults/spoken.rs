//! Hostile texts on every output: the screen, lines, JSON, error messages. None of them acts on a terminal.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::again::{run, stalltop};
use crate::busy::Busy;
use crate::harness::{self, Session};
use crate::tree::Tree;

/// Everything that a terminal might obey, and what hides or turns text around.
const HOSTILE: &[u8] = b"\x1b]52;c;b3duZWQ=\x07\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1bPq\x1b\\\x9b31m\xc2\x9b31m\xc2\x90\xe2\x80\xae gpj.\xe2\x81\xa6\xe2\x80\x8b\r\x08\x07\x7f\xff\xfe)";

fn is_harmless(c: char) -> bool {
    let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}' | '\u{2028}' | '\u{2029}');
    c == '\n' || !(c.is_control() || turns)
}

fn is_plain(what: &str, text: &str) {
    if let Some(bad) = text.chars().find(|c| !is_harmless(*c)) {
        panic!("{what}: {bad:?} in {text:?}");
    }
}

/// Only what our own renderer writes: text, and these sequences of a terminal of today.
fn is_ours(what: &str, bytes: &[u8]) {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c != '\x1b' {
            assert!(matches!(c, '\r' | '\n') || is_harmless(c), "{what}: {c:?}");
            continue;
        }
        match rest.next() {
            Some('[') => {
                let parameters: String =
                    std::iter::from_fn(|| rest.next_if(|c| matches!(c, '0'..='9' | ';' | ':' | '?' | '>' | '<' | '=')))
                        .collect();
                let end = rest.next();
                let fits = match end {
                    Some('m') => parameters.chars().all(|c| matches!(c, '0'..='9' | ';' | ':')),
                    Some('h' | 'l') => {
                        ["?25", "?1049", "?2004", "?2026", "?1000", "?1002", "?1003", "?1006", "?1015", "?1007", "?7"]
                            .contains(&parameters.as_str())
                    }
                    Some('H' | 'J' | 'K' | 'A' | 'B' | 'C' | 'D' | 'G' | 'd') => !parameters.contains('?'),
                    _ => false,
                };
                assert!(fits, "{what}: ESC [ {parameters} {end:?}");
            }
            other => panic!("{what}: ESC {other:?}"),
        }
    }
}

fn killed(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A process that works, with such a name and such arguments.
fn hostile_process() -> Busy {
    use std::os::unix::ffi::OsStrExt;
    let mut command = Command::new("sh");
    // The shell names itself, and then works without another exec.
    command.args(["-c", "printf '\\033]0;x\\007\\2331m)\\n' > /proc/$$/comm; while :; do :; done"]);
    command.arg(std::ffi::OsStr::from_bytes(HOSTILE));
    Busy::run(command.stderr(Stdio::null()))
}

/// A part of the hostile name as the screen has it.
const HARMLESS: &str = "]0;owned\\u{7}";

/// The details of a disk and of a finding, which a quiet machine has not.
const OF_A_MACHINE: [(&str, &str); 4] = [("3", "KB/req"), ("\r", "Esc back"), ("6", "before"), ("\r", "Esc back")];

/// Each screen, waited for by a text that no other one of them has.
fn every_screen(what: &str, mut session: Session, further: &[(&str, &str)]) {
    session.until_text("LOAD");
    let screens = [
        ("2", "HOT THREADS"),
        ("\r", "BUSY OVER TIME"),
        ("3", "KB/req"),
        ("4", "OutSeg"),
        ("\r", "of its speed"),
        ("6", "before"),
        ("7", "300 s"),
        ("5", "processes"),
        ("/owned\r", "/owned"),
        ("\r", "Esc back"),
    ];
    for (key, text) in further.iter().chain(&screens) {
        session.type_keys(key);
        session.until_text(text);
    }
    session.until_text(HARMLESS);
    for key in ["\x1b", "\x1b"] {
        session.type_keys(key);
        let shown = if session.contents().contains("Esc back") { "Esc back" } else { "/owned" };
        session.until(&format!("end of {shown:?}"), |screen| !screen.contents().contains(shown));
    }
    for (key, text) in [("c", "threads waits for"), ("c", "time goes to"), ("T", "└"), ("t", " main "), ("1", "LOAD")] {
        session.type_keys(key);
        session.until_text(text);
    }
    session.type_keys("q");
    assert_eq!(session.ended().exit_code(), 0);
    session.terminal_is_restored();
    is_ours(what, &session.bytes());
}

#[test]
fn a_running_process_with_a_hostile_name() {
    let process = hostile_process();
    for arguments in [&["check", "--for", "2s", "-i", "300ms"][..], &["check", "--for", "1s", "-i", "300ms", "--json"]] {
        let (code, stdout, stderr) = run(&mut stalltop(arguments));
        assert!(code <= 2, "{stderr}");
        is_plain(&arguments.join(" "), &(stdout + &stderr));
    }
    every_screen("a hostile process", Session::start(harness::stalltop(&["-i", "200ms"]), 120, 30), &[]);
    drop(process);
}

/// A machine all of whose names are such.
fn hostile_tree() -> Tree {
    let tree = Tree::named("5.15-debian", HOSTILE);
    let line = |bytes: &[u8]| bytes.iter().copied().filter(|byte| !b"\n\0 \t".contains(byte)).collect::<Vec<u8>>();
    let name = line(HOSTILE);
    let add = |file: &str, text: Vec<u8>| {
        let old = std::fs::read(tree.path().join(file)).unwrap_or_default();
        tree.write(file, [old, text].concat());
    };
    tree.write("proc/sys/kernel/hostname", [&name[..], b"\n"].concat());
    tree.write("proc/sys/kernel/osrelease", [&name[..], b"\n"].concat());
    add("proc/diskstats", [b" 8 96 ", &name[..], b" 100 0 800 50 10 0 80 5 1 60 55\n"].concat());
    add("proc/net/dev", [&name[..], b": 1000 10 0 0 0 0 0 0 2000 20 0 0 0 0 0 0\n"].concat());
    add("proc/self/mountinfo", [b"90 1 8:96 / /mnt/", &name[..], b" rw - ext4 /dev/", &name[..], b" rw\n"].concat());
    tree
}

#[test]
fn all_names_of_a_machine_may_be_hostile() {
    let tree = hostile_tree();
    let root = tree.path().to_str().unwrap().to_owned();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hostile.stalltop");
    let file = file.to_str().unwrap();
    let say = |arguments: &[&str], codes: std::ops::RangeInclusive<i32>| {
        let (code, stdout, stderr) = run(&mut stalltop(arguments));
        assert!(codes.contains(&code), "{arguments:?}: {code} {stderr}");
        is_plain(&arguments.join(" "), &format!("{stdout}{stderr}"));
        stdout + &stderr
    };
    say(&["--root", &root, "check", "--for", "600ms", "-i", "200ms"], 0..=2);
    let json = say(&["--root", &root, "check", "--for", "600ms", "-i", "200ms", "--json"], 0..=2);
    assert!(json.contains("owned"), "the name is there, made harmless: {json}");
    say(&["--root", &root, "doctor"], 0..=0);
    say(&["--root", &root, "record", "--for", "800ms", "-i", "200ms", file], 0..=0);
    every_screen(
        "a hostile machine",
        Session::start(harness::stalltop(&["--root", &root, "-i", "200ms"]), 140, 40),
        &OF_A_MACHINE,
    );

    // The same out of a recording.
    assert!(say(&["info", "--verify", file], 0..=0).contains("owned"));
    say(&["check", file], 0..=2);
    say(&["check", "--json", file], 0..=2);
    every_screen("a hostile recording", Session::start(harness::stalltop(&["replay", file]), 140, 40), &OF_A_MACHINE);
}

#[test]
fn lines_without_a_terminal_have_no_escape_sequences() {
    let tree = hostile_tree();
    let mut child = stalltop(&["--root", tree.path().to_str().unwrap(), "-i", "100ms"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).split(b'\n');
    let mut text = String::new();
    // Its end is an error here.
    while !text.contains("owned") {
        text.push_str(&String::from_utf8(lines.next().expect("the name is in a line").unwrap()).unwrap());
    }
    killed(child);
    is_plain("lines", &text);
}

#[test]
fn no_argument_is_printed_with_escape_sequences() {
    let bad = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\r";
    let cases: [&[&str]; 14] = [
        &[bad],
        &["--interval", bad],
        &[&format!("--{bad}")],
        &["check", bad],
        &["check", "--for", bad],
        &["record", "--max-size", bad],
        &["record", &format!("/nowhere/{bad}")],
        &["replay", bad],
        &["replay", "x", "--at", bad],
        &["replay", "x", "--speed", bad],
        &["info", bad],
        &["completions", bad],
        &["--root", bad],
        &["--root", bad, "doctor"],
    ];
    for arguments in cases {
        let (code, stdout, stderr) = run(&mut stalltop(arguments));
        assert_ne!(code, 0, "{arguments:?}");
        assert_eq!(stderr.lines().count(), 1, "{arguments:?}: {stderr}");
        is_plain(&format!("{arguments:?}"), &format!("{stdout}{stderr}"));
    }
}
