//! `stalltop table` and its catalogue of columns: the program on synthetic recordings, its output read back by independent
//! parsers, and docs/tables.md. `STALLTOP_BLESS=1 cargo test --test tables` regenerates the page.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "tables/bad_input.rs"]
mod bad_input;
#[path = "tables/command.rs"]
mod command;
#[path = "tables/formats.rs"]
mod formats;
#[path = "tables/made.rs"]
mod made;
#[path = "support/output.rs"]
mod output;
#[path = "support/program.rs"]
mod program;
#[path = "support/synthetic.rs"]
mod synthetic;

use std::path::Path;

use made::{Machine, run};
use output::csv;

#[test]
fn the_page_matches_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tables.md");
    let page = stalltop::report::table::tables_page();
    if std::env::var_os("STALLTOP_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/tables.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/tables.md is stale: STALLTOP_BLESS=1 cargo test --test tables");
}

#[test]
fn the_command_line_accepts_every_table() {
    let names: Vec<&str> = stalltop::figures::TABLES.iter().map(|table| table.name()).collect();
    assert_eq!(names, stalltop::cli::table::TABLE_NAMES);
}

#[test]
fn one_busy_core_of_256() {
    let recording = Machine { cpus: 256, ..Machine::default() }.record(3);
    let (code, text, _) = run(&["table", "core", "--busy", "--from", recording.path()]);
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!((code, rows.len()), (0, 2), "{text}");
    assert!(rows.iter().all(|row| row[1] == "7" && row[2] == "100.00"), "{text}");
    let (_, text, _) = run(&["table", "cpu", "--columns", "CPU,%usr,%busy", "--from", recording.path()]);
    assert!(text.lines().skip(1).all(|line| line.split_whitespace().skip(2).eq(["0.39", "0.39"])), "{text}");
}

#[test]
fn the_total_is_the_sum_of_the_lines() {
    let recording = Machine::default().record(11);
    let (_, lines, _) = run(&["table", "disk", "--format", "csv", "--from", recording.path()]);
    let (_, total, _) = run(&["table", "disk", "--format", "csv", "--total", "--from", recording.path()]);
    let sum = |name: &str| -> f64 {
        let rows = csv(&lines);
        rows.iter().map(|row| row[name].parse::<f64>().unwrap() * row["seconds"].parse::<f64>().unwrap()).sum()
    };
    let total = csv(&total);
    assert_eq!(total.len(), 1, "{total:?}");
    for (rate, amount) in [("reads_per_second", "reads"), ("read_bytes_per_second", "read_bytes")] {
        let (sum, whole) = (sum(rate), total[0][amount].parse::<f64>().unwrap());
        assert!(sum > 0.0 && (sum - whole).abs() <= 0.001 * whole, "{rate}: {sum} and {whole}");
    }
    // 100 reads per second of 2 ms each, for ten seconds.
    assert_eq!((total[0]["reads"].as_str(), total[0]["read_await_seconds"].as_str()), ("1000", "0.002"));
}

#[test]
fn the_total_includes_ended_processes() {
    let recording = Machine { short_lived: true, ..Machine::default() }.record(6);
    let (_, text, _) = run(&["table", "task", "--format", "csv", "--total", "--from", recording.path()]);
    let rows = csv(&text);
    let ended = rows.iter().find(|row| row["command"] == "short").expect("the process that ended");
    // Half a CPU for the three seconds in which it was sampled.
    assert_eq!(ended["cpu_seconds"], "1.5", "{text}");
    // Half a second of CPU time in each of its two samples, from its start.
    let newborn = rows.iter().find(|row| row["command"] == "newborn").expect("the process that started and ended");
    let figures = ["cpu_seconds", "read_bytes", "minor_faults", "threads"].map(|name| newborn[name].as_str());
    assert_eq!(figures, ["0.5", "8192", "3", "1"], "{text}");
    let idle = rows.iter().find(|row| row["command"] == "idle").expect("the process whose thread ended");
    assert_eq!((idle["switches"].as_str(), idle["threads"].as_str()), ("300", "1"), "{text}");
    let (_, text, _) = run(&["table", "thread", "--format", "csv", "--total", "--from", recording.path()]);
    let rows = csv(&text);
    let ended = rows.iter().find(|row| row["tid"] == "301").expect("the thread that ended");
    assert_eq!((ended["pid"].as_str(), ended["cpu_seconds"].as_str()), ("300", "0.3"), "{text}");
    let load = ["table", "load", "--columns", "procs,threads", "--format", "csv", "--total", "--from", recording.path()];
    let (_, text, _) = run(&load);
    let row = &csv(&text)[0];
    assert_eq!((row["processes"].as_str(), row["threads"].as_str()), ("3", "3"), "processes at the end: {text}");
}

