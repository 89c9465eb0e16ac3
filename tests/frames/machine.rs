//! Synthetic machines: every counter grows by the same amount per second, so that each value on a frame follows from the
//! fields here.

use std::collections::BTreeMap;
use std::sync::Arc;

use stalltop::baseline::{Baselines, LatencyStatus, SizeClass};
use stalltop::findings::{Evaluation, Evidence, Finding, Kind, Severity, Subject, Value};
use stalltop::ids::{CpuId, DiskId, GroupId, ProcessId, TaskId};
use stalltop::interval::Interval;
use stalltop::interval::disk::Operation;
use stalltop::interval::wait_counts::GroupWaits;
use stalltop::sample::block_io::{BlockIo, LatencyBucket};
use stalltop::sample::cpu::{Cpu, CpuTimes, Load};
use stalltop::sample::disk::{Disk, DiskFacts};
use stalltop::sample::host::{CpuTopology, Privilege};
use stalltop::sample::memory::Memory;
use stalltop::sample::network::{Nic, Tcp, Udp};
use stalltop::sample::stacks::{ThreadStack, UserStack};
use stalltop::sample::task::{ProcessFacts, RawSyscall, TaskState, WaitState};
use stalltop::sample::waits::{BlockedWait, SubSample, WaitClass, WaitQueue, Waits};
use stalltop::sample::{Absent, Host, Instant, Name, Reading, Sample, SamplingCost};
use stalltop::units::{Counter, Millis};

use super::synthetic::{self, ProcessBuilder, ThreadBuilder};

/// The activity of a machine per second.
#[derive(Clone)]
pub struct Machine {
    pub hostname: &'static [u8],
    /// user, system, softirq, steal, iowait in ticks; the rest of 100 is idle
    pub cpus: Vec<[u64; 5]>,
    pub load: [f64; 3],
    pub workers: Vec<Worker>,
    pub devices: Vec<Device>,
    pub links: Vec<Link>,
    pub network: crate::network::Network,
    /// Threads of the first worker: blocked on storage, waiting for a lock
    pub stuck: (u16, u16),
    pub privileged: bool,
    pub findings: Vec<Finding>,
    pub latency_statuses: Vec<LatencyStatus>,
}

#[derive(Clone)]
pub struct Worker {
    pub pid: u32,
    pub comm: &'static [u8],
    pub cmdline: &'static [u8],
    pub threads: Vec<Thread>,
}

#[derive(Clone)]
pub struct Thread {
    pub user_ms: u64,
    pub delay_ms: u64,
    pub state: TaskState,
    pub channel: &'static [u8],
    pub call: i64,
    pub class: WaitClass,
    pub processor: u32,
}

#[derive(Clone)]
pub struct Device {
    pub name: &'static [u8],
    pub minor: u32,
    pub rotational: bool,
    /// Requests per second, and milliseconds of each
    pub reads: (u64, u64),
    pub writes: (u64, u64),
    pub flushes: (u64, u64),
    pub in_flight: u32,
    pub busy_ms: u64,
    /// Buckets of the latency histogram of reads, and requests per second in each; none where no eBPF program counts them
    pub read_latencies: Vec<(u8, u64)>,
}

#[derive(Clone)]
pub struct Link {
    pub name: &'static [u8],
    pub speed_mbps: Option<u32>,
    pub rx: (u64, u64),
    pub tx: (u64, u64),
}

pub const SLEEPER: Thread = Thread {
    user_ms: 0,
    delay_ms: 0,
    state: TaskState::Sleeping,
    channel: b"do_epoll_wait",
    call: 232,
    class: WaitClass::Poll,
    processor: 0,
};

pub const RUNNER: Thread = Thread {
    user_ms: 1000,
    delay_ms: 0,
    state: TaskState::Running,
    channel: b"",
    call: -1,
    class: WaitClass::Running,
    processor: 1,
};

/// 2026-03-01 12:00:00 UTC
const BEGIN_S: u64 = 1_772_366_400;
const UPTIME_S: u64 = 1_051_860;

