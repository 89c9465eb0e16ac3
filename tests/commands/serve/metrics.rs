//! The metrics of recordings and of synthetic machines: format, names, labels and number of series.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::synthetic::{cgroup_id, cpu_times, disk, host, latency_bucket, nic, operations, sample, traffic};
use stalltop::app::evaluation::SampleEvaluator;
use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator};
use stalltop::ids::DiskId;
use stalltop::recording::Replayer;
use stalltop::report::openmetrics::names::METRICS;
use stalltop::report::openmetrics::{Exporter, Format, MetricFamily, SamplingStatus, Value, encode};
use stalltop::sample::block_latencies::BlockLatencies;
use stalltop::sample::cgroup::{Cgroup, CgroupPressure};
use stalltop::sample::disk::Operation;
use stalltop::sample::pressure::{Stall, StallLine};
use stalltop::units::Counter;

/// The largest number of series of a machine with a few disks, interfaces and cgroups.
const MAX_SERIES: usize = 200;

/// Each interval of a recording, and the metrics after it.
fn evaluated(recording: &str) -> Vec<(Evaluation, Vec<MetricFamily>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(recording);
    let mut replayer = Replayer::open(&path).unwrap();
    let mut evaluator = SampleEvaluator::new(replayer.host(0), Evaluator::new(Baselines::default()));
    let mut exporter = Exporter::new("1.2.3");
    let mut all = Vec::new();
    for index in 0..replayer.len() {
        let Some(evaluation) = evaluator.evaluate(replayer.sample(index).unwrap()) else { continue };
        let families = exporter.metric_families(&evaluation, SamplingStatus { duration_seconds: Some(0.001), missed: 0 });
        all.push((evaluation, families));
    }
    assert!(all.len() > 3, "{recording}");
    all
}

/// The metrics after each interval of a recording.
pub fn exported(recording: &str) -> Vec<Vec<MetricFamily>> {
    evaluated(recording).into_iter().map(|(_, families)| families).collect()
}

pub const RECORDINGS: &[&str] = &[
    "tests/recordings/lab/01-commit-serialised-db.stalltop",
    "tests/recordings/lab/10-half.stalltop",
    "tests/recordings/lab/13-cgroup-throttled.stalltop",
    "tests/recordings/lab/15-lock-convoy.stalltop",
    "tests/recordings/lab/16-idle-pool.stalltop",
    "tests/recordings/v1.0-linux-6.18-1.stalltop",
    "assets/demo/5-throttled-container.stalltop",
];

fn text(families: Vec<MetricFamily>, format: Format) -> String {
    String::from_utf8(encode(&Arc::from(families), format)).unwrap()
}

/// Series as `name{label="value"}` without values, by an independent parser.
fn parse(text: &str) -> Vec<prometheus_parse::Sample> {
    let lines = text.lines().map(|line| Ok::<_, std::io::Error>(line.to_owned()));
    prometheus_parse::Scrape::parse(lines).unwrap().samples
}

#[test]
fn an_independent_parser_reads_bounded_series_without_pids() {
    for recording in RECORDINGS {
        for families in exported(recording) {
            let text = text(families, Format::Text);
            let samples = parse(&text);
            let lines = text.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(samples.len(), lines, "{recording}: every line is read\n{text}");
            assert!(samples.len() > 30 && samples.len() <= MAX_SERIES, "{recording}: {} series", samples.len());
            let mut seen = BTreeSet::new();
            for sample in &samples {
                assert!(seen.insert(format!("{}{:?}", sample.metric, sample.labels)), "{recording}: twice: {sample:?}");
                for label in sample.labels.keys() {
                    assert!(!label.contains("pid") && !label.contains("tid"), "{recording}: {sample:?}");
                }
            }
        }
    }
}

#[test]
fn both_formats_have_the_same_series() {
    let mut last = [Format::Text, Format::OpenMetrics].map(|format| {
        let text = text(exported(RECORDINGS[0]).pop().unwrap(), format);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    });
    let open_metrics = std::mem::take(&mut last[1]);
    assert_eq!(last[0], open_metrics);
}