#[test]
fn the_interval_option_applies_to_recordings() {
    let recording = Machine::default().record(13);
    let (_, text, _) = run(&["table", "disk", "4s", "--format", "csv", "--from", recording.path()]);
    let rows = csv(&text);
    assert_eq!(rows.iter().map(|row| row["seconds"].as_str()).collect::<Vec<_>>(), ["4", "4", "4"]);
    assert!(rows.iter().all(|row| row["reads_per_second"] == "100"), "{text}");
    // The last line is what is left; all of a recording that is shorter.
    for (interval, seconds) in [("5s", vec!["5", "5", "2"]), ("1m", vec!["12"])] {
        let (_, text, _) = run(&["table", "disk", interval, "--format", "csv", "--from", recording.path()]);
        let rows = csv(&text);
        assert_eq!(rows.iter().map(|row| row["seconds"].as_str()).collect::<Vec<_>>(), seconds);
    }
    let (_, text, _) = run(&["table", "disk", "5s", "1", "--format", "csv", "--from", recording.path()]);
    assert_eq!(csv(&text).len(), 1, "COUNT is reached: {text}");
    let (_, text, _) = run(&["table", "disk", "4s", "2", "--at", "+2s", "--format", "csv", "--from", recording.path()]);
    assert_eq!(csv(&text).len(), 2, "{text}");
    let (_, text, _) = run(&["table", "disk", "--for", "3s", "--format", "csv", "--from", recording.path()]);
    assert_eq!(csv(&text).len(), 3, "{text}");
}

#[test]
fn a_time_without_intervals_is_an_error_with_the_times_of_the_recording() {
    let recording = Machine::default().record(13);
    let info = run(&["info", recording.path()]).1;
    for time in ["+1h", "2100-01-01T00:00:00Z"] {
        let (code, text, error) = run(&["table", "disk", "--at", time, "--from", recording.path()]);
        assert_eq!((code, text.as_str(), error.lines().count()), (2, "", 1), "{time}: {error}");
        assert!(error.contains("has no intervals at this time: it covers 20"), "{error}\n{info}");
    }
    assert_eq!(run(&["table", "disk", "--at", "+11s", "--from", recording.path()]).0, 0);
}

#[test]
fn since_boot_prints_averages_since_boot_first() {
    let recording = Machine::default().record(11);
    let lines = |arguments: &[&str]| {
        let all = [arguments, &["--since-boot", "--for", "1s", "--format", "csv", "--from", recording.path()]].concat();
        let (code, text, said) = run(&all);
        assert_eq!((code, said.as_str()), (0, ""));
        csv(&text)
    };
    let number = |text: &str| text.parse::<f64>().unwrap();
    let rows = lines(&["table", "disk"]);
    let seconds: Vec<&str> = rows.iter().map(|row| row["seconds"].as_str()).collect();
    assert_eq!(seconds, ["1009", "1"], "until the start of the range");
    assert!((number(&rows[0]["reads_per_second"]) - 900.0 / 1009.0).abs() < 1e-9, "{rows:?}");
    assert_eq!((rows[0]["read_await_seconds"].as_str(), rows[1]["reads_per_second"].as_str()), ("0.002", "100"));
    let rows = lines(&["table", "task", "--name", "busy"]);
    assert!((number(&rows[0]["cpu_ratio"]) - 9.0 / 1009.0).abs() < 1e-9, "{rows:?}");
    let rows = lines(&["table", "cpu", "1s", "1", "--columns", "all"]);
    assert_eq!(
        (rows.len(), rows[0]["idle_but_blocked_ratio"].as_str()),
        (1, ""),
        "it needs sub-samples, which do not exist since boot"
    );
    let (_, text, _) = run(&["table", "disk", "--since-boot", "--total", "--format", "csv", "--from", recording.path()]);
    assert_eq!(csv(&text)[0]["reads"], "1000", "the total excludes the time since boot");
}

#[test]
fn rows_are_selected_and_sorted() {
    let recording = Machine { cpus: 4, ..Machine::default() }.record(2);
    let run = |more: &str| {
        let all = ["table", "task", "--from", recording.path(), "--columns", "Command,%CPU"];
        let (code, text, stderr) = run(&all.into_iter().chain(more.split_whitespace()).collect::<Vec<_>>());
        assert_eq!(code, 0, "{stderr}");
        let names = text.lines().skip(1).map(|line| line.split_whitespace().nth(1).unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(run(""), ["init", "busy", "idle"]);
    assert_eq!(run("--sort %CPU"), ["busy", "init", "idle"]);
    assert_eq!(run("--sort Command"), ["busy", "idle", "init"]);
    assert_eq!(run("--top 1"), ["busy"]);
    assert_eq!(run("--busy"), ["busy"]);
    assert_eq!(run("-p 1,300"), ["init", "idle"]);
    assert_eq!(run("--name ^i"), ["init", "idle"]);
    let args = ["table", "task", "--of-host", "--top", "1", "--format", "csv", "--from", recording.path()];
    assert_eq!(csv(&self::run(&args).1)[0]["cpu_ratio"], "0.25");
    assert_eq!(self::run(&args.map(|word| if word == "--of-host" { "--of-box" } else { word })), self::run(&args));
}

#[test]
fn a_pipe_has_one_heading() {
    let recording = Machine::default().record(40);
    for what in ["cpu", "disk", "load"] {
        let (_, text, _) = run(&["table", what, "--from", recording.path()]);
        assert_eq!(text.lines().filter(|line| line.starts_with("    Time")).count(), 1, "{text}");
        assert_eq!(text.lines().count(), 40, "{text}");
    }
}