pub fn instant(second: u64) -> Instant {
    synthetic::instant((UPTIME_S + second) as f64, BEGIN_S - UPTIME_S)
}

impl Machine {
    pub fn host(&self) -> Host {
        Host {
            hostname: Name::from(self.hostname),
            kernel: Name::from("6.18.44"),
            machine: Name::from("x86_64"),
            boot_id: Name::from("0f6c"),
            boot_time_s: Some(BEGIN_S - UPTIME_S),
            topology: (0..u32::try_from(self.cpus.len()).unwrap())
                .map(|cpu| CpuTopology { cpu: CpuId(cpu), node: cpu / 64, package: cpu / 64, core: cpu })
                .collect(),
            privilege: Privilege {
                effective_uid: if self.privileged { 0 } else { 1000 },
                has_cap_sys_ptrace: self.privileged,
                delay_accounting: Ok(true),
                hidepid: false,
            },
            ..synthetic::host()
        }
    }

    /// `count` intervals of one second; the findings are active from interval `from`.
    pub fn intervals(&self, count: u64, from: u64) -> Vec<Evaluation> {
        let host = Arc::new(self.host());
        let samples: Vec<Arc<Sample>> = (0..=count).map(|second| Arc::new(self.sample(second))).collect();
        let mut peers = None;
        samples
            .windows(2)
            .zip(0_u64..)
            .map(|(pair, at)| {
                let interval = Arc::new(Interval::between(&host, &pair[0], &pair[1]).unwrap());
                let mut findings = if at >= from { self.findings.clone() } else { Vec::new() };
                findings.iter_mut().for_each(|finding| finding.since = instant(from));
                // Not every interval has a socket scan.
                peers = interval.network.remote_hosts.clone().or(peers.take());
                Evaluation {
                    rule_config: Arc::default(),
                    remote_hosts: peers.clone(),
                    interval,
                    active: findings.into(),
                    ended: Vec::new(),
                    latency_statuses: self.latency_statuses.clone().into(),
                    baselines: Baselines::default(),
                    observations: Arc::default(),
                }
            })
            .collect()
    }

    fn sample(&self, k: u64) -> Sample {
        let at = instant(k);
        let mut sample =
            synthetic::sample_at(at).processes(self.workers.iter().map(|worker| worker.at(k, at, self.privileged))).build();
        sample.cpu = Ok(self.cpu(k as f64));
        sample.load = Ok(Load { one: self.load[0], five: self.load[1], fifteen: self.load[2], runnable: 1, entities: 900 });
        sample.memory = Ok(Memory {
            total_kb: Some(32_768_000),
            available_kb: Some(12_900_000),
            swap_total_kb: Some(2_097_152),
            swap_free_kb: Some(2_097_152),
            swapped_in_pages: Some(Counter(0)),
            swapped_out_pages: Some(Counter(0)),
            major_faults: Some(Counter(3 * k)),
            ..Memory::default()
        });
        sample.disks = Ok(self.devices.iter().map(|device| device.at(k)).collect());
        sample.nics = Ok(self.links.iter().zip(1..).map(|(link, index)| link.at(index, k)).collect());
        sample.protocols.tcp = Ok(Tcp {
            segments_in: Counter(902 * k),
            segments_out: Counter(1204 * k),
            established: 47,
            passive_opens: Counter(12 * k),
            active_opens: Counter(4 * k),
            ..Tcp::default()
        });
        sample.protocols.udp = Ok(Udp { datagrams_in: Counter(3 * k), ..Udp::default() });
        self.network.fill(&mut sample, k);
        if let Ok(tasks) = &mut sample.tasks {
            let threads = tasks.processes.iter().map(|process| process.threads.len() as u32).sum();
            tasks.users = Arc::new(BTreeMap::from([(26, Name::from("postgres")), (0, Name::from("root"))]));
            tasks.hidden.wait_channels = if self.privileged { 0 } else { threads };
        }
        sample.waits = self.waits(k);
        sample.stacks = self.stacks();
        if self.devices.iter().any(|device| !device.read_latencies.is_empty()) {
            let buckets = self.devices.iter().flat_map(|device| device.latencies_at(k)).collect();
            sample.block_io = Ok(BlockIo { since_boottime_ns: instant(0).boottime_ns, buckets });
        }
        sample.user_stacks = Ok(self.user_stacks());
        sample.cost = SamplingCost {
            process_cpu_ns: Counter(4_200_000 * k),
            scan_cpu_ns: 2_310_000,
            sub_samples_cpu_ns: 900_000,
            start_delay_ns: 0,
            tasks_read: 12,
            skipped_samples: 0,
        };
        sample
    }

