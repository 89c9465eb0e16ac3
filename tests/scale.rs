//! A machine with 512 CPUs, 5,000 block devices, 1,000 interfaces and 100,000 tasks: all of it is sampled, the cost grows no
//! faster than the machine, and every screen is readable.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test may fail loudly, and prints its figures")]

#[path = "support/counting_allocator.rs"]
mod counting_allocator;

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use counting_allocator::{allocations, held, most_held};
use jiff::tz::TimeZone;
use nix::time::{ClockId, clock_gettime};
use stalltop::baseline::Baselines;
use stalltop::findings::{Evaluation, Evaluator, Kind};
use stalltop::ids::{CgroupId, CgroupVersion};
use stalltop::interval::Interval;
use stalltop::kernel::{Root, Sampler};
use stalltop::recording::{HistoryRing, Redaction};
use stalltop::sample::cgroup::Cgroup;
use stalltop::sample::task::{Process, ProcessFacts, Schedstat, TaskState, Tasks, Thread, WaitState};
use stalltop::sample::{Absent, Instant, Sample};
use stalltop::state::{Event, Key, Setup, Source, State, TerminalCapabilities, update};
use stalltop::units::Counter;
use stalltop::view::{self, cell_buffer::CellBuffer};
use tempfile::TempDir;

/// How many of what.
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
    /// Of so many parts one.
    fn part(self, parts: u32) -> Size {
        let Size { cpus, disks, nics, processes, pools } = self;
        let of = |count: u32| count.div_ceil(parts);
        Size { cpus: of(cpus), disks: of(disks), nics: of(nics), processes: of(processes), pools: of(pools) }
    }

    fn tasks(self) -> u32 {
        self.processes + self.pools * THREADS
    }
}

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
        put_tasks(directory.path(), size);
        put_devices(&directory.path().join("sys"), size);
        put_counters(&directory.path().join("proc"), size, 1);
        let mut sampler = Sampler::new(Root::at_directory(directory.path().to_owned())).unwrap();
        (0..size.processes).for_each(|at| sampler.set_process_clock(lone(at), 40_000_000));
        (0..size.pools).for_each(|at| sampler.set_process_clock(pool(at), 40_000_000 * u64::from(THREADS)));
        Machine { directory, sampler, size, second: 1 }
    }

    /// The next sample, a second later: every counter of a device has moved.
    fn look(&mut self) -> Arc<Sample> {
        self.second += 1;
        put_counters(&self.directory.path().join("proc"), self.size, self.second);
        self.sampler.set_fixed_time(self.second * 1_000_000_000);
        Arc::new(self.sampler.sample())
    }

    /// Some device came or went.
    fn uevent(&self) {
        fs::write(self.directory.path().join("sys/kernel/uevent_seqnum"), format!("{}\n", self.second)).unwrap();
    }
}

fn lone(at: u32) -> u32 {
    1_000_000 + at
}

fn pool(at: u32) -> u32 {
    2_000_000 + at * THREADS
}

/// Tasks that sleep. Those of one kind are links to the same directory, so that a task is one name, not four files.
fn put_tasks(root: &Path, size: Size) {
    let proc = root.join("proc");
    let kind = |name: &str, threads: u32| {
        let directory = root.join(name);
        fs::create_dir_all(directory.join("task")).unwrap();
        let stat = format!(
            "7 (worker) S 1 7 7 0 -1 4194304 10 0 0 0 4 3 0 0 20 0 {threads} 0 24 168296448 2103 18446744073709551615 1 1 0 0 0 \
             0 0 0 0 0 0 0 17 1 0 0 3 0 0 0 0 0 0 0 0 0 0\n"
        );
        let files = [
            ("stat", stat.as_str()),
            ("schedstat", "40000000 90 12\n"),
            ("wchan", "futex_wait_queue"),
            ("cmdline", "/usr/bin/worker\0"),
            ("cgroup", "0::/system.slice/worker.service\n"),
        ];
        files.iter().for_each(|(name, text)| fs::write(directory.join(name), text).unwrap());
        directory
    };
    let alone = kind("lone", 1);
    for pid in (0..size.processes).map(lone) {
        symlink("../../lone", alone.join("task").join(pid.to_string())).unwrap();
        symlink("../lone", proc.join(pid.to_string())).unwrap();
    }
    for pid in (0..size.pools).map(pool) {
        let directory = kind(&format!("proc/{pid}"), THREADS);
        (pid..pid + THREADS).for_each(|tid| symlink("../../../lone", directory.join("task").join(tid.to_string())).unwrap());
    }
}

