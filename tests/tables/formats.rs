//! Each format with hostile names, read back by an independent parser.

use crate::made::{Machine, run};
use crate::output::csv;

const HOSTILE: &str = "=1+1,\"a\"\n\u{1b}[31m:\u{202e};'";

#[test]
fn csv_keeps_every_name() {
    let recording = Machine { name: HOSTILE, ..Machine::default() }.record(3);
    for (what, field) in [("task", "command"), ("thread", "command"), ("disk", "name"), ("nic", "name")] {
        let (code, text, _) = run(&["table", what, "--format", "csv", "--columns", "all", "--from", recording.path()]);
        assert_eq!(code, 0);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let rows = csv(&text);
        assert!(rows.iter().any(|row| row[field] == "=1+1,\"a\"\\n\\u{1b}[31m:\\u{202e};'"), "{what}: {rows:?}");
        let args = ["table", what, "--format", "csv", "--safe-formulas", "--from", recording.path()];
        let rows = csv(&run(&args).1);
        assert!(rows.iter().any(|row| row[field].starts_with("'=1+1")), "{what}: {rows:?}");
        assert!(rows.iter().all(|row| !row["time"].starts_with('\'')));
    }
}

#[test]
fn json_keeps_every_name_and_null() {
    let recording = Machine { name: HOSTILE, ..Machine::default() }.record(3);
    for (what, field) in [("task", "command"), ("thread", "command"), ("disk", "name"), ("nic", "name")] {
        let (_, text, _) = run(&["table", what, "--format", "json", "--columns", "all", "--from", recording.path()]);
        assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text}");
        let rows: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(rows.iter().any(|row| row[field] == HOSTILE), "{what}: {text}");
        assert!(rows.iter().all(|row| row["schema"] == "stalltop/1" && row["table"] == what && row["seconds"] == 1.0));
    }
    let (_, text, _) = run(&["table", "nic", "--format", "json", "--from", recording.path()]);
    let row: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&row["utilization_ratio"], &row["received_bytes_per_second"]), (&serde_json::Value::Null, &1024.into()));
    assert_eq!(row["time"], "2026-03-01T12:00:01.000Z");
}

#[test]
fn hostile_names_do_not_break_lines_or_fields() {
    let recording = Machine { name: HOSTILE, ..Machine::default() }.record(2);
    for what in ["task", "thread", "disk", "nic", "cpu", "core", "memory", "load", "pressure", "tcp", "udp"] {
        for format in ["text", "parseable"] {
            let (code, text, _) = run(&["table", what, "--format", format, "--columns", "all", "--from", recording.path()]);
            assert_eq!(code, 0, "{what}");
            assert!(text.lines().all(|line| line.chars().all(|c| !c.is_control() && c != '\u{202e}')), "{text}");
            let colons: Vec<usize> = text.lines().map(|line| line.matches(':').count()).collect();
            assert!(format == "text" || colons.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
    }
}

#[test]
fn unknown_values_are_a_dash_an_empty_field_or_null() {
    let recording = Machine::default().record(2);
    let args = |format| ["table", "nic", "--columns", "Int,%Util", "--format", format, "--from", recording.path()];
    let line = |text: String| text.lines().last().unwrap().to_owned();
    assert_eq!(line(run(&args("text")).1), "12:00:01 busy              -");
    assert_eq!(line(run(&args("csv")).1), "2026-03-01T12:00:01.000Z,1,busy,");
    assert!(line(run(&args("json")).1).ends_with(r#""name":"busy","utilization_ratio":null}"#));
    assert_eq!(line(run(&args("parseable")).1), "1772366401:nic:busy:-");
}

#[test]
fn values_are_aligned_with_their_headings() {
    let recording = Machine::default().record(2);
    let (_, text, _) = run(&["table", "disk", "--columns", "Device,r/s,r_await,busy%,in-flight", "--from", recording.path()]);
    let ends = |line: &str| {
        let line = format!("{line} ");
        let ends = (1..line.len()).filter(|&at| line[at..].starts_with(' ') && !line[..at].ends_with(' '));
        ends.collect::<Vec<usize>>().split_off(2)
    };
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(ends(lines[0]), ends(lines[1]), "{text}");
    assert_eq!(ends(lines[0]).len(), 4, "{text}");
}
