//! Two copies of the kernel's counters, 20 seconds apart: all tools read the same files, and their figures can be compared to
//! the last printed digit.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::{SECONDS, answer, tool};
use crate::harness::program;

const SPAN: Duration = Duration::from_secs(20);

/// The tools start at least this long after the first snapshot, so that their second reading comes after the second one.
const MARGIN: Duration = Duration::from_secs(1);

const OF_THE_HOST: &[&str] =
    &["stat", "diskstats", "vmstat", "meminfo", "loadavg", "version", "cpuinfo", "net/dev", "net/snmp", "net/netstat"];
const OF_A_PROCESS: &[&str] = &["stat", "status", "schedstat", "comm", "cmdline", "io"];
const OF_A_THREAD: &[&str] = &["stat", "status", "schedstat", "comm"];

/// A copy of /proc with the counters of one instant: of the host, and of one process.
pub struct Frozen {
    directory: tempfile::TempDir,
    pid: u32,
    threads: Vec<String>,
    begun: Instant,
    uptime: f64,
}

impl Frozen {
    /// Copies the counters now.
    pub fn begin(pid: u32) -> Frozen {
        let directory = tempfile::tempdir().expect("a directory");
        std::os::unix::fs::symlink("/sys", directory.path().join("sys")).expect("a link");
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads");
        let threads = tasks.map(|entry| entry.expect("a thread").file_name().to_string_lossy().into_owned()).collect();
        let uptime = fs::read_to_string("/proc/uptime").expect("/proc/uptime");
        let uptime = uptime.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
        let frozen = Frozen { directory, pid, threads, begun: Instant::now(), uptime };
        frozen.copy(0.0);
        thread::sleep(MARGIN);
        frozen
    }

    /// Copies them again 20 s after the first time.
    pub fn end(&self) -> Result<(), String> {
        thread::sleep((self.begun + SPAN).saturating_duration_since(Instant::now()));
        self.copy(SPAN.as_secs_f64());
        let late = self.begun.elapsed().saturating_sub(SPAN);
        if late < MARGIN { Ok(()) } else { Err(format!("it took {late:.1?} to copy some files")) }
    }

    fn copy(&self, seconds: f64) {
        let pid = self.pid;
        let process = OF_A_PROCESS.iter().map(|name| format!("{pid}/{name}"));
        let threads =
            self.threads.iter().flat_map(|tid| OF_A_THREAD.iter().map(move |name| format!("{pid}/task/{tid}/{name}")));
        // Those of tasks first: their counters move the most.
        for name in process.chain(threads).chain(OF_THE_HOST.iter().map(|name| (*name).to_owned())) {
            // The files of an exited thread remain.
            if let Ok(text) = fs::read(Path::new("/proc").join(&name)) {
                self.write(&name, &text);
            }
        }
        self.write("uptime", format!("{:.2} 0.00\n", self.uptime + seconds).as_bytes());
    }

    fn write(&self, name: &str, text: &[u8]) {
        let path = self.directory.path().join("proc").join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Another tool, in a mount namespace where that is its /proc.
    pub fn tool(&self, name: &str, arguments: &[&str]) -> Running {
        let script = "mount --bind \"$0/proc\" /proc && exec \"$@\"";
        let root = self.directory.path().to_str().expect("its name");
        Running(Some(tool("unshare", &[&["-m", "sh", "-c", script, root, name], arguments].concat())))
    }

    /// `stalltop table`.
    pub fn table(&self, what: &str) -> Running {
        let mut command = Command::new(program());
        command.arg("--root").arg(self.directory.path()).args(["table", what, SECONDS, "1", "--columns", "all"]);
        command.args(["--format", "json"]).stdin(Stdio::null()).stdout(Stdio::piped());
        Running(Some(command.spawn().expect("stalltop")))
    }
}

/// A tool at work; ended when it is dropped.
pub struct Running(Option<Child>);

impl Running {
    /// Its output, after it has ended.
    pub fn answer(mut self) -> String {
        self.0.take().map(answer).unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = (child.kill(), child.wait());
        }
    }
}
