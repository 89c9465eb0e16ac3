//! A machine with 512 CPUs, 5,000 block devices, 1,000 interfaces and 100,000 tasks: it is sampled completely, the cost grows
//! linearly with its size, and every screen is readable. Beside it what else a sample costs: allocations, and memory over twenty
//! minutes. One test binary, since those compute on one CPU.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may fail loudly, and prints its figures"
)]

#[path = "scale/allocations.rs"]
mod allocations;
#[path = "support/counting_allocator.rs"]
mod counting_allocator;
#[path = "scale/memory_growth.rs"]
mod memory_growth;
#[path = "support/proc_tree.rs"]
mod proc_tree;
#[path = "support/synthetic.rs"]
mod synthetic;

use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use counting_allocator::{allocations, held, most_held};
use nix::time::{ClockId, clock_gettime};
use proc_tree::{ProcTree, Stat};
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator, Kind};
use stalltop::interval::Interval;
use stalltop::kernel::Sampler;
use stalltop::recording::{HistoryRing, Redaction};
use stalltop::sample::Sample;
use stalltop::sample::cgroup::Cgroup;
use stalltop::sample::task::{ProcessFacts, TaskState};
use stalltop::state::{Event, Key, Source, update};
use stalltop::units::Counter;
use stalltop::view;

/// The size of a machine.
#[derive(Clone, Copy, Default)]
struct Size {
    cpus: u32,
    disks: u32,
    nics: u32,
    /// Processes of one thread
    processes: u32,
    /// Processes with 500 threads each
    pools: u32,
}

const THREADS: u32 = 500;
const DEVICES: Size = Size { cpus: 512, disks: 5_000, nics: 1_000, processes: 20, pools: 0 };
const TASKS: Size = Size { cpus: 512, disks: 1, nics: 1, processes: 50_000, pools: 100 };

impl Size {
    /// One of `parts` equal parts.
    fn part(self, parts: u32) -> Size {
        let Size { cpus, disks, nics, processes, pools } = self;
        let of = |count: u32| count.div_ceil(parts);
        Size { cpus: of(cpus), disks: of(disks), nics: of(nics), processes: of(processes), pools: of(pools) }
    }

    fn tasks(self) -> u32 {
        self.processes + self.pools * THREADS
    }
}

/// A fixture tree, most of whose files are links because there are so many tasks, and its sampler.
struct Machine {
    tree: ProcTree,
    sampler: Sampler,
    size: Size,
    second: u64,
}

impl Machine {
    fn new(size: Size) -> Machine {
        let tree = ProcTree::new();
        put_tasks(&tree, size);
        put_devices(&tree, size);
        put_counters(&tree, size, 1);
        let mut sampler = Sampler::new(tree.root()).unwrap();
        (0..size.processes).for_each(|at| sampler.set_process_clock(lone(at), 40_000_000));
        (0..size.pools).for_each(|at| sampler.set_process_clock(pool(at), 40_000_000 * u64::from(THREADS)));
        Machine { tree, sampler, size, second: 1 }
    }

    /// The next sample, one second later; the counters of every device have grown.
    fn sample(&mut self) -> Arc<Sample> {
        self.second += 1;
        put_counters(&self.tree, self.size, self.second);
        self.sampler.set_fixed_time(self.second * 1_000_000_000);
        Arc::new(self.sampler.sample())
    }

    /// A device was added or removed.
    fn uevent(&self) {
        self.tree.write("sys/kernel/uevent_seqnum", format!("{}\n", self.second));
    }
}

fn lone(at: u32) -> u32 {
    1_000_000 + at
}

fn pool(at: u32) -> u32 {
    2_000_000 + at * THREADS
}

/// Tasks that sleep. Those of one kind are links to the same directory: a task costs one name instead of four files.
fn put_tasks(tree: &ProcTree, size: Size) {
    let kind = |directory: &str, threads: u32| {
        let stat = Stat { parent: 1, start_ticks: 24, user_ticks: 4, ..Stat::sleeping(7, 7, threads) }.line();
        let files = [
            ("stat", stat.as_slice()),
            ("schedstat", b"40000000 90 12\n"),
            ("wchan", b"futex_wait_queue"),
            ("cmdline", b"/usr/bin/worker\0"),
            ("cgroup", b"0::/system.slice/worker.service\n"),
        ];
        files.iter().for_each(|(name, text)| tree.write(format!("{directory}/{name}"), text));
    };
    kind("lone", 1);
    for pid in (0..size.processes).map(lone) {
        tree.link("../../lone", format!("lone/task/{pid}"));
        tree.link("../lone", format!("proc/{pid}"));
    }
    for pid in (0..size.pools).map(pool) {
        kind(&format!("proc/{pid}"), THREADS);
        (pid..pid + THREADS).for_each(|tid| tree.link("../../../lone", format!("proc/{pid}/task/{tid}")));
    }
}

