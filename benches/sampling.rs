//! The cost of a sample: a scan of the machine that runs this, and of a fixture tree with 10,000 threads. The tree has no
//! process CPU clocks, so every file is read each time: this measures the parser and the file layer.
//!
//! Under a load of a given size: `benches/cost/populate.py -n 2000 -- cargo bench --bench sampling`.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail loudly")]

#[path = "../tests/support/proc_tree.rs"]
mod proc_tree;

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use proc_tree::{ProcTree, ThreadFiles};
use stalltop::kernel::{Root, Sampler, task};

const THREADS: u32 = 10_000;
const STAT: &str = "S 700 40 40 0 -1 4194304 1093 0 12 0 417 233 0 0 20 0 10000 0 245727 168296448 2103 18446744073709551615 \
    94006 94015 140722 0 0 0 0 4096 17663 0 0 0 17 1 0 0 3 0 0 94025 94026 94057 140722 140723 140723 140724 0\n";

fn sampling(criterion: &mut Criterion) {
    parsing(criterion);
    let mut live = criterion.benchmark_group("live");
    if let Ok(mut sampler) = Sampler::new(Root::host()) {
        // Slow facts are read over the first samples.
        let tasks = (0..10).filter_map(|_| sampler.sample().tasks.ok()).last();
        let threads = tasks.map_or(0, |tasks| tasks.processes.iter().map(|process| process.threads.len()).sum());
        sampler.set_sub_sample_cpu_share(f64::INFINITY);
        live.throughput(Throughput::Elements(threads as u64));
        live.bench_function("sample", |bencher| bencher.iter(|| black_box(sampler.sample())));
        live.bench_function("sub-sample", |bencher| {
            bencher.iter(|| black_box(sampler.sub_sample()));
            // What was seen is handed over, as a sampler's owner does each second.
            sampler.sample();
        });
    }
    live.finish();
    let files = ProcTree::new();
    let threads: Vec<ThreadFiles<'_>> = (40..40 + THREADS).map(ThreadFiles::sleeping).collect();
    files.process(40, "worker", 2457, 144_936_823 * u64::from(THREADS), &threads);
    let mut tree = criterion.benchmark_group("tree of 10,000 threads");
    tree.sample_size(10).throughput(Throughput::Elements(u64::from(THREADS)));
    tree.bench_function("first sample", |bencher| {
        bencher.iter(|| Sampler::new(files.root()).map(|mut sampler| black_box(sampler.sample())))
    });
    if let Ok(mut sampler) = Sampler::new(files.root()) {
        sampler.sample();
        tree.bench_function("next sample", |bencher| bencher.iter(|| black_box(sampler.sample())));
    }
    tree.finish();
}

fn parsing(criterion: &mut Criterion) {
    let stat = format!("40 (worker) {STAT}");
    let mut group = criterion.benchmark_group("parse");
    group.bench_function("stat", |bencher| {
        bencher.iter(|| task::parse_stat(black_box(stat.as_bytes())).map(|stat| stat.user_ticks))
    });
    group.bench_function("schedstat", |bencher| bencher.iter(|| task::parse_schedstat(black_box(b"144936823 902341 18273\n"))));
    group.bench_function("syscall", |bencher| {
        bencher.iter(|| task::parse_syscall(black_box(b"202 0x7f2f 0x80 0x2 0x0 0x0 0x0 0x7ffd 0x7f2f\n")))
    });
    group.finish();
}

criterion_group!(benches, sampling);
criterion_main!(benches);