#[test]
fn a_blocked_database_is_told_with_what_it_waits_for() {
    let all = exported("tests/recordings/lab/15-lock-convoy.stalltop");
    let last = text(all.into_iter().last().unwrap(), Format::Text);
    let has = |start: &str, end: &str| last.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    assert!(has("stalltop_finding_active{kind=\"idle-but-blocked\",severity=\"critical\"}", " 1.0"), "{last}");
    assert!(
        last.contains("stalltop_wait_chain_info{group=\"convoy\",call=\"fsync\",behind=\"worker\",device=\"loop"),
        "{last}"
    );
    let samples = parse(&last);
    let value = |name: &str| {
        let sample = samples.iter().find(|sample| sample.metric == name).unwrap_or_else(|| panic!("{name}\n{last}"));
        match sample.value {
            prometheus_parse::Value::Gauge(value)
            | prometheus_parse::Value::Counter(value)
            | prometheus_parse::Value::Untyped(value) => value,
            ref other => panic!("{name}: {other:?}"),
        }
    };
    let (blocked, free) = (value("stalltop_idle_blocked_seconds_total"), value("stalltop_idle_free_seconds_total"));
    assert!(blocked > 3.0 * free && blocked > 5.0, "{blocked} of {free}");
    assert!(value("stalltop_idle_blocked_ratio") > 0.7, "{last}");
}

/// Counters never decrease, and no series vanishes.
#[test]
fn counters_grow() {
    for recording in RECORDINGS {
        let mut before: Vec<(String, f64)> = Vec::new();
        for families in exported(recording) {
            let mut now = Vec::new();
            for family in &families {
                let name = family.metric.name;
                for (labels, value) in &family.series {
                    match value {
                        Value::Number(value) if name.ends_with("_total") => now.push((format!("{name}{labels:?}"), *value)),
                        Value::Number(_) => {}
                        Value::Histogram(histogram) => now.push((format!("{name}{labels:?}"), histogram.requests() as f64)),
                    }
                }
            }
            for (series, was) in &before {
                let Some((_, is)) = now.iter().find(|(known, _)| known == series) else {
                    panic!("{recording}: {series} is gone")
                };
                assert!(is >= was, "{recording}: {series}: {was}, then {is}");
            }
            before = now;
        }
    }
}

/// The series of a kind and a severity is the number of its findings; after they have ended it is 0, and does not vanish.
#[test]
fn active_findings_are_counted_and_ended_ones_are_0() {
    let mut ended = 0;
    for recording in RECORDINGS {
        let mut before: BTreeMap<(String, String), f64> = BTreeMap::new();
        for (evaluation, families) in evaluated(recording) {
            let mut counted: BTreeMap<(String, String), f64> = BTreeMap::new();
            for finding in evaluation.active.iter() {
                *counted.entry((finding.kind.as_str().to_owned(), finding.severity.as_str().to_owned())).or_default() += 1.0;
            }
            let mut now = BTreeMap::new();
            for (labels, value) in families.iter().filter(|family| is_count(family)).flat_map(|family| &family.series) {
                let [("kind", kind), ("severity", severity)] = labels.as_slice() else { panic!("{labels:?}") };
                let series = (kind.clone(), severity.clone());
                assert_eq!(value.number(), Some(counted.remove(&series).unwrap_or(0.0)), "{recording}: {series:?}");
                assert_eq!(now.insert(series, value.number().unwrap()), None, "{recording}: twice");
            }
            assert!(counted.is_empty(), "{recording}: not exported: {counted:?}");
            for (series, was) in &before {
                let is = now.get(series).unwrap_or_else(|| panic!("{recording}: {series:?} is gone"));
                ended += u32::from(*was > 0.0 && *is == 0.0);
            }
            before = now;
        }
    }
    assert!(ended > 0, "no finding of these recordings ends");
}

fn is_count(family: &MetricFamily) -> bool {
    family.metric.name == "stalltop_finding_active"
}

#[test]
fn every_series_is_of_a_metric_that_is_listed() {
    let listed: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    let mut found = BTreeSet::new();
    for families in RECORDINGS.iter().flat_map(|recording| exported(recording)).chain(exported_of_huge_machine()) {
        found.extend(families.iter().map(|family| family.metric.name));
        for family in &families {
            for (labels, _) in &family.series {
                assert!(labels.iter().map(|(name, _)| name).eq(family.metric.labels), "{}: {labels:?}", family.metric.name);
            }
        }
    }
    assert!(found.is_subset(&listed), "{found:?}");
    let missing: Vec<&&str> = listed.difference(&found).collect();
    assert!(missing.is_empty(), "no machine has {missing:?}");
}

