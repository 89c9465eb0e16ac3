//! Recordings with known figures, and the program run on them. The machine is what the expected tables say; `synthetic` builds
//! its samples.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stalltop::ids::TaskId;
use stalltop::recording::{Meta, Recorder, RecorderOptions, Redaction};
use stalltop::sample::stacks::{ThreadStack, UserStack};
use stalltop::sample::task::{Process, ProcessFacts, TaskIo, Thread};
use stalltop::sample::{Absent, Host, Name, Sample};
use stalltop::units::Counter;

use super::output::texts_of;
use super::program::program;
use super::synthetic::{self, cpu_times};

/// A machine on which CPU 7 (or the last one), one process and one disk are busy.
pub struct Machine {
    pub cpus: u32,
    /// The name of the busy process, the disk and the interface
    pub name: &'static str,
    /// A process that ends after the fourth sample, one that is born after the second and ends with it, and so does a thread
    /// of the idle one
    pub short_lived: bool,
    /// The kernel stack of the busy process in each sample, the innermost function first
    pub stack: Option<&'static str>,
    /// Its user stack
    pub user_stack: Option<&'static str>,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine { cpus: 2, name: "busy", short_lived: false, stack: None, user_stack: None }
    }
}

/// A recording; deleted on drop.
pub struct Made {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Made {
    pub fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

const BOOT_S: u64 = 1000;
const BEGIN_S: u64 = 1_772_366_400;

impl Machine {
    /// Records this number of samples, one second apart.
    pub fn record(&self, samples: u64) -> Made {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("made.stalltop");
        let meta = Meta {
            version: "0.1.0".to_owned(),
            host: host(),
            interval: Duration::from_secs(1),
            redaction: Redaction::Nothing,
            absent: Vec::new(),
        };
        let options = RecorderOptions {
            reserve_free_space: false,
            queue_capacity: usize::try_from(samples).unwrap(),
            ..RecorderOptions::default()
        };
        let mut recorder = Recorder::create(&path, &meta, options).unwrap();
        for second in 0..samples {
            recorder.offer(Arc::new(self.sample(second)));
        }
        let status = recorder.finish(Duration::from_secs(60));
        assert_eq!(status.progress().samples, samples, "{status:?}");
        Made { path, _directory: directory }
    }

    fn sample(&self, second: u64) -> Sample {
        let ticks = second * 100;
        let hot = 7.min(self.cpus - 1);
        let times = |cpu: u32| if cpu == hot { cpu_times(ticks, 0, 0, 0) } else { cpu_times(0, 0, ticks, 0) };
        let disk = synthetic::disk(self.name).reads(synthetic::operations(second * 100, 16, second * 200));
        let traffic = synthetic::traffic(second * 1024, second * 2);
        let nic = synthetic::nic(2, self.name).rx(traffic).tx(traffic).facts(|facts| {
            (facts.speed_mbps, facts.duplex) = (Err(Absent::NoSuchFile), Err(Absent::NoSuchFile));
        });
        let mut processes = vec![process(1, "init", 0), process(200, self.name, second * 1000), process(300, "idle", 0)];
        if self.short_lived && second <= 3 {
            let another = Thread { tid: 301, ..process(300, "worker", second * 100).threads[0].clone() };
            processes[2].threads = Arc::new([processes[2].threads[0].clone(), another]);
            processes.push(process(400, "short", second * 500));
            if second >= 2 {
                processes.push(newborn(500, "newborn", BOOT_S + 1, second));
            }
        }
        let sample = synthetic::sample_at(synthetic::instant((BOOT_S + second) as f64, BEGIN_S - BOOT_S))
            .cpus((0..self.cpus).map(times))
            .disk(disk.busy_ms(second * 150, second * 200))
            .nic(nic)
            .processes(processes)
            .build();
        let task = TaskId { pid: 200, tid: 200, start_ticks: 7 };
        let stacks = self.stack.map(|stack| vec![ThreadStack { task, kernel: Ok(Name::from(stack)) }]);
        let user_stacks = self.user_stack.map(|stack| vec![UserStack { task, functions: Ok(Name::from(stack)) }]);
        Sample { stacks: stacks.ok_or(Absent::NotRead), user_stacks: user_stacks.ok_or(Absent::NotRead), ..sample }
    }
}

fn process(pid: u32, name: &str, run_ms: u64) -> Process {
    let run_ns = run_ms * 1_000_000;
    synthetic::process(pid, name)
        .started(7)
        .ran(run_ns)
        .facts(ProcessFacts { cmdline: Ok(Name::from(name)), ..ProcessFacts::default() })
        .threads([synthetic::thread(pid, name).started(7).ran(run_ns, 0, run_ms)])
        .with(|process| (process.resident_pages, process.virtual_bytes) = (250, Some(1 << 22)))
        .with(|process| process.shared_pages = Some(120))
        .build()
}

/// A process that started at that second and has been busy in each second since.
fn newborn(pid: u32, name: &str, began_s: u64, second: u64) -> Process {
    let start_ticks = began_s * 100 + 50;
    let bytes = Counter((second - 1) * 4096);
    let mut process = process(pid, name, (second - 1) * 250);
    process.threads_mut()[0].start_ticks = start_ticks;
    let io = Ok(TaskIo { read_bytes: bytes, ..TaskIo::default() });
    Process { start_ticks, minor_faults: Counter(second), io, ..process }
}

fn host() -> Host {
    Host { boot_time_s: Some(BEGIN_S - BOOT_S), ..synthetic::host() }
}

pub fn stalltop(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).stdin(Stdio::null()).env("XDG_STATE_HOME", "/nonexistent").env("TZ", "UTC");
    command
}

/// Its exit code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    texts_of(&stalltop(arguments).output().unwrap())
}