    fn cpu(&self, seconds: f64) -> Cpu {
        let times = |rates: [u64; 5]| {
            let ticks = |rate: u64| Counter((rate as f64 * seconds).round() as u64);
            CpuTimes {
                user_ticks: ticks(rates[0]),
                system_ticks: ticks(rates[1]),
                softirq_ticks: ticks(rates[2]),
                steal_ticks: Some(ticks(rates[3])),
                iowait_ticks: ticks(rates[4]),
                idle_ticks: ticks(100 - rates.iter().sum::<u64>()),
                ..CpuTimes::default()
            }
        };
        let sampled = synthetic::sample_at(Instant::default()).cpus(self.cpus.iter().map(|&rates| times(rates))).build();
        Cpu {
            context_switches: Some(Counter((5120.0 * seconds) as u64)),
            forks: Some(Counter((2.0 * seconds) as u64)),
            ..sampled.cpu.unwrap()
        }
    }

    /// Threads in fsync have their stack.
    fn stacks(&self) -> Reading<Vec<ThreadStack>> {
        if !self.privileged {
            return Err(Absent::NoPermission);
        }
        let stack = Name::from(
            "jbd2_log_wait_commit [jbd2]\next4_fsync_journal [ext4]\next4_sync_file [ext4]\ndo_fsync\n__x64_sys_fdatasync\n\
             do_syscall_64\nentry_SYSCALL_64_after_hwframe",
        );
        Ok(self.tasks_in_fsync().map(|task| ThreadStack { task, kernel: Ok(stack.clone()) }).collect())
    }

    fn user_stacks(&self) -> Vec<UserStack> {
        let stack = Name::from(
            "fdatasync [libc.so.6]\nissue_xlog_fsync\nXLogWrite\nXLogFlush\nRecordTransactionCommit\nCommitTransaction\nPostgresMain\n\
             main\n__libc_start_main [libc.so.6]\n_start",
        );
        let functions = if self.privileged { Ok(stack) } else { Err(Absent::NoPermission) };
        self.tasks_in_fsync().map(|task| UserStack { task, functions: functions.clone() }).collect()
    }

    fn tasks_in_fsync(&self) -> impl Iterator<Item = TaskId> {
        self.workers.iter().flat_map(|worker| {
            let places = worker.threads.iter().enumerate().filter(|(_, thread)| thread.channel == b"jbd2_log_wait_commit");
            places.map(|(at, _)| worker.task(at))
        })
    }