/// Whether promtool is installed; otherwise says so.
pub fn has_promtool() -> bool {
    let there = Command::new("promtool").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !there {
        println!("skipped: promtool is not installed (apt-get install prometheus)");
    }
    there
}

#[test]
fn promtool_has_no_objection() {
    if !has_promtool() {
        return;
    }
    for recording in RECORDINGS {
        let text = text(exported(recording).pop().unwrap(), Format::Text);
        assert_eq!(promtool_check(&text), "", "{recording}");
    }
}

/// What `promtool check metrics` says of the text.
fn promtool_check(text: &str) -> String {
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if output.status.success() { said.into_owned() } else { format!("{}: {said}", output.status) }
}

/// The metrics of a machine with 500 disks, interfaces and cgroups. Names are chosen by whoever creates a device or a container.
pub fn exported_of_huge_machine() -> Vec<Vec<MetricFamily>> {
    let names = |number: u64| format!("a\"b\\c\n# EOF\r{{}}\u{202e}{}{number}", "x".repeat(300));
    let at = |second: u64| {
        let times = cpu_times(second * 10, 0, second * 90, 0);
        let mut machine = sample(second as f64).cpus([times, times]);
        let mut cgroups = Vec::new();
        for number in 0..500_u32 {
            let name = format!("{number:03}{}", names(number.into()));
            let reads = operations(second * 10, 4, second * u64::from(number + 1));
            machine = machine.disk(disk(name.as_str()).id(8, number).reads(reads));
            let sent = traffic(second * u64::from(number), second);
            machine = machine.nic(nic(number + 1, name.as_str()).rx(traffic(second * 1000, second)).tx(sent).speed_mbps(1000));
            let counter = Some(Counter(second * 1_000_000));
            let mut group = Cgroup::new(cgroup_id(&format!("/{name}")));
            (group.quota_us, group.period_us) = (Some(20_000), Some(100_000));
            (group.usage_ns, group.throttled_ns) = (counter, counter);
            group.pressure = CgroupPressure {
                cpu_some_us: counter,
                io_some_us: counter,
                io_full_us: counter,
                memory_some_us: counter,
                memory_full_us: counter,
            };
            cgroups.push(group);
        }
        let disks = (0..500).map(|minor| DiskId { major: 8, minor });
        let of_disk = |disk| {
            let each = [(Operation::Read, 60), (Operation::Read, 110), (Operation::Write, 70), (Operation::Flush, 90)];
            each.map(|(operation, bucket)| latency_bucket(disk, operation, bucket, second * u64::from(bucket)))
        };
        let requests = BlockLatencies { since_boottime_ns: 1, buckets: disks.flat_map(of_disk).collect() };
        let line = StallLine { total_us: Counter(second * 1000), ..StallLine::default() };
        machine
            .with(|sample| {
                sample.cgroups = Ok(cgroups);
                sample.block_latencies = Ok(requests);
                sample.pressure.irq = Ok(Stall { some: None, full: Some(line) });
            })
            .shared()
    };
    let mut evaluator = SampleEvaluator::new(Arc::new(host()), Evaluator::new(Baselines::default()));
    let mut exporter = Exporter::new("1.2.3");
    let evaluations = (1..5).filter_map(|second| evaluator.evaluate(at(second)));
    evaluations.map(|evaluation| exporter.metric_families(&evaluation, SamplingStatus::default())).collect()
}

#[test]
fn a_huge_machine_with_hostile_names_has_bounded_series_of_one_line_each() {
    let all = exported_of_huge_machine();
    assert_eq!(all.len(), 3);
    for families in all {
        let text = text(families, Format::Text);
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series > 200 && series < 700, "{series}");
        for line in text.lines() {
            let known = ["# HELP stalltop_", "# TYPE stalltop_", "stalltop_"].iter().any(|start| line.starts_with(start));
            assert!(known && line.len() < 600 && !line.contains('\u{202e}'), "{line}");
        }
        for subject in ["disk", "interface", "cgroup"] {
            assert!(text.contains(&format!("stalltop_left_out{{subject=\"{subject}\"}} 484.0")), "{text}");
        }
        if has_promtool() {
            assert_eq!(promtool_check(&text), "");
        }
    }
}