/// The facts in sysfs: all devices of one kind are links to the same directory.
fn put_devices(tree: &ProcTree, size: Size) {
    for (kind, name, suffix, count) in [("block", "nvme", "n1", size.disks), ("net", "eth", "", size.nics)] {
        let files = [
            ("queue/rotational", "0\n"),
            ("queue/scheduler", "[none] mq-deadline\n"),
            ("size", "976773168\n"),
            ("serial", "S4GENX0N\n"),
            ("operstate", "up\n"),
            ("speed", "10000\n"),
            ("duplex", "full\n"),
        ];
        files.iter().for_each(|(file, text)| tree.write(format!("sys/devices/{kind}/{file}"), text));
        let device = tree.path(format!("sys/devices/{kind}"));
        fs::create_dir_all(device.join("statistics")).unwrap();
        (0..count).for_each(|at| tree.link(&device, format!("sys/class/{kind}/{name}{at}{suffix}")));
    }
    tree.write("sys/kernel/uevent_seqnum", "1\n");
}

fn put_counters(tree: &ProcTree, size: Size, k: u64) {
    let cpus = u64::from(size.cpus);
    let mut stat = format!("cpu  {} 0 {k} {} 0 0 0 0 0 0\n", 50 * k * cpus, 49 * k * cpus);
    for cpu in 0..cpus {
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
        tree.write(format!("proc/{name}"), &text);
    }
}

/// The cost of one second in allocations, and the memory of the whole run in bytes.
#[derive(Debug, Default)]
struct Cost {
    sample: u64,
    evaluation: u64,
    kept: u64,
    /// Bytes at the end: the samples of one interval, the sampler, the evaluator and the history in memory
    held: isize,
    /// The most bytes at one time within a second
    transient: usize,
}

/// Samples and evaluates some seconds. The cost is that of the cheapest second, because facts are read only now and then.
fn walk(size: Size) -> (Vec<Evaluation>, Cost) {
    let before = held();
    let mut machine = Machine::new(size);
    let clocks = held() - before;
    let host = Arc::new(machine.sampler.host().clone());
    let mut evaluator = Evaluator::new(Baselines::default());
    let mut ring = HistoryRing::new(60, 16 << 20, Redaction::Nothing);
    let mut evaluated: Vec<Evaluation> = Vec::new();
    let mut cost = Cost { sample: u64::MAX, evaluation: u64::MAX, kept: u64::MAX, ..Cost::default() };
    let mut older = machine.sample();
    for _ in 0..6 {
        let ((), transient) = most_held(|| {
            let mut newer = None;
            cost.sample = cost.sample.min(allocations(|| newer.insert(machine.sample()).cpu.is_ok()));
            let Some(newer) = newer else { return };
            cost.kept = cost.kept.min(allocations(|| assert!(ring.push(&newer))));
            let evaluating = || evaluated.push(evaluator.evaluate(Interval::between(&host, &older, &newer).unwrap()));
            cost.evaluation = cost.evaluation.min(allocations(evaluating));
            older = newer;
        });
        cost.transient = cost.transient.max(transient);
        // The program keeps two of them.
        evaluated.drain(..evaluated.len().saturating_sub(2));
    }
    cost.held = held() - before - clocks;
    (evaluated, cost)
}

/// Draws every screen at both sizes; `words` are those that each must contain.
fn draw_all_screens(evaluated: &[Evaluation], words: [&str; 6]) {
    for (width, height) in [(80, 24), (200, 50)] {
        let mut state = synthetic::screen((width, height), Source::Live);
        for evaluated in evaluated {
            update(&mut state, Event::Evaluation(evaluated.clone()));
        }
        let mut cells = Buffer::empty(Rect::new(0, 0, width, height));
        for (key, word) in "123456".chars().zip(words) {
            update(&mut state, Event::Key(Key::Char(key)));
            cells.reset();
            view::render_into(&state, &mut cells);
            let rows = cells.content.chunks(usize::from(width));
            let rows = rows.map(|row| row.iter().map(Cell::symbol).collect::<String>());
            let shown = rows.collect::<Vec<_>>().join("\n");
            if std::env::var_os("STALLTOP_SHOW").is_some() {
                println!("screen {key} at {width}×{height}:\n{shown}");
            }
            assert!(shown.to_lowercase().contains(&word.to_lowercase()), "screen {key} at {width}×{height} shows no {word:?}");
        }
    }
}

#[test]
fn all_devices_of_a_large_machine_are_sampled_at_linear_cost() {
    let (_, small) = walk(DEVICES.part(8));
    let (evaluated, large) = walk(DEVICES);
    println!("an eighth: {small:?}\nthe whole: {large:?}");
    assert!(large.sample <= small.sample * 9 && large.evaluation <= small.evaluation * 9 && large.kept <= small.kept * 9);
    assert!(large.held <= small.held * 9, "eight times the machine: {} and {} bytes", small.held, large.held);
    let interval = &evaluated.last().unwrap().interval;
    assert_eq!((interval.online_cpus(), interval.disks.len(), interval.network.nics.len()), (512, 5_000, 1_000));
    draw_all_screens(&evaluated, ["512 CPUs", "cpu", "nvme", "eth", "worker", ""]);
}

