//! Instructions of every hot path, counted by valgrind: the same on every machine and at every load. Fails when one grew by more
//! than a tenth over the committed figure.
//!
//! `cargo run --release --example instructions`; `STALLTOP_BLESS='reason'` writes the figures again. What the kernel does is not counted:
//! docs/cost.md measures that.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark may fail loudly, and prints its figures")]

#[path = "../tests/recording/generator.rs"]
mod generator;
#[path = "../tests/frames/machine.rs"]
mod machine;
#[path = "../tests/frames/network.rs"]
mod network;
#[path = "../tests/support/proc_tree.rs"]
mod proc_tree;
#[path = "../tests/frames/scenes.rs"]
#[allow(dead_code, reason = "the frames' tests use the other scenes")]
mod scenes;
#[path = "../tests/support/synthetic.rs"]
mod synthetic;

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use proc_tree::{FIRST_PID, SampledTree};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stalltop::baseline::Baselines;
use stalltop::findings::Evaluator;
use stalltop::interval::{Interval, IntervalContext};
use stalltop::kernel::{Root, Sampler};
use stalltop::recording::{HistoryRing, Redaction};
use stalltop::sample::Sample;
use stalltop::state::{Event, Key, Source, update};
use stalltop::view;

/// Where the figures are kept.
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// A path may grow so much.
const MOST_GROWTH: f64 = 0.10;
/// Set in the process that valgrind runs.
const COUNTED: &str = "STALLTOP_COUNTED";
/// Each path is walked so often, and the cheapest walk counts: what comes up now and then (a list that grows, facts that are
/// due again) is not the path's.
const TIMES: usize = 5;

fn main() -> ExitCode {
    if std::env::var_os(COUNTED).is_some() {
        walk_all(&mut |name, work| {
            println!("{name}");
            (0..TIMES).for_each(|_| stalltop_counted(black_box(work)));
        });
        return ExitCode::SUCCESS;
    }
    match count() {
        Ok(figures) => compare(&figures),
        Err(why) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
    }
}

/// Callgrind counts inside this function only, and writes down what it has counted whenever that ends.
#[inline(never)]
#[allow(unsafe_code, reason = "valgrind finds the function by its name")]
#[unsafe(no_mangle)]
extern "Rust" fn stalltop_counted(work: &mut dyn FnMut()) {
    work();
}

/// Each path by its name. What goes before a path is not counted.
fn walk_all(walk: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
    looking(walk);
    understanding(walk);
    drawing(walk);
    keeping(walk);
}

fn looking(walk: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
    let captured = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel/trees/6.18-captured");
    let mut sampler = Sampler::new(Root::at_directory(captured)).unwrap();
    (0..8).for_each(|_| drop(sampler.sample()));
    walk("sample, the system's files", &mut || drop(black_box(sampler.sample())));

    let mut crowd = SampledTree::new(2000, 1);
    walk("sample, 2000 processes asleep", &mut || {
        black_box(crowd.sample());
    });
    walk("sub-sample, 2000 processes asleep", &mut || crowd.sub_sample());
    let mut ran = 0;
    let mut busy = |crowd: &mut SampledTree| {
        ran += 1;
        for pid in FIRST_PID..FIRST_PID + 100 {
            crowd.run(pid, pid, ran);
            crowd.clock(pid, ran);
        }
    };
    for _ in 0..4 {
        busy(&mut crowd);
        crowd.sample();
    }
    walk("sample, 100 of 2000 processes ran", &mut || {
        busy(&mut crowd);
        black_box(crowd.sample());
    });
    walk("sub-sample, 100 of 2000 processes ran", &mut || {
        busy(&mut crowd);
        crowd.sub_sample();
    });
    drop(crowd);

    let mut pool = SampledTree::new(1, 2000);
    let mut ran = 0;
    let mut busy = |pool: &mut SampledTree| {
        ran += 1;
        (FIRST_PID..FIRST_PID + 50).for_each(|tid| pool.run(FIRST_PID, tid, ran));
        pool.clock(FIRST_PID, ran * 50);
    };
    for _ in 0..4 {
        busy(&mut pool);
        pool.sample();
    }
    walk("sample, 50 of 2000 threads ran", &mut || {
        busy(&mut pool);
        black_box(pool.sample());
    });
}

fn understanding(walk: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
    let samples = stream(40);
    let host = Arc::new(generator::meta().host);
    let between = |at: usize| Interval::between(&host, &samples[at], &samples[at + 1]).unwrap();
    let (mut at, mut before) = (0, between(0));
    walk("interval, 2000 processes, 20 busy", &mut || {
        at += 1;
        let totals = before.process_totals().map(AsRef::as_ref);
        let context = IntervalContext { older_totals: totals, ..IntervalContext::default() };
        before = black_box(Interval::with_context(&host, &samples[at], &samples[at + 1], context).unwrap());
    });
    let mut evaluator = Evaluator::new(Baselines::default());
    (0..20).for_each(|at| drop(evaluator.evaluate(between(at))));
    let mut intervals: Vec<Interval> = (20..20 + TIMES).rev().map(between).collect();
    walk("evaluate, 2000 processes, 20 busy", &mut || drop(black_box(evaluator.evaluate(intervals.pop().unwrap()))));
}

