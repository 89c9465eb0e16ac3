//! `record --armed` while the load of 15 begins: one capture with the time before it, the cause, and the event. How an event ends is
//! tested in tests/commands/armed.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use stalltop::recording::Replayer;

use crate::armed_recorder::{Place, around, open, texts, times};
use crate::blocked::start_convoy;
use crate::scenario::{DISK_TOOLS, Lab};

/// A finding needs two of three seconds; the load needs some to begin, and a machine that tests share some more.
const TRIGGER_TIMEOUT: Duration = Duration::from_secs(40);

/// Time, and the share of the host that was idle but blocked, of each interval.
fn blocked_each(place: &Place, file: &str) -> Vec<(String, f64)> {
    let output =
        place.stalltop(&["export", file, "-o", "-", "--format", "jsonl", "--tables", "cpu"]).output().expect("stalltop");
    let lines = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let rows = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    rows.filter_map(|row| Some((row["time"].as_str()?.to_owned(), row["idle_but_blocked_ratio"].as_f64()?))).collect()
}

#[test]
fn a_convoy_is_captured_with_the_time_before_it() {
    let Some(lab) = Lab::open(DISK_TOOLS) else { return };
    let place = Place::new();
    // The tools that set the disk up are no idle-but-blocked threads of long.
    let mut recorder = place.armed(&["--on", "idle-but-blocked", "--psi", "none", "--after", "5s"]);
    // This is the time to be captured.
    thread::sleep(Duration::from_secs(8));
    assert!(place.captures().is_empty(), "nothing is written before: {}", recorder.told());
    let (scenario, device) = start_convoy(&lab, 10_000);
    let begun = Instant::now();
    recorder.until_it_captures();
    let took = begun.elapsed();
    assert!(took < TRIGGER_TIMEOUT, "{took:?}");
    let recorded = |file: &PathBuf| Replayer::open(file).map_or(0, |replayer| replayer.len());
    recorder.until("has recorded seconds of the event", |_| place.captures().first().map_or(0, recorded) >= 85);
    drop(scenario);
    println!("{}", recorder.end());

    let captures = place.captures();
    let [file] = captures.as_slice() else { panic!("{captures:?}") };
    assert!(file.to_str().expect("a name").contains("idle-but-blocked"), "{file:?}");
    let replayer = open(file);
    let mark = replayer.marks().first().expect("its sentence").clone();
    let (before, delay) = around(&replayer, &mark);
    println!("{:.1} s after the load began: {}", took.as_secs_f64(), mark.text);
    println!("{before} samples before the mark, the next one {delay:?} after it; {} samples in all", replayer.len());
    assert!(before >= 8 && texts(&replayer)[0].contains("convoy"), "{:?}", texts(&replayer));
    // Ten samples a second, some of which a busy machine may miss.
    let event = times(&replayer).split_off(before);
    let seconds = event.last().map_or(0.0, |&last_ns| (last_ns - mark.at.boottime_ns) as f64 / 1e9);
    let rate = event.len() as f64 / seconds;
    assert!(event.len() >= 60 && (5.0..=10.5).contains(&rate), "{} samples in {seconds} s", event.len());

    let name = file.to_str().expect("a name");
    let check = place.stalltop(&["check", name, "--json"]).output().expect("stalltop");
    let check: Value = serde_json::from_slice(&check.stdout).expect("JSON");
    let findings = check["findings"].as_array().expect("findings");
    let cause = findings.iter().find(|finding| finding["kind"] == "idle-but-blocked").expect("its cause");
    let sentence = cause["sentence"].as_str().expect("a sentence");
    assert!(sentence.contains("convoy") && sentence.contains(&device), "{sentence}");

    // The figures show the beginning: nothing was blocked eight seconds before, and most of the host is in the event.
    let blocked = blocked_each(&place, name);
    let mean = |rows: &[(String, f64)]| rows.iter().map(|row| row.1).sum::<f64>() / rows.len().max(1) as f64;
    let (first, event) = (mean(&blocked[..6]), mean(&blocked[before..before + event.len() - 1]));
    println!("idle but blocked: {first:.2} of the host before, {event:.2} in the event");
    assert!(first < 0.1 && event > 0.4, "{first} and {event}");
}
