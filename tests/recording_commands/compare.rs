//! `stalltop compare` of recordings with known figures.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use stalltop::ids::DiskId;
use stalltop::sample::disk::{DiskFacts, OpCounters};
use stalltop::sample::operations::Operations;
use stalltop::sample::{Absent, Sample};
use stalltop::units::Counter;

use crate::{generator, lab, stalltop, support, synthetic, text};

/// The activity of a host in each second: 2 CPUs, a disk, and a device that is stacked on it.
#[derive(Clone, Copy)]
struct Load {
    busy_ticks: u64,
    switches: u64,
    reads: u64,
    read_ms: u64,
    /// In two of five seconds
    slow_read_ms: Option<u64>,
    read_sectors: u64,
    writes: u64,
}

const LOAD: Load =
    Load { busy_ticks: 50, switches: 1000, reads: 100, read_ms: 2, slow_read_ms: None, read_sectors: 8, writes: 20 };

/// Samples of that many seconds. Latencies vary a little from second to second; `seed` selects how.
fn samples(load: Load, seconds: u64, seed: u64) -> Vec<Arc<Sample>> {
    let mut dice = generator::Dice::new(seed);
    let [mut busy, mut idle, mut switches, mut reads, mut read_ms, mut sectors, mut writes] = [0_u64; 7];
    let list = (0..=seconds).map(|second| {
        // Never fewer reads than 90 %, never more than 110 %, and the same sum in every 4 seconds.
        let wobble = [0, 5, 10, 5][(second % 4) as usize] + dice.below(3);
        if second > 0 {
            busy += load.busy_ticks;
            idle += 200 - load.busy_ticks;
            switches += load.switches;
            reads += load.reads;
            let is_slow = matches!(second % 5, 1 | 3);
            read_ms += load.reads * load.slow_read_ms.filter(|_| is_slow).unwrap_or(load.read_ms) + wobble;
            sectors += load.reads * load.read_sectors;
            writes += load.writes;
        }
        let half = |busy: u64, idle: u64| synthetic::cpu_times(busy / 2, 0, idle / 2, 0);
        let operations = |completed: u64, sectors: u64, time_ms: u64| OpCounters {
            completed: Counter(completed),
            sectors: Counter(sectors),
            time_ms: Counter(time_ms),
            ..OpCounters::default()
        };
        let disk = |minor, name: &str, slaves: Vec<DiskId>| {
            synthetic::disk(name)
                .id(8, minor)
                .facts(DiskFacts { slaves, ..DiskFacts::default() })
                .reads(operations(reads, sectors, read_ms))
                .writes(operations(writes, writes * 16, writes))
                .busy_ms(second * 300, read_ms)
        };
        synthetic::sample_at(support::instant(second * 1000))
            .cpus([half(busy, idle), half(busy + 1, idle + 1)])
            .disk(disk(0, "sda", Vec::new()))
            .disk(disk(16, "dm-0", vec![DiskId { major: 8, minor: 0 }]))
            .with(|sample| sample.cpu.as_mut().unwrap().context_switches = Some(Counter(switches)))
            .shared()
    });
    list.collect()
}

fn recording(folder: &Path, name: &str, load: Load, seed: u64, marks: [&str; 2]) -> PathBuf {
    let file = folder.join(format!("{name}.stalltop"));
    support::record_into(&file, "host", &samples(load, 40, seed), marks);
    file
}

fn compare(files: &[&Path], options: &[&str]) -> (i32, String, String) {
    let files: Vec<&str> = files.iter().map(|file| text(file)).collect();
    let output = stalltop(&[&["compare"], files.as_slice(), options].concat());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn json(files: &[&Path], options: &[&str]) -> Value {
    let (code, stdout, stderr) = compare(files, &[options, &["--json"]].concat());
    assert_eq!(code, 0, "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The row of a figure of the disk `sda`, or of the host.
fn row<'a>(told: &'a Value, table: &str, name: &str) -> &'a Value {
    let mut rows = told["figures"].as_array().unwrap().iter();
    rows.find(|row| row["table"] == table && row["name"] == name && (row["row"].is_null() || row["row"] == "sda")).unwrap()
}

fn near(value: &Value, expected: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() < 0.001, "{value} is not {expected}");
}

