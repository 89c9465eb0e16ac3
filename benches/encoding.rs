//! The cost of recording: time to encode and to decode a sample, bytes per sample.
//!
//! `cargo bench --bench encoding` prints the sizes first; they need no statistics.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail loudly, and prints its figures")]

#[path = "../tests/recording/generator.rs"]
mod generator;
#[path = "../tests/recording/places.rs"]
mod places;
#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use criterion::{Criterion, Throughput};
use generator::Machine;
use places::frames;
use stalltop::recording::{FrameSummary, HistoryRing, Recorder, RecorderOptions, RecordingProgress, Replayer, SummarySeverity};
use stalltop::sample::Sample;

fn main() {
    if let Some(keep) = std::env::var_os("STALLTOP_DAY") {
        return day(keep.as_ref());
    }
    sizes();
    let mut criterion = Criterion::default().sample_size(20).configure_from_args();
    let samples = stream(2000, 20, 240);
    encoding(&mut criterion, &samples);
    decoding(&mut criterion, &samples);
    criterion.final_summary();
}

fn stream(processes: u32, busy: usize, count: usize) -> Vec<Arc<Sample>> {
    let mut machine = Machine::new(1, processes, processes, busy, 16);
    (0..count).map(|_| machine.next()).collect()
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Ok(mut held) = self.0.lock() {
            held.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn record(samples: &[Arc<Sample>]) -> Vec<u8> {
    let sink = Sink::default();
    let options = RecorderOptions { queue_capacity: samples.len() + 1, ..RecorderOptions::default() };
    let mut recorder = Recorder::from_writer(sink.clone(), &generator::meta(), options).unwrap();
    for sample in samples {
        recorder.offer(sample.clone());
    }
    recorder.finish(Duration::from_secs(600));

    sink.0.lock().unwrap().clone()
}

/// Processes, busy ones among them, and the goal in bytes per sample.
const GOALS: [(u32, usize, usize); 4] = [(200, 0, 400), (200, 20, 800), (2000, 20, 2000), (2000, 200, 4000)];

/// The figures of docs/recording-format.md.
fn sizes() {
    println!(
        "{:>10} {:>6} {:>14} {:>8} {:>12} {:>14}",
        "processes", "busy", "bytes/sample", "goal", "of key frames", "µs of CPU"
    );
    for (processes, busy, goal) in GOALS {
        let samples = stream(processes, busy, 600);
        let recording = record(&samples);
        let bytes = recording.len() as f64 / samples.len() as f64;
        let keys = key_bytes(&recording) as f64 / samples.len() as f64;
        let mut ring = HistoryRing::new(samples.len(), usize::MAX, Default::default());
        let began = cpu_time();
        for sample in &samples {
            ring.push(sample);
        }
        let each = (cpu_time() - began).as_secs_f64() * 1e6 / samples.len() as f64;
        println!("{processes:>10} {busy:>6} {bytes:>14.0} {goal:>8} {keys:>12.0} {each:>14.0}");
    }
    println!();
}

/// Bytes of the key frames of an intact recording, headers included.
fn key_bytes(recording: &[u8]) -> usize {
    frames(recording).iter().filter(|place| place.is_key()).map(|place| place.length).sum()
}

/// Samples of a recording of 24 hours.
const DAY: usize = 86_400;

/// A recording of 24 hours: how long it takes to open, to jump, to step. `STALLTOP_DAY=1 cargo bench --bench encoding`; with the
/// name of a directory it is kept there with a second one, for `report` and `compare`.
fn day(keep: &Path) {
    let directory = tempfile::tempdir().unwrap();
    let path = if keep.is_dir() { keep } else { directory.path() }.join("day.stalltop");
    let kept = record_day(&path, 1);
    println!("{} samples, {:.0} bytes each, {} lost", kept.samples, kept.bytes as f64 / kept.samples as f64, kept.lost_samples);
    if keep.is_dir() {
        record_day(&keep.join("day2.stalltop"), 2);
    }
    let before = resident();
    // CPU time, in ms: what it takes on a machine that has nothing else to do, with the file in the page cache.
    let timed = |run: &mut dyn FnMut()| {
        let began = cpu_time();
        run();
        (cpu_time() - began).as_secs_f64() * 1e3
    };
    let mut open = None;
    println!("open by the index: {:.1} ms", timed(&mut || open = Replayer::open(&path).ok()));
    let mut replayer = open.unwrap();
    let cut = directory.path().join("cut.stalltop");
    std::fs::copy(&path, &cut).unwrap();
    std::fs::OpenOptions::new().write(true).open(&cut).unwrap().set_len(kept.bytes - 1).unwrap();
    println!("open without it: {:.1} ms", timed(&mut || drop(Replayer::open(&cut))));
    let mut dice = generator::Dice::new(1);
    let mut jumps: Vec<f64> = (0..2000)
        .map(|_| {
            let at = 1 + dice.below(DAY as u64 - 1) as usize;
            timed(&mut || drop((replayer.sample(at - 1), replayer.sample(at))))
        })
        .collect();
    jumps.sort_by(f64::total_cmp);
    println!("jump (two samples): median {:.2} ms, p99 {:.2} ms", jumps[1000], jumps[1980]);
    let steps = timed(&mut || (40_000..42_000).for_each(|at| drop(replayer.sample(at))));
    println!("step: {:.3} ms; resident: {} KiB more than before", steps / 2000.0, resident().saturating_sub(before));
}

fn record_day(path: &Path, seed: u64) -> RecordingProgress {
    let options = RecorderOptions { queue_capacity: 4000, ..RecorderOptions::default() };
    let mut recorder = Recorder::create(path, &generator::meta(), options).unwrap();
    let mut machine = Machine::new(seed, 2000, 2000, 20, 64).with_devices(8, 4);
    for offered in 0..DAY {
        // Findings now and then.
        let worst = if offered % 900 < 30 { SummarySeverity::Warning } else { SummarySeverity::NoFinding };
        let summary = FrameSummary { busy: (offered % 50) as u8, blocked: 1, worst_severity: worst };
        recorder.offer_with_summary(machine.next(), summary);
        while (offered as u64).saturating_sub(recorder.status().progress().samples) > 3000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    recorder.finish(Duration::from_secs(60)).progress()
}

/// What this thread has used.
fn cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from).unwrap()
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or_default()
}

fn encoding(criterion: &mut Criterion, samples: &[Arc<Sample>]) {
    let mut group = criterion.benchmark_group("encode 2000 processes, 20 busy");
    group.throughput(Throughput::Elements(1));
    let mut ring = HistoryRing::new(60, 16 << 20, Default::default());
    let mut next = samples.iter().cycle();
    group.bench_function("a sample, key frames included", |bencher| {
        bencher.iter(|| next.next().map(|sample| ring.push(black_box(sample))));
    });
    group.finish();
}

fn decoding(criterion: &mut Criterion, samples: &[Arc<Sample>]) {
    let mut group = criterion.benchmark_group("decode 2000 processes, 20 busy");
    let bytes = record(samples);
    let mut replayer = Replayer::from_bytes(bytes.clone()).unwrap();
    let mut at = 0;
    group.bench_function("a step forward, key frames included", |bencher| {
        bencher.iter(|| {
            at = (at + 1) % samples.len();
            black_box(replayer.sample(at).unwrap())
        });
    });
    let mut at = 0;
    group.bench_function("a jump to another key frame, and the sample before", |bencher| {
        bencher.iter(|| {
            at = (at + 97) % (samples.len() - 1);
            black_box((replayer.sample(at).unwrap(), replayer.sample(at + 1).unwrap()))
        });
    });
    group.bench_function("open", |bencher| bencher.iter(|| black_box(Replayer::from_bytes(bytes.clone()).unwrap().len())));
    group.finish();
}
