//! Twenty minutes of samples on a host where tasks, disks and interfaces come and go: memory and file descriptors do not grow once
//! the history is full.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;
use nix::sched::{CloneFlags, unshare};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stalltop::app::evaluation::SampleEvaluator;
use stalltop::app::timeline::checkpoints::CheckpointedEvaluation;
use stalltop::baseline::Baselines;
use stalltop::findings::Evaluator;
use stalltop::recording::{HistoryRing, Redaction};
use stalltop::state::{Event, Key, Setup, Source, State, TerminalCapabilities, update};
use stalltop::view;

use crate::counting_allocator::held;
use crate::proc_tree::{FIRST_PID, SampledTree};

const LENGTH: u32 = 1400;
/// Number of samples that the history keeps.
const KEPT: usize = 300;
/// From this one on it is full: it keeps up to two key groups more.
const FULL: u32 = 600;
const STEP: u32 = 200;
/// Number of permanent processes; of the others three start and three end per second.
const STEADY: u32 = 40;
const FLEETING: usize = 30;

/// Writes disks and interfaces; one is replaced every ten seconds, all counters increase.
fn devices(tree: &SampledTree, second: u32) {
    let mut disks = String::new();
    let mut nics = "Inter-| Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets \
                    errs drop fifo colls carrier compressed\n"
        .to_owned();
    for at in 0..8 {
        // Numbers are not reused soon.
        let number = if at == 0 { 100 + second / 10 } else { at };
        let k = second;
        writeln!(disks, "  7 {number:7} loop{number} {k} 0 {} {k} {k} 0 {} {k} 0 {k} {k} 0 0 0 0 0 0", 8 * k, 8 * k).unwrap();
        writeln!(nics, "veth{number}: {} {k} 0 0 0 0 0 0 {} {k} 0 0 0 0 0 0", 1000 * k, 900 * k).unwrap();
    }
    tree.machine_file("proc/diskstats", &disks);
    tree.machine_file("proc/net/dev", &nics);
    tree.machine_file("sys/kernel/uevent_seqnum", &format!("{}\n", second / 10));
    let k = second * 100;
    tree.machine_file("proc/stat", &format!("cpu  {k} 0 {k} {k} 0 0 0 0 0 0\ncpu0 {k} 0 {k} {k} 0 0 0 0 0 0\nprocesses {k}\n"));
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/thread-self/fd").unwrap().count()
}

#[test]
fn memory_and_descriptors_do_not_grow() {
    // A table of descriptors of its own: other tests run beside it.
    unshare(CloneFlags::CLONE_FILES).unwrap();
    let mut tree = SampledTree::new(STEADY, 1);
    let host = Arc::new(tree.sampler.host().clone());
    let mut evaluator = SampleEvaluator::new(host, Evaluator::new(Baselines::default()));
    let mut checkpointed = CheckpointedEvaluation::new(Evaluator::new(Baselines::default()));
    let mut ring = HistoryRing::new(KEPT, 16 << 20, Redaction::Nothing);
    let size = (80, 24);
    let setup = Setup {
        terminal: TerminalCapabilities::default(),
        source: Source::Live,
        time_zone: TimeZone::UTC,
        size,
        interval_ms: 1000,
    };
    let mut state = State::new(setup);
    let mut frames = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let mut fleeting = VecDeque::new();
    let mut next = FIRST_PID + STEADY;
    let (mut most_held, mut most_open) = (0, 0);
    let (mut full_held, mut full_open) = (0, 0);
    for second in 1..=LENGTH {
        devices(&tree, second);
        for _ in 0..3 {
            tree.begin(next);
            fleeting.push_back(next);
            next += 1;
            if fleeting.len() > FLEETING {
                tree.end(fleeting.pop_front().unwrap());
            }
        }
        for pid in FIRST_PID..FIRST_PID + 4 {
            tree.run(pid, pid, u64::from(second) * 10);
            tree.clock(pid, u64::from(second) * 10);
        }
        tree.sub_sample();
        let sample = Arc::new(tree.sample().clone());
        assert!(ring.push(&sample));
        let evaluation = evaluator.evaluate(sample);
        let numbers = ring.evicted()..ring.evicted() + ring.len() as u64;
        let newest = numbers.end - 1;
        let is_checkpoint = CheckpointedEvaluation::is_checkpoint(newest);
        checkpointed.extend(numbers.end, is_checkpoint.then(|| (newest, evaluator.evaluator().clone())));
        checkpointed.discard_before(numbers.start);
        if let Some(evaluation) = evaluation {
            update(&mut state, Event::Evaluation(evaluation));
        }
        if second % 20 == 0 {
            let screen = char::from_digit(1 + second / 20 % 6, 10).unwrap();
            update(&mut state, Event::Key(Key::Char(screen)));
            frames.draw(|frame| drop(view::render(&state, frame))).unwrap();
        }
        let (now_held, now_open) = (held(), descriptors());
        (most_held, most_open) = (most_held.max(now_held), most_open.max(now_open));
        if second % STEP == 0 {
            let counts = state.current().unwrap().interval.tasks.as_ref().unwrap().counts;
            println!("{second:4} s: at most {most_held} bytes, {most_open} descriptors; {} processes", counts.processes);
            assert_eq!(counts.processes as usize, STEADY as usize + FLEETING);
            if second == FULL {
                (full_held, full_open) = (most_held, most_open);
            } else if second > FULL {
                assert!(most_held <= full_held + full_held / 100, "{most_held} bytes after {full_held}");
                assert_eq!(most_open, full_open, "descriptors");
            }
            (most_held, most_open) = (0, 0);
        }
    }
    println!("{} samples kept in {} bytes", ring.len(), ring.bytes());
}