    fn waits(&self, k: u64) -> Waits {
        let Some(worker) = self.workers.first() else { return Waits::default() };
        let group = GroupId::Process(ProcessId { pid: worker.pid, start_ticks: 100 });
        let (storage, behind) = self.stuck;
        let sub_samples = (1..=10)
            .map(|tenth| {
                let seconds = (k.saturating_sub(1)) as f64 + f64::from(tenth) / 10.0;
                let mut waits = synthetic::waits::group(&GroupWaits { storage, ..GroupWaits::default() });
                waits.extend((behind > 0).then(|| synthetic::waits::mutex(0, behind)));
                SubSample {
                    boottime_ns: ((UPTIME_S as f64 + seconds) * 1e9) as u64,
                    cpu: Some(self.cpu(seconds).total),
                    in_flight: Some(self.devices.iter().map(|device| device.in_flight).sum()),
                    waits,
                }
            })
            .collect();
        let task = |thread: usize| worker.task(thread);
        let threads = (worker.threads.iter().enumerate())
            .filter(|(_, thread)| thread.class != WaitClass::Poll)
            .flat_map(|(at, thread)| synthetic::waits::thread(task(at), 0, &[(thread.class, 10)]))
            .collect();
        let blocked = (worker.threads.iter().enumerate())
            .filter(|(_, thread)| thread.state == TaskState::Blocked)
            .map(|(at, thread)| BlockedWait {
                task: task(at),
                group: 0,
                comm: Name::from(worker.comm),
                state: TaskState::Blocked,
                wchan: self.privileged.then(|| Name::from(thread.channel)),
                syscall: self.privileged.then_some(RawSyscall { number: thread.call, arguments: [3, 0, 0] }),
                seen_count: 10,
                last_sub_sample: 9,
                blocked_since_ns: (UPTIME_S + k) * 1_000_000_000 - 40_000_000,
                file: self.privileged.then(|| Name::from("/var/lib/pg/pg_wal/000000010000000A")),
                disk: self.privileged.then(|| self.devices.first().map(Device::id)).flatten(),
                mount: self.privileged.then(|| Name::from("/var/lib/pg")),
                file_system: self.privileged.then(|| Name::from("ext4")),
            })
            .collect();
        let queue = WaitQueue {
            group: 0,
            wait: synthetic::waits::MUTEX,
            futex_address: Some(0x7f00_1000),
            seen_count: u32::from(behind) * 10,
            file: None,
            lock_holder: None,
        };
        let queues = if behind > 0 { vec![queue] } else { Vec::new() };
        let observed = synthetic::waits::observed();
        Waits { sub_samples, groups: vec![group], observed, threads, blocked, wait_queues: queues, ..Waits::default() }
    }
}

impl Worker {
    pub fn task(&self, thread: usize) -> stalltop::ids::TaskId {
        let tid = self.pid + u32::try_from(thread).unwrap();
        stalltop::ids::TaskId { pid: self.pid, tid, start_ticks: 100 }
    }

    fn at(&self, k: u64, at: Instant, privileged: bool) -> ProcessBuilder {
        let used: u64 = self.threads.iter().map(|thread| thread.user_ms).sum();
        let threads = self.threads.iter().zip(self.pid..).map(|(thread, tid)| thread.at(tid, self.comm, k, at, privileged));
        synthetic::process(self.pid, self.comm)
            .started(100)
            .ran(used * k * 1_000_000)
            .facts(ProcessFacts {
                cmdline: Ok(Name::from(self.cmdline)),
                executable: Ok(Name::from("/usr/bin/worker")),
                cgroup: Err(Absent::NoSuchFile),
                ..ProcessFacts::default()
            })
            .threads(threads)
            .with(|process| (process.uid, process.resident_pages) = (26, 4200))
    }
}

impl Thread {
    fn at(&self, tid: u32, comm: &[u8], k: u64, at: Instant, privileged: bool) -> ThreadBuilder {
        let moves = self.class != WaitClass::Poll;
        let timeslices = if moves { 20 * k } else { 7 };
        let thread = synthetic::thread(tid, comm).started(100).state(self.state);
        thread.ran(self.user_ms * k * 1_000_000, self.delay_ms * k * 1_000_000, timeslices).with(|thread| {
            thread.processor = self.processor;
            thread.last_timeslice_ns = moves.then_some(at.boottime_ns);
            thread.wait = WaitState {
                wchan: match (self.state, privileged) {
                    (TaskState::Running, _) => Err(Absent::Vanished),
                    (_, false) => Err(Absent::Hidden),
                    (_, true) => Ok(Name::from(self.channel)),
                },
                syscall: if privileged {
                    Ok(Arc::new(RawSyscall { number: self.call, arguments: [0x1000, 0x80, 2] }))
                } else {
                    Err(Absent::NoPermission)
                },
            };
        })
    }
}