/// What sysfs says of the devices: the same of all.
fn put_devices(sys: &Path, size: Size) {
    for (kind, name, count) in [("block", "nvme", size.disks), ("net", "eth", size.nics)] {
        let class = sys.join("class").join(kind);
        let device = sys.join("devices").join(kind);
        fs::create_dir_all(device.join("queue")).unwrap();
        fs::create_dir_all(device.join("statistics")).unwrap();
        fs::create_dir_all(&class).unwrap();
        let files = [
            ("queue/rotational", "0\n"),
            ("queue/scheduler", "[none] mq-deadline\n"),
            ("size", "976773168\n"),
            ("serial", "S4GENX0N\n"),
            ("operstate", "up\n"),
            ("speed", "10000\n"),
            ("duplex", "full\n"),
        ];
        files.iter().for_each(|(name, text)| fs::write(device.join(name), text).unwrap());
        let suffix = if kind == "block" { "n1" } else { "" };
        (0..count).for_each(|at| symlink(&device, class.join(format!("{name}{at}{suffix}"))).unwrap());
    }
    fs::create_dir_all(sys.join("kernel")).unwrap();
    fs::write(sys.join("kernel/uevent_seqnum"), "1\n").unwrap();
}

fn put_counters(proc: &Path, size: Size, k: u64) {
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
        fs::write(proc.join(name), text).unwrap();
    }
}

/// What one second cost, in allocations, and what all of it holds.
#[derive(Debug, Default)]
struct Cost {
    look: u64,
    judgement: u64,
    kept: u64,
    /// Bytes, for good; of that in the samples of one interval, the sampler, the judge, and the history in memory
    held: usize,
    /// Bytes at most at once while a second was gone through
    transient: usize,
}

/// Samples, figures, findings and history of some seconds; the cost of the second that cost least: facts are read now and then.
fn walk(size: Size) -> (Vec<Evaluation>, Cost) {
    let before = held();
    let mut machine = Machine::new(size);
    let clocks = held() - before;
    let host = Arc::new(machine.sampler.host().clone());
    let mut judge = Evaluator::new(Baselines::default());
    let mut tape = HistoryRing::new(60, 16 << 20, Redaction::Nothing);
    let mut judged: Vec<Evaluation> = Vec::new();
    let mut cost = Cost { look: u64::MAX, judgement: u64::MAX, kept: u64::MAX, ..Cost::default() };
    let mut older = machine.look();
    for _ in 0..6 {
        let ((), transient) = most_held(|| {
            let mut newer = None;
            cost.look = cost.look.min(allocations(|| newer.insert(machine.look()).cpu.is_ok()));
            let Some(newer) = newer else { return };
            cost.kept = cost.kept.min(allocations(|| assert!(tape.push(&newer))));
            let judging = || judged.push(judge.evaluate(Interval::between(&host, &older, &newer).unwrap()));
            cost.judgement = cost.judgement.min(allocations(judging));
            older = newer;
        });
        cost.transient = cost.transient.max(transient);
        // Who runs it keeps two of them.
        judged.drain(..judged.len().saturating_sub(2));
    }
    cost.held = held() - before - clocks;
    (judged, cost)
}

/// Every screen, at both sizes.
fn see(judged: &[Evaluation], words: [&str; 6]) {
    for (width, height) in [(80, 24), (200, 50)] {
        let setup = Setup {
            terminal: TerminalCapabilities::default(),
            source: Source::Live,
            time_zone: TimeZone::UTC,
            size: (width, height),
            interval_ms: 1000,
        };
        let mut state = State::new(setup);
        for judged in judged {
            update(&mut state, Event::Evaluation(judged.clone()));
        }
        let mut cells = CellBuffer::empty(width, height);
        for (key, word) in "123456".chars().zip(words) {
            update(&mut state, Event::Key(Key::Char(key)));
            cells.reset();
            view::render(&state, &mut cells);
            let shown = cells.to_string();
            if std::env::var_os("STALLTOP_SHOW").is_some() {
                println!("screen {key} at {width}×{height}:\n{}", cells);
            }
            assert!(shown.to_lowercase().contains(&word.to_lowercase()), "screen {key} at {width}×{height} shows no {word:?}");
        }
    }
}

#[test]
fn all_devices_of_a_large_machine_are_sampled_at_linear_cost() {
    let (_, small) = walk(DEVICES.part(8));
    let (judged, large) = walk(DEVICES);
    println!("an eighth: {small:?}\nthe whole: {large:?}");
    assert!(large.look <= small.look * 9 && large.judgement <= small.judgement * 9 && large.kept <= small.kept * 9);
    assert!(large.held <= small.held * 9, "eight times the machine: {} and {} bytes", small.held, large.held);
    let interval = &judged.last().unwrap().interval;
    assert_eq!((interval.online_cpus(), interval.disks.len(), interval.nics.len()), (512, 5_000, 1_000));
    see(&judged, ["512 CPUs", "cpu", "nvme", "eth", "worker", ""]);
}

/// What is known of devices is read again a few devices at a time.
#[test]
fn no_sample_reads_the_facts_of_all_devices_at_once() {
    let mut machine = Machine::new(DEVICES);
    (0..3).for_each(|_| drop(machine.look()));
    let quiet = allocations(|| machine.look());
    machine.uevent();
    let most = (0..100).map(|_| allocations(|| machine.look())).max().unwrap();
    println!("{quiet} allocations a sample, {most} while facts are read again");
    assert!(most > quiet + 64, "no facts were read");
    // Sixty-four disks and sixty-four interfaces.
    assert!(most - quiet < 64 * 60, "{} allocations more", most - quiet);
}

