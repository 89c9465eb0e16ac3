//! `check`: selection of findings, thresholds, output formats and exit codes. Recordings with known findings are the input.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::busy::Busy;
use crate::harness::{DEADLINE, program};
use crate::output::texts_of;

/// Findings: idle-but-blocked (critical), disk-latency (warning).
const DATABASE: &str = "01-commit-serialised-db";
/// Findings: saturated-core and saturated-thread (warnings).
const HOT: &str = "07-one-hot-thread-pinned";
/// No findings.
const POOL: &str = "16-idle-pool";

fn stalltop(arguments: &[&str]) -> Command {
    static STATE: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    let state = STATE.get_or_init(|| tempfile::tempdir().unwrap()).path();
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).env("XDG_STATE_HOME", state).env("TZ", "UTC0");
    command.args(["--no-config"]).env_remove("STALLTOP_THRESHOLD");
    command
}

fn run(mut command: Command) -> (i32, String, String) {
    texts_of(&command.output().unwrap())
}

fn check(recording: &str, options: &[&str]) -> (i32, String, String) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{recording}.stalltop"));
    run(stalltop(&[&["check", file.to_str().unwrap()], options].concat()))
}

/// Options, exit code, texts that must be printed, texts that must not.
type Case<'a> = (&'a [&'a str], i32, &'a [&'a str], &'a [&'a str]);

#[test]
fn a_note_is_reported_with_code_0() {
    let (code, text, _) = check("06-vfork-thousand", &[]);
    assert!(code == 0 && text.contains("  note: "), "{text}");
    assert!(!text.contains("Nothing is wrong"), "{text}");
    assert!(text.contains("\nNothing to warn of as far as it can be seen; 1 note.\n"), "{text}");
    // The parts of the load, as in metrics.md.
    assert!(text.contains("load 228 (1-min average); now 2 running, 1000 in D"), "{text}");
    let (_, line, _) = check("06-vfork-thousand", &["--format", "nagios", "--only", "load-not-cpu"]);
    assert!(line.contains("OK - nothing to warn of among the selected kinds, as far as it can be seen; 1 note |"), "{line}");
}

#[test]
fn only_ignore_and_fail_on_select_findings() {
    let cases: &[Case] = &[
        (&[], 2, &["critical: idle but blocked", "warning: "], &[]),
        (&["--only", "disk-latency"], 1, &["warning: "], &["idle but blocked: 7"]),
        (&["--only", "disk-latency,oom-kill"], 1, &["warning: "], &["critical: "]),
        (&["--ignore", "idle-but-blocked"], 1, &["warning: "], &["critical: "]),
        (
            &["--ignore", "idle-but-blocked", "--ignore", "disk-latency"],
            0,
            &["Nothing of the selected kinds is wrong"],
            &["critical: ", "warning: "],
        ),
        (&["--only", "oom-kill"], 0, &["Nothing of the selected kinds"], &["critical: "]),
        (&["--fail-on", "critical"], 2, &["critical: "], &[]),
        (&["--fail-on", "critical", "--ignore", "idle-but-blocked"], 0, &["warning: "], &[]),
    ];
    for (options, code, there, not_there) in cases {
        let (exit, text, said) = check(DATABASE, options);
        assert_eq!((exit, said.as_str()), (*code, ""), "{options:?}: {text}");
        for words in *there {
            assert!(text.contains(words), "{options:?}: {words}: {text}");
        }
        for words in *not_there {
            assert!(!text.contains(words), "{options:?}: {words}: {text}");
        }
    }
    assert_eq!(check(POOL, &[]).0, 0);
}

#[test]
fn threshold_overrides_the_configuration() {
    assert_eq!(check(HOT, &[]).0, 1);
    // The value is slightly above one CPU at times, so that no threshold below 100 % suppresses it.
    assert_eq!(check(HOT, &["--threshold", "host-busy-below-ratio=20%"]).0, 0);
    let (code, text, _) = check(DATABASE, &["--threshold", "idle-but-blocked=97%", "--only", "idle-but-blocked"]);
    assert_eq!(code, 0, "{text}");
    let mut command = stalltop(&["check", "--only", "idle-but-blocked"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{DATABASE}.stalltop")));
    command.env("STALLTOP_THRESHOLD", "hung-task=9,idle-but-blocked=97%");
    assert_eq!(run(command).0, 0, "from the environment too");
    let (_, text, _) = check(DATABASE, &["--json", "--threshold", "blocked-ratio=40%"]);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let finding = json["findings"].as_array().unwrap().iter().find(|found| found["kind"] == "idle-but-blocked").unwrap();
    assert_eq!(finding["threshold"], 0.4, "the finding has its threshold");
}

#[test]
fn unknown_words_get_a_suggestion() {
    let cases = [
        (&["--only", "disk-latancy"][..], "did you mean 'disk-latency'?"),
        (&["--ignore", "oom-kil,swapping"], "did you mean 'oom-kill'?"),
        (&["--threshold", "disk-latencie=3"], "did you mean 'disk-latency'?"),
        (&["--threshold", "disk-latency"], "KIND=VALUE"),
        (&["--threshold", "idle-but-blocked=200%"], "0% to 100%"),
        (&["--threshold", "oom-kill=2"], "every occurrence"),
        (&["--format", "nagois"], "nagios"),
        (&["--format", "nagios", "--json"], "--json"),
        (&["--fail-on", "note"], "warning"),
    ];
    for (options, words) in cases {
        let (code, text, said) = check(POOL, options);
        assert_eq!((code, text.as_str(), said.lines().count()), (3, "", 1), "{options:?}: {said}");
        assert!(said.contains(words), "{options:?}: {said}");
    }
    assert_eq!(check(POOL, &["--watch", "--format", "nagios"]).0, 3);
    assert_eq!(run(stalltop(&["check", "--at", "-5m"])).0, 3, "a time needs a recording");
}

#[test]
fn a_stream_has_the_findings_of_the_file() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{DATABASE}.stalltop"));
    let stream = |options: &[&str]| {
        let mut command = stalltop(&[&["check", "-"], options].concat());
        command.stdin(std::fs::File::open(&file).unwrap());
        run(command)
    };
    for options in [&[][..], &["--json"], &["--format", "nagios"], &["--watch"], &["--only", "disk-latency"]] {
        assert_eq!(stream(options), check(DATABASE, options), "{options:?}");
    }
    // The first 3 s of it, as far as the words say so.
    let (_, text, _) = stream(&["--for", "3s"]);
    assert!(text.contains(" 3.0 s to "), "{text}");
}

/// Of a file and of a stream.
#[test]
fn the_beginning_of_a_recording_without_a_finding_is_unknown() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{DATABASE}.stalltop"));
    let whole = std::fs::read(source).unwrap();
    let part = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(part.path(), &whole[..12_000]).unwrap();
    let name = part.path().to_str().unwrap();
    for options in [&[][..], &["--format", "nagios"], &["--json"]] {
        let (code, text, said) = run(stalltop(&[&["check", name], options].concat()));
        let mut piped = stalltop(&[&["check", "-"], options].concat());
        piped.stdin(std::fs::File::open(part.path()).unwrap());
        let (piped_code, piped_text, _) = run(piped);
        assert_eq!((code, piped_code, text.lines().count()), (3, 3, 1), "{options:?}: {text}{said}");
        assert_eq!(text, piped_text, "{options:?}");
        let words = if options == ["--json"] { &said } else { &text };
        assert!(words.to_lowercase().contains("unknown") && words.contains("only 0.2 s of "), "{options:?}: {text}{said}");
    }
    // One interval, but those before it are known.
    let (code, text, _) = check(POOL, &["--for", "100ms"]);
    assert!(code == 0 && text.starts_with("ok: "), "{code}: {text}");
}

#[test]
fn a_stream_that_is_none_is_unknown() {
    let piped = |bytes: &[u8], options: &[&str]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut command = stalltop(&[&["check", "-"], options].concat());
        command.stdin(std::fs::File::open(file.path()).unwrap());
        run(command)
    };
    let whole =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{HOT}.stalltop"))).unwrap();
    let (code, text, said) = piped(&whole[..whole.len() / 2], &[]);
    assert!(code == 3 && text.contains("ends in damage"), "half of it has no finding yet: {code}: {text}{said}");
    for bytes in [&b""[..], b"not a recording at all, whatever it is"] {
        let (code, text, said) = piped(bytes, &[]);
        assert_eq!((code, text.as_str(), said.lines().count()), (3, "", 1), "{said}");
        assert!(
            said.contains(": it is not a recording: it looks like ") && said.contains("record - --for 10s | stalltop check -"),
            "{said}"
        );
    }
    let (code, _, said) = piped(&whole, &["--at", "+2s"]);
    assert!(code == 3 && said.contains("use --for"), "{code}: {said}");
}

/// Parses `'label'=value[UOM];[warn];[crit];[min];[max]` of the Monitoring Plugins Development Guidelines.
fn perfdata(text: &str) -> Vec<(String, f64, String)> {
    let mut data = Vec::new();
    for item in text.split(' ') {
        let (label, rest) = item.split_once('=').unwrap_or_else(|| panic!("{item}"));
        assert!(!label.is_empty() && !label.contains(['\'', '=', ' ']), "{item}");
        let mut fields = rest.split(';');
        let value = fields.next().unwrap();
        let end = value.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(value.len());
        let (number, unit) = value.split_at(end);
        assert!(["", "s", "us", "ms", "%", "B", "KB", "MB", "TB", "c"].contains(&unit), "{item}");
        let limits: Vec<&str> = fields.collect();
        assert!(limits.len() <= 4, "{item}");
        for limit in limits {
            assert!(limit.is_empty() || limit.parse::<f64>().is_ok(), "{item}");
        }
        data.push((label.to_owned(), number.parse().unwrap_or_else(|_| panic!("{item}")), unit.to_owned()));
    }
    data
}

/// The same by Perl's Monitoring::Plugin; `None` if it is not installed.
fn perfdata_by_perl(text: &str) -> Option<Vec<(String, f64, String)>> {
    let script = "print join(\"\\t\", $_->label, $_->value, $_->uom // ''), \"\\n\" \
                  for Monitoring::Plugin::Performance->parse_perfstring($ARGV[0])";
    let output = Command::new("perl").args(["-MMonitoring::Plugin::Performance", "-e", script, text]).output().ok()?;
    if !output.status.success() {
        println!("skipped: Perl's Monitoring::Plugin is not installed (libmonitoring-plugin-perl)");
        return None;
    }
    let items = String::from_utf8(output.stdout).unwrap();
    let item = |line: &str| {
        let [label, value, unit] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (label.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")), unit.to_owned())
    };
    Some(items.lines().map(item).collect())
}

#[test]
fn the_nagios_format_is_one_line_with_perfdata() {
    for (recording, options, code, status) in [
        (DATABASE, &[][..], 2, "CRITICAL"),
        (DATABASE, &["--ignore", "idle-but-blocked"], 1, "WARNING"),
        (DATABASE, &["--ignore", "idle-but-blocked", "--fail-on", "critical"], 0, "OK"),
        (HOT, &[], 1, "WARNING"),
        (POOL, &[], 0, "OK"),
    ] {
        let (exit, text, said) = check(recording, &[options, &["--format", "nagios"]].concat());
        assert_eq!((exit, said.as_str()), (code, ""), "{recording} {options:?}");
        let line = text.strip_suffix('\n').unwrap();
        assert!(!line.contains('\n') && line.starts_with(&format!("STALLTOP {status} - ")), "{line}");
        let (words, data) = line.split_once(" | ").unwrap();
        assert!(!words.contains('|') && line.len() < 4096, "{line}");
        let text = data;
        let data = perfdata(text);
        if let Some(theirs) = perfdata_by_perl(text) {
            assert_eq!(theirs, data, "{line}");
        }
        let value = |label: &str| data.iter().find(|item| item.0 == label).map(|item| (item.1, item.2.as_str()));
        let (_, json, _) = check(recording, &[options, &["--json"]].concat());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let busy = json["figures"]["busy_ratio"].as_f64().unwrap() * 100.0;
        assert!(value("busy").is_some_and(|(value, unit)| (value - busy).abs() < 0.001 && unit == "%"), "{line}");
        let criticals = json["findings"].as_array().unwrap().iter().filter(|found| found["severity"] == "critical").count();
        assert_eq!(value("criticals"), Some((criticals as f64, "")), "{line}");
    }
    let (code, text, _) = check(HOT, &["--format", "nagios", "--only", "oom-kill"]);
    assert!(code == 0 && text.contains("OK - nothing of the selected kinds is wrong"), "{text}");
}

#[test]
fn watch_prints_when_findings_begin_and_end() {
    let (code, text, _) = check(DATABASE, &["--watch"]);
    assert_eq!(code, 2, "the worst severity of the whole time");
    let mut open = std::collections::BTreeSet::new();
    let mut last = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (at, change, kind) = (words[0], words[2], words[4]);
        assert!(last.as_str() <= at, "sorted by time: {text}");
        last = at.to_owned();
        match change {
            "begins" => assert!(open.insert(kind.to_owned()), "{text}"),
            "ends" => assert!(open.remove(kind) && line.contains("(lasted "), "{text}"),
            "worse" | "better" => assert!(open.contains(kind), "{text}"),
            _ => panic!("{line}"),
        }
    }
    assert!(text.contains(" begins ") && text.contains("idle-but-blocked: "), "{text}");
    let (code, text, _) = check(DATABASE, &["--watch", "--format", "json", "--only", "disk-latency"]);
    assert_eq!(code, 1);
    for line in text.lines() {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&entry["schema"], &entry["finding"]["kind"]), (&"stalltop/1".into(), &"disk-latency".into()));
        assert!(entry["at"].as_str().unwrap().ends_with('Z') && entry["host"].is_string(), "{line}");
    }
    assert!(text.lines().next().unwrap().contains(r#""change":"begins""#), "{text}");
}

/// Start and end of a recording in seconds, from its JSON.
fn span(json: &str) -> (f64, f64) {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let at = |name: &str| -> f64 {
        let at: jiff::Timestamp = json[name].as_str().unwrap().parse().unwrap();
        at.as_millisecond() as f64 / 1000.0
    };
    (at("from"), at("to"))
}

#[test]
fn from_and_to_select_a_part_of_a_recording() {
    let (_, all, _) = check(DATABASE, &["--json"]);
    let (begin, end) = span(&all);
    for (options, from, to) in [
        (&["--at", "+4s", "--for", "3s"][..], begin + 4.0, begin + 7.0),
        (&["--at", "-6s", "--for", "2s"], end - 6.0, end - 4.0),
        (&["--at", "+2s"], begin + 2.0, begin + 7.0),
        (&["--for", "3s"], end - 3.0, end),
    ] {
        let (code, part, said) = check(DATABASE, &[options, &["--json"]].concat());
        assert!(code < 3, "{said}");
        let (first, last) = span(&part);
        // Intervals are one second long: those inside the range, and the one that contains its start.
        assert!((first - from).abs() <= 1.1 && (last - to).abs() <= 1.1, "{options:?}: {} {}", first - begin, last - begin);
    }
    let (code, text, _) = check(DATABASE, &["--at", "2001-01-01T00:00:00Z"]);
    assert_eq!(code, 3, "no samples in the range: {text}");
    assert_eq!(check(DATABASE, &["--at", "+1h"]).0, 3);
}

#[test]
fn watch_runs_until_a_signal() {
    use nix::sys::signal::{Signal, kill};
    // It is one finding at least.
    let _busy = Busy::start();
    let options = [
        "check",
        "--watch",
        "-i",
        "100ms",
        "--threshold",
        "thread-busy-ratio=10%",
        "--threshold",
        "host-busy-below-ratio=1",
        "--threshold",
        "free-cpus=0",
    ];
    let mut child = stalltop(&options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    // It reads until the program has ended.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(sender.send(line))));
    let line = receiver.recv_timeout(DEADLINE);
    kill(nix::unistd::Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(line.is_ok_and(|line| line.contains(" begins ")), "{said}");
    assert_eq!(output.status.code(), Some(0), "SIGTERM ends with 0: {said}");
}
