//! What recording costs and how small it is: time to encode and to decode a sample, bytes a sample.
//!
//! `cargo bench --bench encoding`. The sizes are printed first; they need no statistics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a benchmark may fail loudly, and prints its figures"
)]

#[path = "../tests/recording/generator.rs"]
mod generator;

use std::hint::black_box;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};
use generator::Machine;
use stalltop::recording::{Recorder, RecorderOptions, Replayer, Tape};
use stalltop::sample::Sample;

fn main() {
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
    let options = RecorderOptions { queue: samples.len() + 1, ..RecorderOptions::default() };
    let mut recorder = Recorder::stream(sink.clone(), &generator::meta(), options).unwrap();
    for sample in samples {
        recorder.offer(sample.clone());
    }
    recorder.finish(Duration::from_secs(600));

    sink.0.lock().unwrap().clone()
}

/// The figures of docs/recording-format.md.
fn sizes() {
    let goals = [(200, 0, 400), (200, 20, 800), (2000, 20, 2000), (2000, 200, 4000)];
    println!(
        "{:>10} {:>6} {:>14} {:>8} {:>12} {:>14}",
        "processes", "busy", "bytes/sample", "goal", "of key frames", "µs to encode"
    );
    for (processes, busy, goal) in goals {
        let samples = stream(processes, busy, 600);
        let bytes = record(&samples).len() as f64 / samples.len() as f64;
        let mut keys = 0;
        let mut tape = Tape::new(samples.len(), usize::MAX, Default::default());
        let began = Instant::now();
        for sample in &samples {
            let before = tape.bytes();
            tape.push(sample);
            // No delta of these streams comes near a key frame's size.
            let grown = tape.bytes() - before;
            if grown > 5000 + 10 * busy {
                keys += grown;
            }
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / samples.len() as f64;
        let keys = keys as f64 / samples.len() as f64;
        println!("{processes:>10} {busy:>6} {bytes:>14.0} {goal:>8} {keys:>12.0} {each:>14.0}");
    }
    println!();
}

fn encoding(criterion: &mut Criterion, samples: &[Arc<Sample>]) {
    let mut group = criterion.benchmark_group("encode 2000 processes, 20 busy");
    group.throughput(Throughput::Elements(1));
    let mut tape = Tape::new(60, 16 << 20, Default::default());
    let mut next = samples.iter().cycle();
    group.bench_function("a sample, key frames included", |bencher| {
        bencher.iter(|| next.next().map(|sample| tape.push(black_box(sample))));
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