#[test]
fn what_became_slower_is_reported_with_its_factor() {
    let folder = tempfile::tempdir().unwrap();
    let base = recording(folder.path(), "base", LOAD, 1, ["", ""]);
    let slow = recording(folder.path(), "slow", Load { read_ms: 6, switches: 2000, ..LOAD }, 2, ["", ""]);
    let told = json(&[&base, &slow], &[]);
    let waited = row(&told, "disk", "read_await_seconds");
    let beside = &waited["beside"][0];
    assert_eq!(
        (&beside["change"], &beside["certainty"], &beside["superiority"]),
        (&"worse".into(), &"certain".into(), &1.0.into())
    );
    let (old, new) = (waited["base"]["median"].as_f64().unwrap(), beside["median"].as_f64().unwrap());
    assert!((0.0020..0.0022).contains(&old) && (0.0060..0.0062).contains(&new), "{waited}");
    near(&beside["ratio"], new / old);
    // The number of context switches alone does not tell what is better.
    let switches = &row(&told, "load", "context_switches_per_second")["beside"][0];
    assert_eq!(switches["change"], "moved");
    near(&switches["ratio"], 2.0);
    // Unchanged figures are not marked.
    for (table, name) in [("cpu", "busy_ratio"), ("disk", "writes_per_second"), ("disk", "write_await_seconds")] {
        assert_eq!(row(&told, table, name)["beside"][0]["change"], "none", "{name}");
    }
    // In the other direction it became better.
    assert_eq!(row(&json(&[&slow, &base], &[]), "disk", "read_await_seconds")["beside"][0]["change"], "better");
    let (_, text, _) = compare(&[&base, &slow], &[]);
    assert!(text.contains("▲ disk sda r_await ms") && text.contains(" certain\n") && text.contains("▲ WORSE"), "{text}");
    assert!(!text.contains("w_await"), "{text}");
    // All figures, and long names.
    let long = folder.path().join(format!("{}.stalltop", "nightly-build-4711-of-the-branch-that-".repeat(3)));
    std::fs::copy(&slow, &long).unwrap();
    let (_, text, _) = compare(&[&base, &long, &slow], &["--all", "--ops", "123456,7890123,4"]);
    let long = long.file_stem().unwrap().to_str().unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(long)).collect();
    assert!(lines.len() > 50 && lines.iter().all(|line| line.chars().count() <= 80), "{text}");
}

/// Its median is that of the seconds in which it is fast.
#[test]
fn a_device_that_is_slow_at_times_became_worse() {
    let folder = tempfile::tempdir().unwrap();
    let base = recording(folder.path(), "base", LOAD, 1, ["", ""]);
    let slow = recording(folder.path(), "slow", Load { slow_read_ms: Some(50), ..LOAD }, 2, ["", ""]);
    let told = json(&[&base, &slow], &[]);
    let beside = &row(&told, "disk", "read_await_seconds")["beside"][0];
    assert!(beside["ratio"].as_f64().unwrap() < 1.05 && beside["p95"].as_f64().unwrap() > 0.04, "{beside}");
    assert_eq!(beside["change"], "worse", "{beside}");
    // The other way it became better: never worse, whatever its median did.
    assert_eq!(row(&json(&[&slow, &base], &[]), "disk", "read_await_seconds")["beside"][0]["change"], "better");
}