impl Device {
    pub fn id(&self) -> DiskId {
        DiskId { major: 8, minor: self.minor }
    }

    /// A quarter of the requests is sequential; half of each latency is in the queue, half on the device.
    fn latencies_at(&self, k: u64) -> Vec<LatencyBucket> {
        let bucket = |bucket: u8, completed: u64, part: u64| LatencyBucket {
            disk: self.id(),
            operation: Operation::Read,
            bucket,
            completed: Counter(completed * k),
            sequential: Counter(completed * k / 4),
            queued: Counter(part * k),
            on_device: Counter(part * k),
        };
        // Eight buckets to a power of two
        let both = |&(whole, count): &(u8, u64)| [bucket(whole - 8, 0, count), bucket(whole, count, 0)];
        let mut buckets: Vec<LatencyBucket> = self.read_latencies.iter().flat_map(both).collect();
        buckets.sort_by_key(|row| row.bucket);
        buckets
    }

    fn at(&self, k: u64) -> Disk {
        let op = |(count, each_ms): (u64, u64), kib: u64| synthetic::operations(count * k, kib, count * each_ms * k);
        let facts = DiskFacts {
            rotational: Some(self.rotational),
            model: Some(Name::from("WDC WD40EFRX")),
            size_bytes: Some(4_000_787_030_016),
            scheduler: Some(Name::from("mq-deadline")),
            mount_points: vec![Name::from("/var/lib/pg")],
            ..DiskFacts::default()
        };
        synthetic::disk(self.name)
            .id(8, self.minor)
            .facts(facts)
            .reads(op(self.reads, 8))
            .writes(op(self.writes, 16))
            .flushes(self.flushes.0 * k, self.flushes.0 * self.flushes.1 * k)
            .in_flight(self.in_flight)
            .busy_ms(self.busy_ms * k, (self.reads.0 * self.reads.1 + self.writes.0 * self.writes.1) * k)
            .build()
    }
}

impl Link {
    fn at(&self, index: u32, k: u64) -> Nic {
        let side = |(kilobytes, packets): (u64, u64)| synthetic::traffic(kilobytes * 1024 * k, packets * k);
        let nic = synthetic::nic(index, self.name).rx(side(self.rx)).tx(side(self.tx));
        nic.facts(|facts| {
            facts.speed_mbps = self.speed_mbps.ok_or(Absent::Unsupported);
            facts.virtual_device = self.speed_mbps.is_none();
        })
        .build()
    }
}

/// A finding with this sentence.
pub fn finding(kind: Kind, severity: Severity, subject: Subject, sentence: &str) -> Finding {
    Finding {
        kind,
        severity,
        subject,
        since: instant(0),
        // Shown by the interval of the frame, whichever that is.
        figures_at: instant(1_000_000),
        until: None,
        value: 0.46,
        threshold: 0.25,
        unit: "ratio",
        sentence: sentence.to_owned(),
        evidence: vec![
            Evidence { name: "iowait_ratio", value: Value::Number(0.05) },
            Evidence { name: "queue", value: Value::Number(66.0) },
            Evidence { name: "device", value: Value::Unknown },
        ],
        next: vec!["the device's await against its baseline".to_owned()],
        explained_share: 0.46,
        cgroup_name: None,
        follows_from: None,
    }
}

pub fn latency_status(disk: DiskId, operation: Operation, baseline: f64, multiple: f64, provisional: bool) -> LatencyStatus {
    LatencyStatus {
        disk,
        operation,
        baseline: Millis(baseline),
        provisional,
        from_calm_time: !provisional,
        multiple: Some(multiple),
        learned_intervals: if provisional { 3 } else { 412 },
        size: SizeClass::Small,
        window_load: None,
        baseline_load: None,
        requests: None,
    }
}
