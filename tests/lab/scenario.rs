//! A scenario of the lab as a running child: started, waited for until its load is really on, ended when dropped.
//!
//! The lab is outside this repository. `STALLTOP_LAB` says where it is; without it, or without root, the lab tests are
//! skipped, so that a plain `cargo test` is quick and touches nothing.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, geteuid};

/// How often a condition is looked at again.
const LOOK: Duration = Duration::from_millis(50);

/// A scenario that is not on by then has failed: the slowest formats a file system on a slow disk.
const MOST_TO_START: Duration = Duration::from_secs(30);

/// What the lab's clean-up may take: it waits up to 2 s for each process it started.
const MOST_TO_END: Duration = Duration::from_secs(30);

/// How long to wait for a machine that does nothing else, and what that is.
const MOST_TO_QUIET: Duration = Duration::from_secs(30);
const QUIET_CPUS: f64 = 0.2;

/// The exit code by which a scenario says that another one is running.
const BUSY: i32 = 75;

/// Scenarios share the machine: one at a time in this process; the lab's own lock keeps other processes away.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The lab, for one test.
pub struct Lab {
    home: PathBuf,
    work: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Lab {
    /// The lab, when this machine and user have one; otherwise it prints why not.
    pub fn open() -> Option<Lab> {
        let skip = |why: &str| println!("skipped: {why}");
        let Some(home) = std::env::var_os("STALLTOP_LAB").filter(|home| !home.is_empty()).map(PathBuf::from) else {
            skip("STALLTOP_LAB does not say where the lab is");
            return None;
        };
        if !geteuid().is_root() {
            skip("the lab needs root");
            return None;
        }
        if !home.join("scenarios/lib.sh").exists() {
            skip(&format!("no lab in {}", home.display()));
            return None;
        }
        for tool in ["fio", "make", "gcc", "losetup", "mkfs.ext4", "fusermount3", "mpstat", "iostat", "sar"] {
            if !installed(tool) {
                skip(&format!("{tool} is not installed: the lab's setup.sh does that"));
                return None;
            }
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let work = std::env::var_os("LAB_WORK").map_or_else(|| PathBuf::from("/tmp/stalltop-lab"), PathBuf::from);
        Some(Lab { home, work, _turn: turn })
    }

    /// Starts a scenario for at most `seconds`; waits while another process of this machine has one running.
    pub fn start(&self, name: &str, seconds: u32, environment: &[(&str, &str)]) -> Scenario {
        quiet();
        for _ in 0..10 {
            let mut scenario = self.spawn(name, seconds, environment);
            scenario.until("has begun", |scenario| {
                scenario.said().contains(&format!("== {name}: ")) || scenario.exit_code().is_some()
            });
            if scenario.exit_code() != Some(BUSY) {
                return scenario;
            }
            // Blocks until the other one lets go of it.
            if let Ok(lock) = File::open(self.work.join("run/.lock")) {
                lock.lock().expect("the lab's lock");
            }
        }
        panic!("{name}: the lab is never free");
    }

    fn spawn(&self, name: &str, seconds: u32, environment: &[(&str, &str)]) -> Scenario {
        let script = self.home.join("scenarios").join(format!("{name}.sh"));
        assert!(script.exists(), "no scenario {}", script.display());
        let mut child = Command::new("bash")
            .arg(script)
            .env("SECONDS_TO_RUN", seconds.to_string())
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            // A group of its own, so that all that it runs in the foreground ends with it.
            .process_group(0)
            .spawn()
            .expect("bash");
        let said = Arc::new(Mutex::new(String::new()));
        let (out, heard) = (child.stdout.take().expect("its output"), Arc::clone(&said));
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let mut said = heard.lock().unwrap_or_else(PoisonError::into_inner);
                said.push_str(&line);
                said.push('\n');
            }
        });
        Scenario { name: name.to_owned(), run: self.work.join("run").join(name), child, said }
    }
}