/// The facts of devices are read again for a few devices at a time.
#[test]
fn no_sample_reads_the_facts_of_all_devices_at_once() {
    // Of each kind more than are read again at a time.
    let mut machine = Machine::new(Size { cpus: 2, disks: 1_000, nics: 500, processes: 20, pools: 0 });
    (0..3).for_each(|_| drop(machine.sample()));
    let quiet = allocations(|| machine.sample());
    machine.uevent();
    let most = (0..20).map(|_| allocations(|| machine.sample())).max().unwrap();
    println!("{quiet} allocations a sample, {most} while facts are read again");
    assert!(most > quiet + 64, "no facts were read");
    // 64 disks and 64 interfaces.
    assert!(most - quiet < 64 * 60, "{} allocations more", most - quiet);
}

/// Three samples, one second apart, of throttled cgroups with ten processes each, all of which wait for a CPU.
fn throttled(groups: u32) -> [Arc<Sample>; 3] {
    let id = |at: u32| synthetic::cgroup_id(&format!("/pods/pod{at}/app"));
    let process = |at: u32, second: u64| {
        let pid = 1000 + at;
        let run_ns = second * 20_000_000;
        let thread = synthetic::thread(pid, "worker").state(TaskState::Running).ran(run_ns, second * 900_000_000, second);
        synthetic::process(pid, "worker")
            .facts(ProcessFacts { cgroup: Ok(id(at / 10)), ..ProcessFacts::default() })
            .ran(run_ns)
            .threads([thread])
    };
    [1, 2, 3].map(|second: u64| {
        let mut all: Vec<Cgroup> = (0..groups)
            .map(|at| Cgroup {
                quota_us: Some(20_000),
                period_us: Some(100_000),
                throttled_ns: Some(Counter(second * 800_000_000)),
                ..Cgroup::new(id(at))
            })
            .collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        let processes = (0..groups * 10).map(|at| process(at, second));
        synthetic::sample(second as f64).processes(processes).with(|sample| sample.cgroups = Ok(all)).shared()
    })
}

/// The CPU time of one evaluation of them: the minimum of some.
fn evaluation(groups: u32) -> Duration {
    let machine = Machine::new(Size { cpus: 2, ..Size::default() });
    let host = Arc::new(machine.sampler.host().clone());
    let [first, second, third] = throttled(groups);
    let clock = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let once = |_| {
        let mut evaluator = Evaluator::new(Baselines::default());
        evaluator.evaluate(Interval::between(&host, &first, &second).unwrap());
        let interval = Interval::between(&host, &second, &third).unwrap();
        let begun = clock();
        let evaluated = evaluator.evaluate(interval);
        let took = clock() - begun;
        let told = evaluated.active.iter().filter(|finding| finding.kind == Kind::CpuThrottled).count();
        assert_eq!(told, groups as usize);
        took
    };
    (0..5).map(once).min().unwrap()
}

/// Each finding names the processes in its cgroup, and each thread's wait is compared with the quotas above it: in one pass.
#[test]
fn a_thousand_throttled_groups_are_sampled_at_linear_cost() {
    let (small, large) = (evaluation(125), evaluation(1000));
    println!("125 groups: {small:?}, 1000: {large:?}");
    // Eight times as many groups. A search of all processes or findings for each group would take sixty times as long.
    assert!(large < small * 16, "{small:?} and {large:?}");
}

#[test]
fn a_hundred_thousand_tasks_are_sampled_at_linear_cost() {
    let part = TASKS.part(10);
    let (_, small) = walk(part);
    let (evaluated, large) = walk(TASKS);
    println!("a tenth: {small:?}\nthe whole: {large:?}");
    // No task runs: the allocations of a second do not depend on the number of sleeping tasks.
    assert!(large.sample <= small.sample * 2, "a sample allocates {} and {} times", small.sample, large.sample);
    assert!(large.evaluation <= small.evaluation + 40 && large.kept <= small.kept + 40, "{small:?} {large:?}");
    let per_task = (large.held - small.held) as f64 / f64::from(TASKS.tasks() - part.tasks());
    println!("{per_task:.0} bytes a task");
    assert!(large.held <= small.held * 11 && per_task <= 450.0, "{per_task:.0} bytes a task");
    let counts = evaluated.last().unwrap().interval.tasks.as_ref().unwrap().counts;
    assert_eq!((counts.processes, counts.threads), (50_100, TASKS.tasks()));
    draw_all_screens(&evaluated, ["512 CPUs", "cpu", "nvme", "eth", "worker", ""]);
}