#[test]
fn the_same_load_twice_is_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let base = recording(folder.path(), "base", LOAD, 1, ["", ""]);
    let again = recording(folder.path(), "again", LOAD, 99, ["", ""]);
    let told = json(&[&base, &again], &[]);
    let changes: Vec<&Value> =
        told["figures"].as_array().unwrap().iter().filter(|row| row["beside"][0]["change"] != "none").collect();
    assert!(changes.is_empty(), "{changes:?}");
    assert_eq!(told["findings"].as_array().unwrap().len(), 0);
    assert!(compare(&[&base, &again], &[]).1.contains("no figure changed"));
}

#[test]
fn the_cost_of_an_operation_is_computed() {
    let folder = tempfile::tempdir().unwrap();
    let base = recording(folder.path(), "base", LOAD, 1, ["", ""]);
    let lean = recording(folder.path(), "lean", Load { busy_ticks: 25, reads: 50, ..LOAD }, 2, ["", ""]);
    // Marks from the third sample (2 s in) to the last: 38 s, in which 3,800 operations were counted.
    let marked = recording(folder.path(), "marked", LOAD, 3, ["ops 1000", "ops 4800"]);
    let told = json(&[&base, &lean, &marked], &["--ops", "BASE=4000,lean=8000"]);
    let cost = |side: usize, name: &str| told["recordings"][side]["per_operation"][name].clone();
    // 40 s: 0.5 of a CPU, 1000 switches, 100 reads of 4 KiB, 20 writes of 8 KiB per second; dm-0 passes its requests on to sda.
    near(&cost(0, "operations_per_second"), 100.0);
    near(&cost(0, "cpu_seconds"), 0.5 * 40.0 / 4000.0);
    near(&cost(0, "context_switches"), 10.0);
    near(&cost(0, "reads"), 1.0);
    near(&cost(0, "writes"), 0.2);
    near(&cost(0, "read_bytes"), 4096.0);
    near(&cost(0, "written_bytes"), 0.2 * 8192.0);
    near(&told["recordings"][1]["relative_to_base"]["operations_per_second"], 2.0);
    near(&told["recordings"][1]["relative_to_base"]["cpu_seconds"], 0.25);
    near(&told["recordings"][1]["relative_to_base"]["reads"], 0.25);
    assert_eq!(told["recordings"][2]["operations"], 3800.0);
    near(&cost(2, "operations_per_second"), 100.0);
    near(&cost(2, "context_switches"), 10.0);
    // A device selected by name, although it is stacked on another.
    let named = json(&[&base, &lean], &["--ops", "4000,8000", "--disk", "sda,dm-0"]);
    near(&named["recordings"][0]["per_operation"]["reads"], 2.0);
    let (_, text, _) = compare(&[&base, &lean], &["--ops", "4000,8000"]);
    assert!(text.contains("PER OPERATION") && text.contains("2.00×") && text.contains("5.00 ms"), "{text}");
}

/// A recording in which a command printed a total 300 ms before each sample but the first.
fn counted(folder: &Path, name: &str, total: impl Fn(u64) -> Result<u64, Absent>) -> PathBuf {
    let file = folder.join(format!("{name}.stalltop"));
    let list = samples(LOAD, 40, 5).into_iter().zip(0..).map(|(sample, second)| {
        let at_boottime_ns = sample.at.boottime_ns - 300_000_000;
        let operations = total(second).map(|total| Operations { total: Counter(total), printed_boottime_ns: at_boottime_ns });
        Arc::new(Sample { operations, ..(*sample).clone() })
    });
    support::record_into(&file, "host", &list.collect::<Vec<_>>(), ["", ""]);
    file
}