fn drawing(walk: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
    let mut crowd = scenes::lock_convoy();
    crowd.workers.extend((0..2000).map(|at| scenes::idle(10_000 + at * 8, b"worker")));
    let intervals = crowd.intervals(12, 6);
    let mut state = synthetic::screen((200, 50), Source::Live);
    for evaluation in &intervals {
        update(&mut state, Event::Evaluation(evaluation.clone()));
    }
    let mut frames = Terminal::new(TestBackend::new(200, 50)).unwrap();
    let screens = [
        ('1', "frame 200x50, overview"),
        ('2', "frame 200x50, cpu"),
        ('3', "frame 200x50, disk"),
        ('4', "frame 200x50, network"),
        ('5', "frame 200x50, tasks"),
        ('6', "frame 200x50, findings"),
    ];
    for (key, name) in screens {
        update(&mut state, Event::Key(Key::Char(key)));
        frames.draw(|frame| drop(view::render(&state, frame))).unwrap();
        walk(name, &mut || assert!(black_box(frames.draw(|frame| drop(view::render(&state, frame)))).is_ok()));
    }
    update(&mut state, Event::Resize { width: 80, height: 24 });
    let mut small_frames = Terminal::new(TestBackend::new(80, 24)).unwrap();
    for (key, name) in [('1', "frame 80x24, overview"), ('5', "frame 80x24, tasks")] {
        update(&mut state, Event::Key(Key::Char(key)));
        small_frames.draw(|frame| drop(view::render(&state, frame))).unwrap();
        walk(name, &mut || assert!(black_box(small_frames.draw(|frame| drop(view::render(&state, frame)))).is_ok()));
    }
    update(&mut state, Event::Resize { width: 200, height: 50 });
    let newest = intervals.last().unwrap();
    for (key, name) in [('1', "state, overview"), ('5', "state, tasks")] {
        update(&mut state, Event::Key(Key::Char(key)));
        walk(name, &mut || drop(black_box(update(&mut state, Event::Evaluation(newest.clone())))));
    }
}

fn keeping(walk: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
    let samples = stream(40);
    let mut at = 0;
    let mut ring = HistoryRing::new(600, usize::MAX, Redaction::Nothing);
    walk("encode a key frame, 2000 processes", &mut || {
        let mut ring = HistoryRing::new(1, usize::MAX, Redaction::Nothing);
        ring.push(black_box(&samples[0]));
    });
    let mut next = || {
        let kept = ring.push(black_box(&samples[at]));
        at += 1;
        kept
    };
    (0..9).for_each(|_| assert!(next()));
    // Every other frame refers to the one before; the cheapest walk is one of those.
    walk("encode, 2000 processes, 20 busy", &mut || {
        next();
    });
    while at < samples.len() {
        ring.push(&samples[at]);
        at += 1;
    }
    let mut at = 0;
    walk("decode, 2000 processes, 20 busy", &mut || {
        black_box(ring.sample(at).unwrap());
        at += 7;
    });
}

fn stream(count: usize) -> Vec<Arc<Sample>> {
    let mut machine = generator::Machine::new(1, 2000, 2000, 20, 16);
    (0..count).map(|_| machine.next()).collect()
}

/// The names of the paths in the order of the walk, and the instructions of one walk.
type Figures = Vec<(String, u64)>;

/// Walks all paths under valgrind, in a process of its own.
fn count() -> Result<Figures, String> {
    let directory = tempfile::tempdir().map_err(|error| format!("no place for what valgrind writes: {error}"))?;
    let out = directory.path().join("counts");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=stalltop_counted", "--dump-after=stalltop_counted", "--quiet"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().map_err(|error| error.to_string())?)
        .env(COUNTED, "1")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("valgrind cannot be run ({error}): apt-get install valgrind"))?;
    assert!(output.status.success(), "what valgrind ran ended with {}", output.status);
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let sum = |number: usize| {
        let text = std::fs::read_to_string(format!("{}.{number}", out.display())).unwrap();
        let sum = text.lines().find_map(|line| line.strip_prefix("summary:")).unwrap();
        sum.trim().parse::<u64>().unwrap()
    };
    let figure = |(name, at): (&str, usize)| {
        let walks = at * TIMES + 1..=(at + 1) * TIMES;
        (name.to_owned(), walks.map(sum).min().unwrap_or(0))
    };
    Ok(names.lines().zip(0..).map(figure).collect())
}

/// Against what is committed.
fn compare(figures: &Figures) -> ExitCode {
    let compiler = compiler();
    if let Ok(reason) = std::env::var("STALLTOP_BLESS") {
        let mut text = format!(
            "# Instructions of one walk along each path: cargo run --release --example instructions\n# {reason}\n{compiler}\n"
        );
        figures.iter().for_each(|(name, figure)| text += &format!("{figure:>10} {name}\n"));
        std::fs::write(COMMITTED, text).unwrap();
    }
    let committed = std::fs::read_to_string(COMMITTED).unwrap_or_default();
    let before = |wanted: &str| {
        let line = committed.lines().find(|line| line.trim_start().split_once(' ').is_some_and(|(_, name)| name == wanted))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let mut worse = 0;
    for (name, figure) in figures {
        let Some(before) = before(name) else {
            println!("{figure:>10}      new  {name}");
            worse += 1;
            continue;
        };
        let growth = *figure as f64 / before as f64 - 1.0;
        let grew = growth > MOST_GROWTH;
        worse += u32::from(grew);
        println!("{figure:>10} {:>+7.1}%  {name}{}", growth * 100.0, if grew { "  <- grew" } else { "" });
    }
    if !committed.lines().any(|line| line == compiler) {
        println!("not compared: the committed figures are of another compiler than {compiler}");
        return ExitCode::SUCCESS;
    }
    if worse > 0 {
        println!("{worse} paths grew or are new: make them cheaper, or commit the figures with STALLTOP_BLESS='the reason'");
    }
    if worse > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Another compiler makes other instructions of the same source, and so does one for another processor.
fn compiler() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or("unknown host");
    format!("{} {host}", text.lines().next().unwrap_or_default())
}
