//! A machine with many of everything: 512 CPUs, 5,000 block devices, 1,000 interfaces, tasks by the thousand. All of it is
//! there, what it takes grows no faster than the machine, and every screen can be read.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test may fail loudly, and prints its figures")]

mod counting;

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use counting::allocations;
use jiff::tz::TimeZone;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use stalltop::baseline::Baselines;
use stalltop::findings::Judge;
use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};
use stalltop::sample::Sample;
use stalltop::state::{Event, Key, Look, Setup, Source, State, update};
use stalltop::view;
use tempfile::TempDir;

/// How many of what.
#[derive(Clone, Copy)]
struct Size {
    cpus: u64,
    disks: u64,
    nics: u64,
    processes: u32,
    threads: u32,
}

const LARGE: Size = Size { cpus: 512, disks: 5_000, nics: 1_000, processes: 20, threads: 400 };
const EIGHTH: Size = Size { cpus: 64, disks: 625, nics: 125, processes: 20, threads: 50 };

struct Machine {
    directory: TempDir,
    sampler: Sampler,
    size: Size,
    second: u64,
}

impl Machine {
    fn new(size: Size) -> Machine {
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        fs::create_dir_all(directory.path().join("proc/net")).unwrap();
        put_tasks(&directory.path().join("proc"), size);
        put_counters(&directory.path().join("proc"), size, 1);
        let mut sampler = Sampler::new(Root::at(directory.path().to_owned())).unwrap();
        for at in 0..size.processes {
            sampler.give_clock(10_000 + at * size.threads, 1);
        }
        Machine { directory, sampler, size, second: 1 }
    }

    /// The next sample, a second later: every counter has moved.
    fn look(&mut self) -> Arc<Sample> {
        self.second += 1;
        put_counters(&self.directory.path().join("proc"), self.size, self.second);
        self.sampler.give_time(self.second * 1_000_000_000);
        Arc::new(self.sampler.sample())
    }
}

/// Threads that sleep. Their files are links to the same few: a task is one inode, not four.
fn put_tasks(proc: &Path, size: Size) {
    for at in 0..size.processes {
        let pid = 10_000 + at * size.threads;
        let task = proc.join(format!("{pid}/task"));
        fs::create_dir_all(&task).unwrap();
        let stat = format!(
            "{pid} (worker) S 1 {pid} {pid} 0 -1 4194304 10 0 0 0 4 3 0 0 20 0 {} 0 24 168296448 2103 18446744073709551615 1 1 0 0 \
             0 0 0 0 0 0 0 0 17 1 0 0 3 0 0 0 0 0 0 0 0 0 0\n",
            size.threads
        );
        let files = [("stat", stat.as_str()), ("schedstat", "40000000 90 12\n"), ("wchan", "futex_wait_queue")];
        for (name, text) in files {
            fs::write(proc.join(format!("{pid}/{name}")), text).unwrap();
        }
        for tid in pid..pid + size.threads {
            let directory = task.join(tid.to_string());
            fs::create_dir(&directory).unwrap();
            for (name, _) in files {
                fs::hard_link(proc.join(format!("{pid}/{name}")), directory.join(name)).unwrap();
            }
        }
    }
}

fn put_counters(proc: &Path, size: Size, k: u64) {
    let mut stat = format!("cpu  {} 0 {k} {} 0 0 0 0 0 0\n", 50 * k * size.cpus, 49 * k * size.cpus);
    for cpu in 0..size.cpus {
        writeln!(stat, "cpu{cpu} {} 0 {k} {} 0 0 0 0 0 0", 50 * k, 49 * k).unwrap();
    }
    stat += "ctxt 7\nbtime 1\nprocesses 9\n";
    let mut disks = String::new();
    for at in 0..size.disks {
        let (major, minor) = (259 + at / 256, at % 256);
        writeln!(disks, "{major:4} {minor:7} nvme{at}n1 {k} 0 {} {k} {k} 0 {} {k} 0 {k} {k} 0 0 0 0 0 0", 8 * k, 8 * k)
            .unwrap();
    }
    let mut nics =
        "Inter-| Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop \
                    fifo colls carrier compressed\n"
            .to_owned();
    for at in 0..size.nics {
        writeln!(nics, "eth{at}: {} {k} 0 0 0 0 0 0 {} {k} 0 0 0 0 0 0", 1000 * k, 1000 * k).unwrap();
    }
    for (name, text) in [("stat", stat), ("diskstats", disks), ("net/dev", nics)] {
        fs::write(proc.join(name), text).unwrap();
    }
}

/// Samples, figures and findings of some seconds; what a sample and a judgement asked of the allocator, in the second in which
/// it was least: facts about devices are read again now and then.
fn walk(size: Size) -> (Vec<stalltop::findings::Judged>, u64, u64) {
    let mut machine = Machine::new(size);
    let host = Arc::new(machine.sampler.host().clone());
    let mut judge = Judge::new(Baselines::default());
    let mut samples = vec![machine.look()];
    let mut judged = Vec::new();
    let (mut looking, mut understanding) = (u64::MAX, u64::MAX);
    for _ in 0..4 {
        looking = looking.min(allocations(|| samples.push(machine.look())));
        let [.., older, newer] = samples.as_slice() else { continue };
        let judging = allocations(|| judged.push(judge.judge(Interval::between(&host, older, newer).unwrap())));
        understanding = understanding.min(judging);
    }
    (judged, looking, understanding)
}

#[test]
fn all_of_a_large_machine_is_there_and_takes_no_more_than_its_share() {
    let (_, small_look, small_judge) = walk(EIGHTH);
    let (judged, look, judge) = walk(LARGE);
    println!("{small_look} and {look} allocations a sample, {small_judge} and {judge} a judgement");
    assert!(look <= small_look * 9, "eight times the machine: {small_look}, {look}");
    assert!(judge <= small_judge * 9, "eight times the machine: {small_judge}, {judge}");
    let interval = &judged.last().unwrap().interval;
    let tasks = interval.tasks.as_ref().unwrap();
    assert_eq!((interval.cpus(), interval.disks.len(), interval.nics.len()), (512, 5_000, 1_000));
    assert_eq!((tasks.counts.processes, tasks.counts.threads), (20, 8_000));
    for (width, height) in [(80, 24), (200, 50)] {
        let setup = Setup {
            look: Look::default(),
            source: Source::Live,
            zone: TimeZone::UTC,
            size: (width, height),
            interval_ms: 1000,
        };
        let mut state = State::new(setup);
        for judged in &judged {
            update(&mut state, Event::Judged(judged.clone()));
        }
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        for (key, word) in [('1', "512 CPUs"), ('2', "cpu"), ('3', "nvme"), ('4', "eth"), ('5', "worker"), ('6', "")] {
            update(&mut state, Event::Key(Key::Char(key)));
            terminal.draw(|frame| view::render(&state, frame)).unwrap();
            let shown: String = terminal.backend().buffer().content().iter().map(ratatui::buffer::Cell::symbol).collect();
            assert!(shown.to_lowercase().contains(&word.to_lowercase()), "screen {key} at {width}×{height} shows no {word:?}");
        }
    }
}