#[test]
fn recorded_operations_need_no_ops_option() {
    let folder = tempfile::tempdir().unwrap();
    let base =
        counted(folder.path(), "base", |second| if second == 0 { Err(Absent::NotRead) } else { Ok(1000 + 100 * second) });
    // The command prints nothing for a while; later its counter is reset.
    let lame = counted(folder.path(), "lame", |second| match second {
        10..=19 => Err(Absent::Malformed),
        30.. => Ok(50 * (second - 30)),
        _ => Ok(1 << 40 | (50 * second)),
    });
    let none = recording(folder.path(), "none", LOAD, 1, ["", ""]);
    let told = json(&[&base, &lame, &none], &[]);
    let cost = |side: usize, name: &str| told["recordings"][side]["per_operation"][name].clone();
    // From 1 s to 40 s.
    assert_eq!(told["recordings"][0]["operations"], 3900.0);
    near(&cost(0, "operations_per_second"), 100.0);
    near(&cost(0, "cpu_seconds"), 0.005);
    near(&cost(0, "context_switches"), 10.0);
    near(&cost(0, "reads"), 1.0);
    // All but the second in which the total fell: 39 of 40.
    assert_eq!(told["recordings"][1]["operations"], 50.0 * 39.0);
    near(&cost(1, "operations_per_second"), 50.0);
    near(&cost(1, "reads"), 2.0);
    near(&told["recordings"][1]["relative_to_base"]["operations_per_second"], 0.5);
    assert_eq!(told["recordings"][2]["per_operation"], Value::Null);
    // `--ops` overrides the recorded operations.
    let said = json(&[&base, &lame], &["--ops", "BASE=8000"]);
    assert_eq!((&said["recordings"][0]["operations"], &said["recordings"][1]["operations"]), (&8000.0.into(), &1950.0.into()));
    let (_, text, _) = compare(&[&base, &lame], &[]);
    assert!(text.contains("PER OPERATION") && text.contains("0.50×"), "{text}");
}

#[test]
fn findings_are_new_or_gone() {
    let told = json(&[&lab("16-idle-pool"), &lab("15-lock-convoy")], &[]);
    let findings = told["findings"].as_array().unwrap();
    let stuck = findings.iter().find(|finding| finding["kind"] == "idle-but-blocked").unwrap();
    assert_eq!(stuck["severity"], serde_json::json!([null, "critical"]));
    let (_, text, _) = compare(&[&lab("16-idle-pool"), &lab("15-lock-convoy")], &[]);
    assert!(text.contains("new  critical: idle-but-blocked") && text.contains("▲ cpu %blocked"), "{text}");
    let (_, back, _) = compare(&[&lab("15-lock-convoy"), &lab("16-idle-pool")], &[]);
    assert!(back.contains("gone critical: idle-but-blocked") && back.contains("▽ cpu %blocked"), "{back}");
}

#[test]
fn each_recording_has_its_own_sentence() {
    let files = [lab("16-idle-pool"), lab("15-lock-convoy"), lab("01-commit-serialised-db")];
    let told = json(&[&files[0], &files[1], &files[2]], &[]);
    let stuck = told["findings"].as_array().unwrap().iter().find(|finding| finding["kind"] == "idle-but-blocked").unwrap();
    let sentences = stuck["sentences"].as_array().unwrap();
    assert!(sentences[0].is_null() && sentences[1].is_string() && sentences[2].is_string(), "{stuck}");
    assert_ne!(sentences[1], sentences[2]);
    assert_eq!(stuck["sentence"], sentences[2]);
    let (_, text, _) = compare(&[&files[0], &files[1], &files[2]], &[]);
    let unfolded = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in &sentences[1..] {
        assert!(unfolded.contains(sentence.as_str().unwrap()), "{sentence}\n{text}");
    }
}

#[test]
fn wrong_counts_are_wrong_usage() {
    let lab = lab("16-idle-pool");
    for ops in ["0", "-1", "x=", "NaN", "1,2,3", "nobody=5"] {
        let (code, stdout, stderr) = compare(&[&lab, &lab], &[&format!("--ops={ops}")]);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{ops}: {stderr}");
    }
    assert_eq!(compare(&[&lab], &[]).0, 2);
    assert_eq!(compare(&[&lab, Path::new("/proc/self/exe")], &[]).0, 4);
}
