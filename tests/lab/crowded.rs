//! `check --for` beside a hundred loops in sessions of their own, which share the CPUs by session (autogroup), and a SCHED_FIFO loop
//! on every CPU but one: its verdict is printed and saved, in time or with the reason.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use stalltop::recording::Replayer;

use crate::disk_load::Load;
use crate::harness::program;
use crate::scenario::Lab;
use crate::starved::sched;

const SESSIONS: u32 = 10;
const LOOPS_PER_SESSION: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// What `check` may take beyond `--for` without a word, and what the start and the end of its process take here.
const ALLOWED_OVERRUN: Duration = Duration::from_millis(1000 + 500);

#[test]
fn check_prints_and_saves_its_verdict_in_time_or_says_why_not() {
    let Some(_lab) = Lab::open(&["setsid", "chrt"]) else { return };
    let may = Command::new("chrt").args(["--fifo", "50", "true"]).output().expect("chrt").status.success();
    if !may {
        return println!("skipped: SCHED_FIFO is not permitted");
    }
    let cpus = std::thread::available_parallelism().expect("our CPUs").get();
    let state = tempfile::tempdir().expect("a folder");
    let (sched, loops) = (sched(), LOOPS_PER_SESSION.to_string());
    // It waits for its child, which ends with it.
    let session = || Load::start_silent(Command::new("setsid").arg("--wait").arg(&sched).args(["spin", &loops, "30"]));
    let mut loads: Vec<Load> = (0..SESSIONS).map(|_| session()).collect();
    let hog = || Load::start_silent(Command::new("chrt").args(["--fifo", "50"]).arg(&sched).args(["spin", "1", "30"]));
    loads.extend((1..cpus).map(|_| hog()));
    std::thread::sleep(Duration::from_secs(1));

    let file = state.path().join("crowded.stalltop");
    let mut check = Command::new(program());
    check.args(["check", "--for", "10s", "--json", "--save"]).arg(&file).env("XDG_STATE_HOME", state.path());
    let begin = Instant::now();
    let output = check.output().expect("stalltop runs");
    let took = begin.elapsed();
    drop(loads);

    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("no verdict: {why}: {stderr}"));
    let mut saved = Replayer::open(&file).expect("the saved recording");
    let samples: Vec<_> = (0..saved.len()).map(|at| saved.sample(at).expect("a sample")).collect();
    let runnable = samples.iter().filter_map(|sample| sample.cpu.as_ref().ok()?.running).max();
    println!(
        "{:.2} s, {} samples, {runnable:?} runnable, verdict {}, {stderr}",
        took.as_secs_f64(),
        samples.len(),
        json["verdict"]
    );
    assert!(runnable >= Some(SESSIONS * LOOPS_PER_SESSION), "the load was not there");
    let code = match json["verdict"].as_str() {
        Some("ok") => 0,
        Some("warning") => 1,
        Some("critical") => 2,
        _ => 3,
    };
    assert_eq!(output.status.code(), Some(code), "{json}");
    let is_saturated = |finding: &Value| finding["kind"] == "cpu-saturated";
    assert!(json["findings"].as_array().is_some_and(|all| all.iter().any(is_saturated)), "{json:#}");
    assert!(samples.len() >= 5, "{} samples of {} s", samples.len(), SPAN.as_secs());
    let over = took.saturating_sub(SPAN);
    let is_told = stderr.contains("check took") && stderr.contains(" s for a CPU");
    assert!(over <= ALLOWED_OVERRUN || is_told, "{:.2} s too long, without a word: {stderr}", over.as_secs_f64());
}
