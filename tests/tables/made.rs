//! Recordings whose figures are known, and the program run on them.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use stalltop::ids::{CpuId, DiskId, NicId};
use stalltop::recording::{Meta, Recorder, RecorderOptions, Redaction};
use stalltop::sample::cpu::{Cpu, CpuTimes};
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters};
use stalltop::sample::host::Privilege;
use stalltop::sample::network::{Direction, Nic, NicFacts};
use stalltop::sample::task::{Process, ProcessFacts, Schedstat, TaskIo, TaskState, Tasks, Thread, WaitState};
use stalltop::sample::{Absent, Host, Instant, Name, Sample};
use stalltop::units::Counter;

/// A machine on which CPU 7 (or the last one), one process and one disk are at work.
pub struct Box {
    pub cpus: u32,
    /// What the busy process, the disk and the interface are called
    pub name: &'static str,
    /// A process that ends after the fourth sample, one that is born after the second and ends with it, and so does a thread
    /// of the idle one
    pub short_lived: bool,
}

impl Default for Box {
    fn default() -> Box {
        Box { cpus: 2, name: "busy", short_lived: false }
    }
}

/// A recording; gone when it is dropped.
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

impl Box {
    /// So many samples, a second apart.
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
        let ns = (BOOT_S + second) * 1_000_000_000;
        let realtime_ns = i64::try_from((BEGIN_S + second) * 1_000_000_000).unwrap();
        let mut sample = Sample::empty(Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns });
        let ticks = second * 100;
        let times = |busy: u64, all: u64| CpuTimes {
            user_ticks: Counter(busy),
            idle_ticks: Counter(all - busy),
            steal_ticks: Some(Counter(0)),
            ..CpuTimes::default()
        };
        let hot = 7.min(self.cpus - 1);
        let each = |id: u32| (CpuId(id), times(if id == hot { ticks } else { 0 }, ticks));
        let total = times(ticks, ticks * u64::from(self.cpus));
        sample.cpu = Ok(Cpu { total, cpus: (0..self.cpus).map(each).collect(), ..Cpu::default() });
        sample.disks = Ok(vec![Disk {
            id: DiskId { major: 8, minor: 0 },
            name: Name::from(self.name),
            facts: Arc::new(DiskFacts::default()),
            reads: OpCounters {
                completed: Counter(second * 100),
                merged: Counter(0),
                sectors: Counter(second * 100 * 32),
                time_ms: Counter(second * 200),
            },
            writes: OpCounters::default(),
            discards: None,
            flushes: None,
            flush_time_ms: None,
            in_flight: 0,
            io_ticks_ms: Counter(second * 150),
            time_in_queue_ms: Counter(second * 200),
        }]);
        let bytes = Direction { bytes: Counter(second * 1024), packets: Counter(second * 2), ..Direction::default() };
        sample.nics = Ok(vec![Nic {
            id: NicId { ifindex: 2, name: Name::from(self.name) },
            facts: Arc::new(NicFacts {
                speed_mbps: Err(Absent::NoSuchFile),
                duplex: Err(Absent::NoSuchFile),
                up: Some(true),
                loopback: false,
                virtual_device: false,
            }),
            rx: bytes,
            tx: bytes,
            multicast: Counter(0),
            collisions: Counter(0),
            carrier_losses: Counter(0),
            rx_missed: None,
            rx_nohandler: None,
            qdisc: None,
        }]);
        let mut processes = vec![process(1, "init", 0), process(200, self.name, second * 1000), process(300, "idle", 0)];
        if self.short_lived && second <= 3 {
            let another = Thread { tid: 301, ..process(300, "worker", second * 100).threads[0].clone() };
            processes[2].threads = Arc::new([processes[2].threads[0].clone(), another]);
            processes.push(process(400, "short", second * 500));
            if second >= 2 {
                processes.push(newborn(500, "newborn", BOOT_S + 1, second));
            }
        }
        sample.tasks = Ok(Tasks { processes: processes.into_iter().map(Arc::new).collect(), ..Tasks::default() });
        sample
    }
}

fn process(pid: u32, name: &str, run_ms: u64) -> Process {
    let ticks = Counter(run_ms / 10);
    let thread = Thread {
        tid: pid,
        start_ticks: 7,
        comm: Name::from(name),
        state: TaskState::Sleeping,
        processor: 0,
        user_ticks: ticks,
        system_ticks: Counter(0),
        minor_faults: Counter(0),
        major_faults: Counter(0),
        block_io_delay_ticks: Counter(0),
        guest_ticks: Counter(0),
        background: false,
        schedstat: Some(Schedstat {
            run_ns: Counter(run_ms * 1_000_000),
            run_delay_ns: Counter(0),
            timeslices: Counter(run_ms),
        }),
        last_timeslice_ns: None,
        wait: WaitState::default(),
        cpus_allowed_list: None,
    };
    Process {
        pid,
        start_ticks: 7,
        ppid: u32::from(pid > 1),
        uid: 0,
        comm: Name::from(name),
        kernel_thread: false,
        facts: Arc::new(ProcessFacts { cmdline: Ok(Name::from(name)), ..ProcessFacts::default() }),
        user_ticks: ticks,
        system_ticks: Counter(0),
        guest_ticks: Counter(0),
        children_cpu: None,
        cpu_ns: Some(Counter(run_ms * 1_000_000)),
        minor_faults: Counter(0),
        major_faults: Counter(0),
        resident_pages: 250,
        io: Err(Absent::NoPermission),
        threads: Arc::new([thread]),
    }
}

/// One that has begun then, and has done something each second since.
fn newborn(pid: u32, name: &str, began_s: u64, second: u64) -> Process {
    let start_ticks = began_s * 100 + 50;
    let bytes = Counter((second - 1) * 4096);
    let mut process = process(pid, name, (second - 1) * 250);
    process.threads_mut()[0].start_ticks = start_ticks;
    let io = Ok(TaskIo { read_bytes: bytes, ..TaskIo::default() });
    Process { start_ticks, minor_faults: Counter(second), io, ..process }
}

fn host() -> Host {
    Host {
        hostname: Name::from("db1"),
        kernel: Name::from("6.18.0"),
        machine: Name::from("x86_64"),
        boot_id: Name::from("5c2d5e8a"),
        boot_time_s: Some(BEGIN_S - BOOT_S),
        page_size: 4096,
        ticks_per_second: 100,
        topology: Vec::new(),
        privilege: Privilege { effective_uid: 0, has_cap_sys_ptrace: true, delay_accounting: Ok(false), hidepid: false },
    }
}

pub fn stalltop(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stalltop"));
    command.args(arguments).stdin(Stdio::null()).env("XDG_STATE_HOME", "/nonexistent").env("TZ", "UTC");
    command
}

/// Its code, standard output and standard error.
pub fn run(arguments: &[&str]) -> (i32, String, String) {
    read(&stalltop(arguments).output().unwrap())
}

pub fn read(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}