/// A running scenario. Dropping it ends it and waits for its clean-up.
pub struct Scenario {
    name: String,
    run: PathBuf,
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Scenario {
    /// Waits for a condition of the machine; fails when it does not come, or when the scenario has ended.
    pub fn until(&mut self, what: &str, mut condition: impl FnMut(&mut Scenario) -> bool) {
        let begin = Instant::now();
        while !condition(self) {
            assert!(begin.elapsed() < MOST_TO_START, "{}: not so in time: it {what}\n{}", self.name, self.said());
            assert!(self.exit_code().is_none(), "{}: ended before it {what}\n{}", self.name, self.said());
            thread::sleep(LOOK);
        }
    }

    /// The simulated disk: `loopN`, from what the scenario says of it.
    pub fn device(&self) -> String {
        let said = self.said();
        let (_, rest) = said.split_once("simulated disk /dev/").expect("a scenario with a simulated disk");
        rest.split_whitespace().next().expect("its name").to_owned()
    }

    /// What it has written into its folder under this name, once it has.
    pub fn note(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.run.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    pub fn is_running(&mut self) -> bool {
        self.exit_code().is_none()
    }

    fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().expect("our own child").map(|status| status.code().unwrap_or(-1))
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.child.id().cast_signed());
        if self.exit_code().is_none() {
            // ESRCH: it has just ended by itself.
            let _ = killpg(group, Signal::SIGTERM);
        }
        let begin = Instant::now();
        while self.exit_code().is_none() {
            if begin.elapsed() > MOST_TO_END {
                println!("{}: does not end; it may leave a loop device or a mount behind\n{}", self.name, self.said());
                let _ = killpg(group, Signal::SIGKILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Waits for a second in which the box does nothing else: the truth of the scenarios is that of a quiet machine.
/// Goes on all the same when there is none: what is wrong then is told by the findings about it.
fn quiet() {
    let begin = Instant::now();
    while begin.elapsed() < MOST_TO_QUIET {
        let before = Ticks::now();
        thread::sleep(Duration::from_secs(1));
        if Ticks::now().busy_cpus_since(&before) <= QUIET_CPUS {
            return;
        }
    }
    println!("the machine is not quiet: other work may show in what is judged");
}

/// The first line of /proc/stat, by another hand than the one that is tested.
pub struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    pub fn now() -> Ticks {
        let text = fs::read_to_string("/proc/stat").expect("/proc/stat");
        let line = text.lines().next().unwrap_or_default();
        // The eight before guest time, which is inside user time already; the fourth and fifth are idle and iowait.
        let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
        Ticks { idle: ticks.iter().skip(3).take(2).sum(), all: ticks.iter().sum() }
    }

    /// CPUs that were not idle.
    pub fn busy_cpus_since(&self, before: &Ticks) -> f64 {
        let (idle, all) = (self.idle.saturating_sub(before.idle), self.all.saturating_sub(before.all));
        if all == 0 { 0.0 } else { (1.0 - idle as f64 / all as f64) * crate::cpus() }
    }
}

/// The processes of this name, by `/proc/PID/comm`.
pub fn processes(name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim_end() == name) {
            found.push(pid);
        }
    }
    found
}

/// The threads of a process.
pub fn threads(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count)
}

/// Clock ticks that a process has used: fields 14 and 15 of its stat.
pub fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum()
}

/// A column of a device's line in /proc/diskstats, counted from 1 as the kernel's documentation does after the name.
pub fn diskstat(device: &str, column: usize) -> u64 {
    let text = fs::read_to_string("/proc/diskstats").expect("/proc/diskstats");
    let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(device));
    line.and_then(|line| line.split_whitespace().nth(column + 2)?.parse().ok()).unwrap_or(0)
}

/// Columns of /proc/diskstats (Documentation/admin-guide/iostats.rst).
pub const READS_COMPLETED: usize = 1;
pub const IN_FLIGHT: usize = 9;
pub const FLUSHES_COMPLETED: usize = 16;

fn installed(tool: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(tool).exists())
}
