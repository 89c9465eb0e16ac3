//! A recording whose samples are decoded ahead is evaluated as one sample after the other, also a damaged one.

use std::time::Duration;

use super::*;
use crate::interval::Interval;
use crate::recording::{Damage, Recorder, RecorderOptions, Redaction};
use crate::sample::task::TaskState;
use crate::synthetic;

/// Three key groups of a machine on which now and then a process takes a whole CPU.
fn recorded(path: &Path) -> Vec<u8> {
    let options = RecorderOptions { queue_capacity: 400, ..RecorderOptions::default() };
    let meta = recorder::meta(&synthetic::host(), Duration::from_secs(1), Redaction::Nothing);
    let mut recorder = Recorder::create(path, &meta, options).unwrap();
    for second in 0..300_u64 {
        let busy = (1..=second).filter(|second| (second / 13) % 2 == 1).count() as u64;
        let process = |pid: u32| {
            // One in five comes and goes, one in seven runs.
            let started = if pid.is_multiple_of(5) { second / 40 * 4000 } else { 0 };
            let seconds = if pid == 7 { busy } else { second / 10 };
            let ran_ns = if pid.is_multiple_of(7) { seconds * 1_000_000_000 } else { 0 };
            let state = if pid == 7 && seconds > 0 { TaskState::Running } else { TaskState::Sleeping };
            let thread = synthetic::thread(pid, "work").started(started).state(state).ran(ran_ns, 0, seconds);
            synthetic::process(pid, "work").started(started).ran(ran_ns).threads([thread])
        };
        let cpus = [synthetic::cpu_times(busy * 100, 0, (second - busy) * 100, 0), synthetic::cpu_times(0, 0, second * 100, 0)];
        recorder.offer(
            synthetic::sample(1000.0 + second as f64)
                .cpus(cpus)
                .disk(synthetic::disk("sda").reads(synthetic::operations(second * 50, 4, second * busy)))
                .processes((1..60).map(|pid| process(pid).build()))
                .shared(),
        );
    }
    recorder.finish(Duration::from_secs(60));
    std::fs::read(path).unwrap()
}

/// What a command may show of an evaluation.
fn shown(evaluation: &Evaluation) -> String {
    let Evaluation { interval, active, ended, latency_statuses, baselines, observations, .. } = evaluation;
    let Interval { seconds, cpu, tasks, disks, short_lived, idle_blocked, .. } = &**interval;
    let of_interval = format!("{seconds} {cpu:?} {tasks:?} {disks:?} {short_lived:?} {idle_blocked:?}");
    format!("{of_interval} {active:?} {ended:?} {latency_statuses:?} {baselines:?} {observations:?}")
}

fn sequential(path: &Path) -> (Vec<String>, Vec<Damage>) {
    let mut replayer = Replayer::open(path).unwrap();
    let host = Arc::new(replayer.meta().host.clone());
    let baselines = recorder::baselines(replayer.section(recorder::BASELINES_SECTION));
    let evaluator = Evaluator::new(baselines).with_rule_config(Settings::default().rule_config_for(&host));
    let mut evaluator = SampleEvaluator::new(host, evaluator);
    let mut list = Vec::new();
    let mut index = 0;
    while index < replayer.len() {
        if let Ok(sample) = replayer.sample(index) {
            list.extend(evaluator.evaluate_for_host(&replayer.host(index), sample).map(|evaluation| shown(&evaluation)));
        }
        index += 1;
    }
    (list, replayer.damage().to_vec())
}

fn decoded_ahead(path: &Path) -> (Vec<String>, Vec<Damage>) {
    let mut recorded = EvaluatedRecording::open(path, &Settings::default()).unwrap();
    let list = recorded.by_ref().map(|evaluation| shown(&evaluation)).collect();
    (list, recorded.replayer().damage().to_vec())
}

#[test]
fn a_recording_that_is_decoded_ahead_is_evaluated_as_one_sample_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.stalltop");
    let whole = recorded(&path);
    let (list, damage) = decoded_ahead(&path);
    assert_eq!((list.len(), damage.len()), (299, 0));
    assert!(list.iter().any(|shown| shown.contains("SaturatedCore")), "no finding");
    let third = whole.len() / 3;
    let flipped = |at: usize| [&whole[..at], &[!whole[at]], &whole[at + 1..]].concat();
    // As long as before, so that its index is read, and is wrong in the middle.
    let moved = [&whole[..third], &whole[third + 7..2 * third], &[0; 7], &whole[2 * third..]].concat();
    let cases = [
        whole.clone(),
        flipped(third),
        [&flipped(third)[..2 * third], &flipped(2 * third)[2 * third..]].concat(),
        whole[..2 * third].to_vec(),
        moved,
    ];
    for (case, bytes) in cases.into_iter().enumerate() {
        let path = folder.path().join(format!("{case}.stalltop"));
        std::fs::write(&path, bytes).unwrap();
        let ((list, damage), (sequential, found)) = (decoded_ahead(&path), sequential(&path));
        assert_eq!(list.len(), sequential.len(), "case {case}");
        for (index, (ahead, sequential)) in list.iter().zip(&sequential).enumerate() {
            assert_eq!(ahead, sequential, "case {case}, interval {index}");
        }
        assert_eq!(damage, found, "case {case}");
    }
}

#[test]
fn recordings_of_real_machines_too() {
    for name in ["01-commit-serialised-db", "09-depth64", "13-cgroup-throttled", "15-lock-convoy"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{name}.stalltop"));
        assert_eq!(decoded_ahead(&path), sequential(&path), "{name}");
    }
}

#[test]
fn tables_without_tasks_are_the_same_without_them() {
    for name in ["09-depth64", "10-full", "13-cgroup-throttled"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/recordings/lab/{name}.stalltop"));
        for table in figures::TABLES.iter().filter(|table| !figures::needs_tasks(**table)) {
            let columns: Vec<usize> = (0..table.columns().len()).collect();
            let rows = |recorded: EvaluatedRecording| {
                recorded.map(|evaluation| table.rows(&(&evaluation).into(), &columns)).collect::<Vec<_>>()
            };
            let open = || EvaluatedRecording::open(&path, &Settings::default()).unwrap();
            assert_eq!(rows(open().for_tables(&[*table])), rows(open()), "{name}: {}", table.name());
        }
    }
}
