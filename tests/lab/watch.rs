//! Whether the machine was undisturbed during an attempt, and what the scenario's own tasks did.
//!
//! A thread of this process reads five times a second how late it was scheduled and the steal time, and once a second how much
//! CPU time was used by processes that belong neither to the scenario nor to this test, and which of them were in D. It keeps the
//! counters of each second: a figure of one second is compared with the seconds, not with the mean.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::proc::{Snapshot, Stat, Ticks, WEIGHTED_MS, disk_names, parse_diskstat, pids, threads, ticks_per_second};

/// The environment variable of the scenario's processes.
pub const MARK: &str = "STALLTOP_LAB_SCENARIO";

/// CPUs that other processes may use on average. The figures that are compared have tolerances of 2 to 5 per cent of a
/// 2-CPU host; a tenth of a CPU is 5 % of it.
pub const OTHERS: f64 = 0.1;

/// CPUs that they may use in one second: figures of the last second have this error.
const OTHERS_IN_A_SECOND: f64 = 0.2;

/// CPUs used by short-lived processes of others, including the error of the clock ticks.
const UNSEEN: f64 = 0.2;

/// Shares of the host that the hypervisor may keep.
const STOLEN: f64 = 0.02;
const STOLEN_IN_A_SECOND: f64 = 0.05;

/// Times that processes of others were found in D: that there were is true, whatever the scenario does.
const OTHERS_BLOCKED: usize = 2;

/// Requests outstanding on a disk that is not the scenario's, in one second.
const OTHERS_QUEUE: f64 = 0.5;

/// A thread that sleeps is woken within 1 ms on a machine that is not short of CPUs; stalltop's ten sub-samples per second become
/// uneven when they come more than half their distance late.
const LATE: Duration = Duration::from_millis(50);

/// The time between two readings of this thread.
const EVERY: Duration = Duration::from_millis(200);

/// The threads of a scenario with more processes than this are not read: each has two files.
const MAX_WATCHED_THREADS: usize = 400;

/// Measures until it is dropped.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

impl Watch {
    /// `files` are read in each second beside the usual ones.
    pub fn start(files: Vec<String>) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        Watch { over, thread: thread::spawn(move || watch(&until, &files)) }
    }

    pub fn end(self) -> Watched {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch")
    }
}

/// What was measured.
#[derive(Default)]
pub struct Watched {
    seconds: Vec<Second>,
    latest: Duration,
    /// CPUs in /proc/stat's user, nice and system that no process accounts for
    unseen: f64,
    /// Each reading of the scenario's threads: how many had this name, this state and this wait channel
    pub readings: Vec<HashMap<Place, u32>>,
    /// CPUs that the scenario's own processes used, by name
    pub used: HashMap<String, f64>,
    /// One entry per second
    pub snapshots: Vec<Snapshot>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub comm: String,
    pub state: char,
    pub channel: String,
}

#[derive(Default)]
struct Second {
    /// CPUs that others used
    others: f64,
    /// The one that used most
    most: String,
    stolen: f64,
    /// Processes of others that were in D at its end
    stuck: Vec<String>,
    /// CPUs that the scenario's own processes used, by name
    used: HashMap<String, f64>,
}

impl Watched {
    /// What disturbed the attempt, if anything did. On a host whose CPUs are used by loads of the test, late wake-ups and
    /// short-lived processes do not count.
    pub fn disturbance(&self, crowded: bool) -> Option<String> {
        let mean = |part: fn(&Second) -> f64| self.seconds.iter().map(part).sum::<f64>() / self.seconds.len().max(1) as f64;
        let most = |part: fn(&Second) -> f64| self.seconds.iter().max_by(|a, b| part(a).total_cmp(&part(b)));
        let (others, stolen) = (mean(|second| second.others), mean(|second| second.stolen));
        if let Some(worst) = most(|second| second.others)
            && (others > OTHERS || worst.others > OTHERS_IN_A_SECOND)
        {
            let (peak, name) = (worst.others, &worst.most);
            return Some(format!("others used {others:.2} CPUs, {peak:.2} in one second ({name} most)"));
        }
        let peak = most(|second| second.stolen).map_or(0.0, |second| second.stolen);
        if stolen > STOLEN || peak > STOLEN_IN_A_SECOND {
            return Some(format!("the hypervisor kept {stolen:.3} of the host, {peak:.3} in one second"));
        }
        let stuck: Vec<&str> = self.seconds.iter().flat_map(|second| second.stuck.iter().map(String::as_str)).collect();
        if stuck.len() >= OTHERS_BLOCKED {
            return Some(format!("others were in D: {}", stuck.join(", ")));
        }
        if let Some((disk, queue)) = self.others_disk() {
            return Some(format!("{disk}, which is not the scenario's, had {queue:.1} requests outstanding in one second"));
        }
        if !crowded && self.unseen > UNSEEN {
            return Some(format!("{:.2} CPUs went to processes that came and went", self.unseen));
        }
        if !crowded && self.latest > LATE {
            return Some(format!("a thread of ours was woken {} ms late", self.latest.as_millis()));
        }
        None
    }

