//! A running `stalltop record --armed`. The lab uses it too.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stalltop::recording::{Mark, Replayer, Tail};

use crate::child_guard::ChildGuard;
use crate::harness::program;

/// Nothing here takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// Its directories; it ends with the test.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        fs::create_dir(place.path("run")).unwrap();
        fs::set_permissions(place.path("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program, with directories of its own.
    pub fn stalltop(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        command.env("XDG_STATE_HOME", self.path("state")).env("XDG_CONFIG_HOME", self.path("config"));
        command.env("XDG_RUNTIME_DIR", self.path("run")).env_remove("STALLTOP_THRESHOLD");
        command
    }

    /// The captures, sorted by name.
    pub fn captures(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path("captures")).into_iter().flatten().flatten();
        let mut captures: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        captures.sort();
        captures
    }

    /// Starts it with these options, and waits until it is armed.
    pub fn armed(&self, options: &[&str]) -> ArmedRecorder {
        let told = self.path("told");
        let mut command = self.stalltop(&["record", "--armed", "captures"]);
        let child = command.args(options).stderr(File::create(&told).unwrap()).spawn().unwrap();
        let mut recorder = ArmedRecorder { child: ChildGuard(child), told };
        recorder.until("is armed", |told| told.contains("stalltop: armed: "));
        recorder
    }

    /// Sends a mark, once the recorder accepts them.
    pub fn mark(&self, text: &str) {
        let begun = Instant::now();
        while !self.stalltop(&["mark", text]).output().unwrap().status.success() {
            assert!(begun.elapsed() < PATIENCE, "no mark is accepted");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

pub struct ArmedRecorder {
    child: ChildGuard,
    told: PathBuf,
}

impl ArmedRecorder {
    /// What it has written to standard error.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.told).unwrap()
    }

    pub fn until(&mut self, what: &str, condition: impl Fn(&str) -> bool) {
        let begun = Instant::now();
        while !condition(&self.told()) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && begun.elapsed() < PATIENCE, "not so: it {what}: {ended:?}: {}", self.told());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn until_it_captures(&mut self) {
        self.until("captures", |told| told.contains("capturing into"));
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    /// Ends it as systemd does; returns what it has told.
    pub fn end(mut self) -> String {
        self.signal(Signal::SIGTERM);
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.told());
        self.told()
    }
}

/// A closed capture without damage.
pub fn open(file: &Path) -> Replayer {
    let replayer = Replayer::open(file).unwrap();
    assert_eq!((replayer.tail(), replayer.damage()), (Tail::Closed, &[][..]), "{}", file.display());
    replayer
}

/// CLOCK_BOOTTIME of all samples, ns.
pub fn times(replayer: &Replayer) -> Vec<u64> {
    (0..replayer.len()).map(|index| replayer.timestamp(index).unwrap().boottime_ns).collect()
}

/// Samples until a mark, and the time from the mark to the next sample.
pub fn around(replayer: &Replayer, mark: &Mark) -> (usize, Option<Duration>) {
    let times = times(replayer);
    let before = times.iter().filter(|&&at_ns| at_ns <= mark.at.boottime_ns).count();
    (before, times.get(before).map(|at_ns| Duration::from_nanos(at_ns - mark.at.boottime_ns)))
}

pub fn texts(replayer: &Replayer) -> Vec<String> {
    replayer.marks().iter().map(|mark| mark.text.clone()).collect()
}