/// Three samples, a second apart, of so many throttled cgroups with ten processes each, all of which wait for their CPU.
fn throttled(groups: u32) -> [Arc<Sample>; 3] {
    let id = |at: u32| CgroupId { version: CgroupVersion::V2, path: format!("/pods/pod{at}/app").as_str().into() };
    let process = |at: u32, second: u64| {
        let pid = 1000 + at;
        let sched = Schedstat {
            run_ns: Counter(second * 20_000_000),
            run_delay_ns: Counter(second * 900_000_000),
            timeslices: Counter(second),
        };
        let thread = Thread {
            tid: pid,
            start_ticks: 1,
            comm: "worker".into(),
            state: TaskState::Running,
            processor: 0,
            user_ticks: Counter(0),
            system_ticks: Counter(0),
            minor_faults: Counter(0),
            major_faults: Counter(0),
            block_io_delay_ticks: Counter(0),
            guest_ticks: Counter(0),
            background: false,
            schedstat: Some(sched),
            last_timeslice_ns: None,
            wait: WaitState { wchan: Err(Absent::NotRead), syscall: Err(Absent::NotRead) },
            cpus_allowed_list: None,
        };
        Arc::new(Process {
            pid,
            start_ticks: 1,
            ppid: 1,
            uid: 0,
            comm: "worker".into(),
            kernel_thread: false,
            facts: Arc::new(ProcessFacts { cgroup: Ok(id(at / 10)), ..ProcessFacts::default() }),
            user_ticks: Counter(second * 2),
            system_ticks: Counter(0),
            guest_ticks: Counter(0),
            children_cpu: None,
            cpu_ns: Some(Counter(second * 20_000_000)),
            minor_faults: Counter(0),
            major_faults: Counter(0),
            resident_pages: 100,
            io: Err(Absent::NotRead),
            threads: Arc::new([thread]),
        })
    };
    [1, 2, 3].map(|second: u64| {
        let at = Instant { monotonic_ns: second * 1_000_000_000, boottime_ns: second * 1_000_000_000, ..Instant::default() };
        let mut sample = Sample::empty(at);
        let mut all: Vec<Cgroup> = (0..groups)
            .map(|at| Cgroup {
                quota_us: Some(20_000),
                period_us: Some(100_000),
                throttled_ns: Some(Counter(second * 800_000_000)),
                ..Cgroup::new(id(at))
            })
            .collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        sample.cgroups = Ok(all);
        sample.tasks = Ok(Tasks { processes: (0..groups * 10).map(|at| process(at, second)).collect(), ..Tasks::default() });
        Arc::new(sample)
    })
}

/// CPU time of this thread that one judgement of them takes: the least of some.
fn judgement(groups: u32) -> Duration {
    let machine = Machine::new(Size { cpus: 2, ..Size::default() });
    let host = Arc::new(machine.sampler.host().clone());
    let [first, second, third] = throttled(groups);
    let clock = || Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap());
    let once = |_| {
        let mut judge = Evaluator::new(Baselines::default());
        judge.evaluate(Interval::between(&host, &first, &second).unwrap());
        let interval = Interval::between(&host, &second, &third).unwrap();
        let begun = clock();
        let judged = judge.evaluate(interval);
        let took = clock() - begun;
        let told = judged.active.iter().filter(|finding| finding.kind == Kind::CpuThrottled).count();
        assert_eq!(told, groups as usize);
        took
    };
    (0..5).map(once).min().unwrap()
}

/// Each finding names who is in its cgroup, and each thread's wait is held against the quotas above it: in one pass over all.
#[test]
fn a_thousand_throttled_groups_are_sampled_at_linear_cost() {
    let (small, large) = (judgement(125), judgement(1000));
    println!("125 groups: {small:?}, 1000: {large:?}");
    // Eight times as many; were each group looked for among all processes, sixty times as long.
    assert!(large < small * 24, "{small:?} and {large:?}");
}

#[test]
fn a_hundred_thousand_tasks_are_sampled_at_linear_cost() {
    let part = TASKS.part(10);
    let (_, small) = walk(part);
    let (judged, large) = walk(TASKS);
    println!("a tenth: {small:?}\nthe whole: {large:?}");
    // Nobody runs: what a second allocates does not depend on how many sleep. Slow facts are read for so long a sample.
    assert!(large.look <= small.look * 2, "a sample allocates {} and {} times", small.look, large.look);
    assert!(large.judgement <= small.judgement + 40 && large.kept <= small.kept + 40, "{small:?} {large:?}");
    let per_task = (large.held - small.held) / (TASKS.tasks() - part.tasks()) as usize;
    println!("{per_task} bytes a task");
    assert!(large.held <= small.held * 11 && per_task <= 450, "{per_task} bytes a task");
    let counts = judged.last().unwrap().interval.tasks.as_ref().unwrap().counts;
    assert_eq!((counts.processes, counts.threads), (50_100, TASKS.tasks()));
    see(&judged, ["512 CPUs", "cpu", "nvme", "eth", "worker", ""]);
}