    /// CPUs that processes of this name used, in each second.
    pub fn used_each(&self, comm: &str) -> impl Iterator<Item = f64> {
        self.seconds.iter().map(move |second| second.used.get(comm).copied().unwrap_or(0.0))
    }

    /// A disk with too much to do that is no loop device: the scenarios' are, and stand on memory or the page cache.
    fn others_disk(&self) -> Option<(String, f64)> {
        let pairs = self.snapshots.iter().zip(self.snapshots.iter().skip(1));
        let queues = pairs.flat_map(|(older, newer)| {
            let seconds = newer.at.duration_since(older.at).as_secs_f64().max(0.1);
            let (was, now) = (older.text("/proc/diskstats"), newer.text("/proc/diskstats"));
            let names = disk_names(now).into_iter().filter(|name| !name.starts_with("loop"));
            let grown = |name: &str| {
                parse_diskstat(now, name, WEIGHTED_MS).saturating_sub(parse_diskstat(was, name, WEIGHTED_MS)) as f64
            };
            names.map(move |name| (name.to_owned(), grown(name) / 1000.0 / seconds)).collect::<Vec<_>>()
        });
        queues.filter(|(_, queue)| *queue > OTHERS_QUEUE).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

fn watch(over: &AtomicBool, files: &[String]) -> Watched {
    let mut watched = Watched::default();
    let mut processes = KnownProcesses::default();
    let begin = Instant::now();
    let first = Ticks::now();
    let (mut scan, mut ticks, mut at) = (processes.scan(), first, begin);
    let mut seen = 0.0;
    while !over.load(Ordering::Relaxed) {
        let due = Instant::now() + EVERY;
        thread::sleep(EVERY);
        watched.latest = watched.latest.max(due.elapsed());
        watched.readings.extend(processes.places(&scan));
        let seconds = at.elapsed().as_secs_f64();
        if seconds < 1.0 && !over.load(Ordering::Relaxed) {
            continue;
        }
        let (newer, now) = (processes.scan(), Ticks::now());
        at = Instant::now();
        watched.snapshots.push(Snapshot::read(files));
        let spent = now.since(ticks);
        let second = compare(&scan, &newer, seconds, spent.share(spent.steal), &mut seen);
        for (comm, cpus) in &second.used {
            *watched.used.entry(comm.clone()).or_default() += cpus * seconds;
        }
        // The last piece may be too short to have a rate.
        if seconds >= 0.5 {
            watched.seconds.push(second);
        }
        (scan, ticks) = (newer, now);
    }
    let span = begin.elapsed().as_secs_f64();
    watched.unseen = (Ticks::now().since(first).used as f64 / ticks_per_second() - seen) / span;
    for used in watched.used.values_mut() {
        *used /= span;
    }
    watched
}

/// CPUs that others use in half a second from now: the attempt itself is watched all the time.
pub fn others_now() -> f64 {
    let mut processes = KnownProcesses::default();
    let (older, begin) = (processes.scan(), Instant::now());
    thread::sleep(Duration::from_millis(500));
    let (newer, seconds) = (processes.scan(), begin.elapsed().as_secs_f64());
    compare(&older, &newer, seconds, 0.0, &mut 0.0).others
}

/// One second of all processes. `seen` gathers the CPU seconds of all.
fn compare(older: &Scan, newer: &Scan, seconds: f64, stolen: f64, seen: &mut f64) -> Second {
    let mut others: HashMap<&str, f64> = HashMap::new();
    let mut used: HashMap<String, f64> = HashMap::new();
    let mut stuck = Vec::new();
    for (pid, process) in newer {
        // A new process used all its CPU time in this span.
        let before = older.get(pid).filter(|before| before.start == process.start).map_or(0, |before| before.ticks);
        let spent = process.ticks.saturating_sub(before) as f64 / ticks_per_second();
        *seen += spent;
        match process.whose {
            Whose::Others => {
                *others.entry(&process.comm).or_default() += spent / seconds;
                if process.state == 'D' {
                    stuck.push(process.comm.clone());
                }
            }
            Whose::Scenario => *used.entry(process.comm.clone()).or_default() += spent / seconds,
            Whose::Ours | Whose::Kernel => {}
        }
    }
    let most = others.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| (*name).to_owned()).unwrap_or_default();
    Second { others: others.values().sum(), most, stolen, stuck, used }
}

type Scan = HashMap<u32, Process>;

struct Process {
    comm: String,
    state: char,
    start: u64,
    ticks: u64,
    whose: Whose,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Scenario,
    /// This process and what it has started, the tools that measure and the loads beside
    Ours,
    /// Kernel threads work for all
    Kernel,
    Others,
}

/// Remembers whose a process is.
#[derive(Default)]
struct KnownProcesses {
    known: HashMap<(u32, u64), Whose>,
}

impl KnownProcesses {
    fn scan(&mut self) -> Scan {
        let stats: HashMap<u32, Stat> = pids().into_iter().filter_map(|pid| Some((pid, Stat::read_process(pid)?))).collect();
        let mut scan = Scan::with_capacity(stats.len());
        for (&pid, stat) in &stats {
            let whose = self.whose(pid, &stats);
            scan.insert(
                pid,
                Process { comm: stat.comm.clone(), state: stat.state, start: stat.start, ticks: stat.ticks, whose },
            );
        }
        scan
    }

