//! A simulated disk with a file system on it (loads/disk.sh), and loads that work there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;

use crate::attempt::{Attempt, Window};
use crate::check_result::CheckResult;
use crate::proc::diskstat;
use crate::scenario::{DISK_TOOLS, Lab, Scenario, compiled};
use crate::watch::MARK;

/// A simulated disk with a file system, for one test.
pub struct DiskLoad {
    pub scenario: Scenario,
    pub device: String,
    pub folder: PathBuf,
    load: PathBuf,
    state: tempfile::TempDir,
    /// Other tests begin after this one
    _lab: Lab,
}

impl DiskLoad {
    pub fn open() -> Option<DiskLoad> {
        DiskLoad::open_with(&[], &[])
    }

    /// For a load that needs further tools; with another disk than the usual one.
    pub fn open_with(tools: &[&str], disk: &[(&str, &str)]) -> Option<DiskLoad> {
        let lab = Lab::open(&[DISK_TOOLS, tools].concat())?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/loads");
        let state = tempfile::tempdir().expect("a folder");
        let load = compiled("load.c", &["gcc", "-O1", "-pthread"]);
        let mut scenario = lab.start_script(&sources.join("disk.sh"), 90, disk);
        scenario.until("is mounted", |scenario| scenario.note("hardware").is_some() && scenario.note("device").is_some());
        let device = scenario.device();
        let folder = PathBuf::from(scenario.note("folder").expect("its folder"));
        Some(DiskLoad { scenario, device, folder, load, state, _lab: lab })
    }

    /// Starts a load of load.c and waits until it reports that it runs.
    pub fn start(&self, mode: &str, count: u32) -> Load {
        Load::start(self.load(mode, &self.folder, count))
    }

    /// A load of load.c that works in this folder.
    pub fn load(&self, mode: &str, folder: &Path, count: u32) -> Command {
        let mut command = Command::new(&self.load);
        command.arg(mode).arg(folder).args(["80", &count.to_string()]);
        command
    }

    /// Waits until that many more operations of a kind have completed.
    pub fn until(&mut self, column: usize, more: u64) {
        let (device, before) = (self.device.clone(), diskstat(&self.device, column));
        self.scenario.until("does I/O", |_| diskstat(&device, column) >= before + more);
    }

    pub fn check(&self, name: &str, seconds: u32, verify: impl FnMut(&mut Window, &mut CheckResult)) {
        let name = format!("ground-{name}");
        Attempt { seconds, ..Attempt::new(&name, self.state.path()) }.check(verify);
    }

    /// The process that simulates the disk.
    pub fn hardware(&self) -> Pid {
        Pid::from_raw(self.scenario.note("hardware").and_then(|pid| pid.parse().ok()).expect("its pid"))
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a plain path").to_owned()
    }
}

/// A running load; ended when dropped, also out of a cgroup, a freeze or a stopped disk.
pub struct Load {
    child: Child,
}

impl Load {
    /// Starts a program as a load, and waits until it reports that it runs.
    pub fn start(mut command: Command) -> Load {
        let mut load = Load::start_silent(command.stdout(Stdio::piped()));
        let mut said = String::new();
        let output = load.child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut said).expect("its word");
        assert_eq!(said, "ready\n", "{command:?}");
        load
    }

    /// A load without such a report.
    pub fn start_silent(command: &mut Command) -> Load {
        let child = command.env(MARK, "ground").process_group(0).spawn();
        Load { child: child.unwrap_or_else(|why| panic!("{command:?}: {why}")) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its exit status, if it has exited by itself.
    pub fn ended(mut self) -> ExitStatus {
        self.child.wait().expect("our own child")
    }

    /// Sends a signal to all its processes.
    pub fn signal(&self, signal: Signal) {
        killpg(Pid::from_raw(self.child.id().cast_signed()), signal).expect("our own load");
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The chain of a finding: each link's words and how it is known.
fn links(finding: &Value) -> Vec<(String, String)> {
    let word = |link: &Value, name: &str| link[name].as_str().unwrap_or_default().to_owned();
    let list = finding["evidence"]["chain"].as_array().into_iter().flatten();
    list.map(|link| (word(link, "what"), word(link, "known_by"))).collect()
}

/// A link must contain these words, and be known by that.
pub fn link(said: &mut CheckResult, finding: &Value, words: &str, known_by: &str) {
    link_by_one_of(said, finding, words, &[known_by]);
}

/// Some link must contain these words, and be known in one of these ways.
pub fn link_by_one_of(said: &mut CheckResult, finding: &Value, words: &str, known_by: &[&str]) {
    let links = links(finding);
    let holds = links.iter().any(|(what, by)| what.contains(words) && known_by.iter().any(|known| by.contains(known)));
    said.expect(holds, || format!("no link `{words}` ({}) in {links:#?}", known_by.join(", ")));
}

/// A control group of version 1, removed when dropped; its tasks go back up.
pub struct Cgroup {
    folder: PathBuf,
}

impl Cgroup {
    pub fn make(controller: &str, name: &str) -> Option<Cgroup> {
        let above = Path::new("/sys/fs/cgroup").join(controller);
        if !above.join("cgroup.procs").exists() {
            println!("skipped: no cgroup v1 hierarchy {controller}");
            return None;
        }
        let folder = above.join(name);
        fs::create_dir_all(&folder).expect("a cgroup");
        Some(Cgroup { folder })
    }

    pub fn write(&self, file: &str, words: &str) {
        fs::write(self.folder.join(file), words).unwrap_or_else(|why| panic!("{file}: {why}"));
    }

    /// A command that runs this program in the group.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", r#"echo 0 > "$PROCS" && exec "$0" "$@""#]).arg(program);
        command.env("PROCS", self.folder.join("cgroup.procs"));
        command
    }

    /// All threads of a process.
    pub fn add_process(&self, pid: u32) {
        self.write("cgroup.procs", &pid.to_string());
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("freezer.state"), "THAWED");
        let above = self.folder.parent().map(|above| above.join("cgroup.procs"));
        for pid in fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = above.as_ref().map(|above| fs::write(above, pid));
        }
        let _ = fs::remove_dir(&self.folder);
    }
}
