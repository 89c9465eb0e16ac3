//! A scenario of the lab as a child process: started, waited for until its load runs, ended when dropped.
//!
//! The tests run only as root and when `STALLTOP_LAB` is set to anything; otherwise they are skipped, so that a plain
//! `cargo test` is fast and changes nothing on the machine.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, geteuid};

use crate::proc::pids;
use crate::watch::{MARK, is_marked};

/// The time between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A scenario that is not on by then has failed: the slowest formats a file system on a slow disk.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The database makes its template when it runs first.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(90);

/// What the lab's clean-up may take: it waits up to 2 s for each process it started.
const END_TIMEOUT: Duration = Duration::from_secs(30);

/// The exit code by which a scenario says that another one is running.
const BUSY: i32 = 75;

/// The lab, for one test.
pub struct Lab {
    home: PathBuf,
    work: PathBuf,
    /// Locked by this test: tests share the machine, those of other processes, too.
    _turn: File,
}

impl Lab {
    /// The lab, when this machine and user have one, with these tools; otherwise it prints why not.
    pub fn open(tools: &[&str]) -> Option<Lab> {
        let skip = |why: &str| println!("skipped: {why}");
        if std::env::var_os("STALLTOP_LAB").is_none_or(|value| value.is_empty()) {
            skip("STALLTOP_LAB is not set");
            return None;
        }
        if !geteuid().is_root() {
            skip("the lab needs root");
            return None;
        }
        for tool in ["make", "gcc"].iter().chain(tools) {
            if !installed(tool) {
                skip(&format!("{tool} is not installed: run tests/lab/setup.sh"));
                return None;
            }
        }
        let work = std::env::var_os("LAB_WORK").map_or_else(|| PathBuf::from("/tmp/stalltop-lab"), PathBuf::from);
        fs::create_dir_all(work.join("run")).expect("the folder of the lab");
        // Not the lock of the scripts, which a test may start.
        let turn = File::create(work.join("run/.tests.lock")).expect("the lock of the tests");
        turn.lock().expect("the lock of the tests");
        Some(Lab { home: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab"), work, _turn: turn })
    }

    /// Starts a scenario for at most `seconds`; waits while another process of this machine has one running.
    pub fn start(&self, name: &str, seconds: u32, environment: &[(&str, &str)]) -> Scenario {
        self.start_script(&self.home.join("scenarios").join(format!("{name}.sh")), seconds, environment)
    }

    /// The same for any script that sources scenarios/lib.sh; `$LAB` is the folder of the lab.
    pub fn start_script(&self, script: &Path, seconds: u32, environment: &[(&str, &str)]) -> Scenario {
        let name = &*script.file_stem().expect("a file").to_string_lossy();
        self.clear(name);
        for _ in 0..10 {
            let mut scenario = self.spawn(script, name, seconds, environment);
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

    /// Ends what a scenario that was killed has left behind, which would stop it from beginning: its own folder, with a
    /// dead mount in it. Not while another one runs.
    fn clear(&self, name: &str) {
        let run = self.work.join("run").join(name);
        let Ok(lock) = File::open(self.work.join("run/.lock")) else { return };
        if !run.exists() || lock.try_lock().is_err() {
            return;
        }
        for pid in pids().into_iter().filter(|&pid| is_marked(pid)) {
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
        }
        if Path::new("/sys/class/net/labA").exists() {
            run_quietly("ip", &["link", "del", "labA"]);
        }
        let inside = |path: &str| Path::new(path.trim()).starts_with(&run);
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        for mount in mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|path| inside(path)) {
            run_quietly("umount", &["-l", mount]);
        }
        for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
            if inside(&backing) {
                run_quietly("losetup", &["-d", &format!("/dev/{}", device.file_name().to_string_lossy())]);
            }
        }
        println!("cleared away what an earlier {name} has left behind");
    }

    /// A C source of the lab.
    pub fn source(&self, name: &str) -> PathBuf {
        self.home.join("loads").join(name)
    }

    /// A program of the lab, which the first scenario has compiled.
    pub fn program(&self, name: &str) -> PathBuf {
        self.work.join("bin").join(name)
    }

    fn spawn(&self, script: &Path, name: &str, seconds: u32, environment: &[(&str, &str)]) -> Scenario {
        assert!(script.exists(), "no scenario {}", script.display());
        let mut child = Command::new("bash")
            .arg(script)
            .env("LAB", &self.home)
            .env("SECONDS_TO_RUN", seconds.to_string())
            .env(MARK, name)
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
    pub fn until(&mut self, what: &str, condition: impl FnMut(&mut Scenario) -> bool) {
        self.until_within(START_TIMEOUT, what, condition);
    }

    fn until_within(&mut self, time: Duration, what: &str, mut condition: impl FnMut(&mut Scenario) -> bool) {
        let begin = Instant::now();
        while !condition(self) {
            assert!(begin.elapsed() < time, "{}: not so in time: it {what}\n{}", self.name, self.said());
            assert!(self.exit_code().is_none(), "{}: ended before it {what}\n{}", self.name, self.said());
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The simulated disk: `loopN`, from what the scenario says of it.
    pub fn device(&self) -> String {
        let said = self.said();
        let (_, rest) = said.split_once("simulated disk /dev/").expect("a scenario with a simulated disk");
        rest.split_whitespace().next().expect("its name").to_owned()
    }

    /// Its folder, while it runs.
    pub fn folder(&self) -> &Path {
        &self.run
    }

    /// What it has written into its folder under this name, once it has.
    pub fn note(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.run.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// Waits for a scenario that says itself when it is on.
    pub fn until_ready(&mut self) {
        let ready = self.run.join("ready");
        self.until_within(PREPARE_TIMEOUT, "is ready", |_| ready.exists());
    }

    pub fn is_running(&mut self) -> bool {
        self.exit_code().is_none()
    }

    pub fn said(&self) -> String {
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
            if begin.elapsed() > END_TIMEOUT {
                println!("{}: does not end; it may leave a loop device or a mount behind\n{}", self.name, self.said());
                let _ = killpg(group, Signal::SIGKILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A program of loads/ that only the tests start, compiled for the first of them.
pub fn compiled(source: &str, compiler: &[&str]) -> PathBuf {
    static PROGRAMS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads").join(source);
    let (name, options) = compiler.split_first().expect("a compiler");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("lab-loads").join(name);
    let program = folder.join(source.file_stem().expect("its name"));
    let mut programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if !programs.contains(&program) {
        fs::create_dir_all(&folder).expect("a folder");
        let status = Command::new(name).args(options).arg("-o").arg(&program).arg(&source).status();
        assert!(status.expect(name).success(), "{} does not compile", source.display());
        programs.push(program.clone());
    }
    program
}

/// What the scenarios with a simulated disk need.
pub const DISK_TOOLS: &[&str] = &["fio", "losetup", "mkfs.ext4", "fusermount3"];

/// Whether the database of 01 is there, by the same test as its script.
pub fn has_postgres() -> bool {
    installed("postgres") || Path::new("/usr/lib/postgresql/15/bin/postgres").exists()
}

fn run_quietly(program: &str, arguments: &[&str]) {
    let _ = Command::new(program).args(arguments).stderr(Stdio::null()).status();
}

fn installed(tool: &str) -> bool {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .any(|folder| Path::new(folder).join(tool).exists())
}