    /// Whose a process is: by its environment, otherwise by its parent.
    fn whose(&mut self, pid: u32, stats: &HashMap<u32, Stat>) -> Whose {
        const KTHREADD: u32 = 2;
        let Some(stat) = stats.get(&pid) else { return Whose::Others };
        if let Some(known) = self.known.get(&(pid, stat.start)) {
            return *known;
        }
        let whose = if pid == std::process::id() {
            Whose::Ours
        } else if pid == KTHREADD || stat.parent == KTHREADD {
            Whose::Kernel
        } else if is_marked(pid) {
            Whose::Scenario
        } else if stat.parent <= 1 {
            Whose::Others
        } else {
            self.whose(stat.parent, stats)
        };
        self.known.insert((pid, stat.start), whose);
        whose
    }

    /// The waits of the scenario's threads now, unless there are too many.
    fn places(&self, scan: &Scan) -> Option<HashMap<Place, u32>> {
        let mine = scan.iter().filter(|(_, process)| process.whose == Whose::Scenario).map(|(&pid, _)| pid);
        let mine: Vec<u32> = mine.take(MAX_WATCHED_THREADS + 1).collect();
        if mine.len() > MAX_WATCHED_THREADS {
            return None;
        }
        let mut places = HashMap::new();
        for folder in mine.iter().flat_map(|pid| threads(*pid).into_iter().map(move |tid| format!("/proc/{pid}/task/{tid}"))) {
            let Some(stat) = Stat::read(&Path::new(&folder).join("stat")) else { continue };
            let place = Place { comm: stat.comm, state: stat.state, channel: channel(&folder) };
            *places.entry(place).or_default() += 1;
        }
        Some(places)
    }
}

fn channel(folder: &str) -> String {
    let text = fs::read_to_string(format!("{folder}/wchan")).unwrap_or_default();
    text.split('.').next().unwrap_or_default().to_owned()
}

/// Whether a process is a scenario's by its own environment.
pub fn is_marked(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mark = format!("{MARK}=");
    environment.split(|&byte| byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
}
