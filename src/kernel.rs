//! Readers of the running kernel, one file per subject, and the `Sampler`, which calls each of them once per sample.
//!
//! Readers return counters and facts as the kernel has them, without differences or judgements. A reading that fails is
//! `Absent` with its reason. The `Sampler` also takes sub-samples: between two samples, about ten times a second, it reads
//! the threads again that ran recently, are runnable or are blocked (`scan`), and counts what they wait for (`waits`).

pub mod cgroup;
mod containers;
mod context_switches;
pub mod cpu;
mod cpu_frequency;
pub mod delays;
pub mod disk;
pub mod elf;
pub mod exits;
pub mod fields;
pub mod host;
pub mod limits;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod pressure;
pub mod probe;
mod refresh_cycle;
mod regular_file;
pub mod root;
pub mod scan;
pub mod stacks;
#[allow(unsafe_code, reason = "the only module of this layer with unsafe code")]
pub mod sys;
mod sys_admin;
pub mod task;
pub mod taskstats;
mod uevents;
#[cfg_attr(not(all(feature = "user-stacks", target_arch = "x86_64")), path = "kernel/user_stacks/unavailable.rs")]
pub mod user_stacks;
pub mod users;
pub mod waits;
pub mod wake_trace;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::time::ClockId;
use thiserror::Error;

pub use root::Root;

use crate::ids::CgroupId;
use crate::sample::{Host, Instant, Name, Sample, SamplingCost};
use crate::units::Counter;
use scan::{TaskScanner, new_pids, read_clock_ns};
use waits::budget::{CpuBudget, DEFAULT_SHARE};
use waits::{SubSampleReadings, WaitCounter};

/// One sub-sample in this many is a full one: it also fetches exits (the kernel's buffer holds about 3,000 of them) and, if
/// there was I/O in the last sample, reads the requests in flight. While a thread is blocked, every sub-sample reads those.
const SUB_SAMPLES_PER_FULL_ONE: u32 = 3;
/// For this long after a thread was seen blocked, every sub-sample reads CPU times and requests in flight: a group counts as
/// blocked between two sub-samples that saw one of its threads blocked.
const BLOCKED_HOLD_NS: u64 = 1_000_000_000;
/// The CPU times read at the start of a sample are used for its closing sub-sample if they are not older than this, a tick.
const MAX_CPU_TIMES_AGE_NS: u64 = 10_000_000;

/// Counters that are read later than this after the time of the sample have a time of their own.
const MIN_READ_DELAY_NS: u64 = 4_000_000;

/// Why no samples can be taken.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("/proc is not mounted")]
    NoProc,
}

/// Sub-samples that the caller omits because they would read no thread.
#[derive(Clone, Copy, Debug, Default)]
struct OmittedSubSamples {
    count: u32,
    /// CLOCK_BOOTTIME of the first
    first_ns: u64,
    period_ns: u64,
}

/// Takes samples of one machine. It keeps open files, facts and counters of the last reading, so that unchanged things are
/// not read again.
///
/// Reading /proc may block for seconds on an overloaded machine: callers run it on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    host: Host,
    cpu: cpu::CpuReader,
    cpu_frequency: cpu_frequency::FrequencyReader,
    memory: memory::MemoryReader,
    pressure: pressure::PressureReader,
    disk: disk::DiskReader,
    block_latencies: probe::block_latencies::BlockLatencies,
    network: network::NetworkReader,
    unix_senders: network::unix_senders::UnixSenderReader,
    cgroup: cgroup::CgroupReader,
    containers: containers::ContainerReader,
    delays: delays::DelayReader,
    /// `None` unless enabled
    context_switches: Option<context_switches::ContextSwitchReader>,
    user_lookup: users::UserNames,
    user_names: Arc<BTreeMap<u32, Name>>,
    scanner: TaskScanner,
    waits: WaitCounter,
    stacks: stacks::StackReader,
    user_stacks: user_stacks::UserStackReader,
    exits: exits::ExitReader,
    limits: limits::LimitReader,
    budget: CpuBudget,
    sub_samples_cpu_ns: u64,
    /// Requests in flight when they were last read
    in_flight: Option<u32>,
    /// Sub-samples since the last full one, see `SUB_SAMPLES_PER_FULL_ONE`
    sub_samples_since_full_one: u32,
    omitted_sub_samples: OmittedSubSamples,
    /// CLOCK_BOOTTIME when a thread was last seen blocked
    last_blocked_ns: Option<u64>,
    /// Of a fixture tree: the time as CLOCK_BOOTTIME
    fixed_boottime_ns: Option<u64>,
}

impl Sampler {
    /// Opens the files that are read repeatedly. Fails only without /proc.
    pub fn new(root: Root) -> Result<Sampler, KernelError> {
        let host = host::read(&root);
        let scanner = TaskScanner::new(&root, &host).map_err(|_| KernelError::NoProc)?;
        if !root.exists("proc/stat") {
            return Err(KernelError::NoProc);
        }
        Ok(Sampler {
            host,
            cpu: cpu::CpuReader::default(),
            cpu_frequency: cpu_frequency::FrequencyReader::default(),
            memory: memory::MemoryReader::default(),
            pressure: pressure::PressureReader::default(),
            disk: disk::DiskReader::default(),
            block_latencies: probe::block_latencies::BlockLatencies::default(),
            network: network::NetworkReader::default(),
            unix_senders: network::unix_senders::UnixSenderReader::default(),
            cgroup: cgroup::CgroupReader::default(),
            containers: containers::ContainerReader::default(),
            delays: delays::DelayReader::default(),
            context_switches: None,
            user_lookup: users::UserNames::default(),
            user_names: Arc::default(),
            scanner,
            waits: WaitCounter::default(),
            stacks: stacks::StackReader::new(&root),
            user_stacks: user_stacks::UserStackReader::new(&root),
            exits: exits::ExitReader::new(&root),
            limits: limits::LimitReader::default(),
            budget: CpuBudget::new(DEFAULT_SHARE),
            sub_samples_cpu_ns: 0,
            in_flight: None,
            sub_samples_since_full_one: 0,
            omitted_sub_samples: OmittedSubSamples::default(),
            last_blocked_ns: None,
            fixed_boottime_ns: None,
            root,
        })
    }

    /// The facts of the machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Reads context switches from now on: one file for each thread that ran.
    pub fn enable_context_switches(&mut self) {
        self.context_switches.get_or_insert_default();
    }

    /// Reads the owners of locks inside the kernel from now on, where this program may load an eBPF program and sees all tasks by
    /// their numbers in the initial pid namespace. `program` is this one: it is started once more, when threads wait for such locks.
    pub fn enable_kernel_lock_owners(&mut self, program: PathBuf) {
        if self.root.is_host() && self.is_in_initial_pid_namespace() {
            self.waits.enable_kernel_lock_owners(program);
        }
    }

    /// Finds the holders of mutexes that name no owner from now on, by an eBPF program that is loaded when threads queue at one, where this
    /// program may load it and sees all tasks by their numbers in the initial pid namespace. `program` is this one. With
    /// `max_cpu_share`, of one CPU, it is not attached while that would take more.
    pub fn enable_lock_wakers(&mut self, program: PathBuf, max_cpu_share: Option<f64>) {
        let can_load = self.root.is_host() && probe::load_obstacle(&self.root).is_none();
        if can_load && self.is_in_initial_pid_namespace() {
            self.scanner.follow_likely_mutexes();
            self.waits.enable_lock_wakers(program, self.host.machine.clone(), max_cpu_share);
        }
    }

    /// Counts latencies of block requests from now on, by an eBPF program, where it may load one; does not wait for that. `program`
    /// is this one, which is started once more. With `max_cpu_share`, of one CPU, it does not count while that takes more.
    pub fn enable_block_latencies(&mut self, program: PathBuf, max_cpu_share: Option<f64>) {
        if self.root.is_host() {
            self.block_latencies = probe::block_latencies::BlockLatencies::start(&self.root, program, max_cpu_share);
        }
    }

    /// Waits until the program counts, for `--probes on`; why it does not.
    pub fn wait_for_block_latencies(&mut self) -> Result<(), probe::probe_error::ProbeError> {
        self.block_latencies.wait_until_attached(&self.root)
    }

    /// Whether the pids in /proc are those of the initial pid namespace.
    pub fn is_in_initial_pid_namespace(&mut self) -> bool {
        self.scanner.files().is_in_initial_pid_namespace()
    }

    /// Sets the CPU budget of sub-samples, as a share of one CPU; 0.01 by default.
    pub fn set_sub_sample_cpu_share(&mut self, share: f64) {
        self.budget = CpuBudget::new(share);
    }

    /// For a fixture tree: the time as CLOCK_BOOTTIME, until the next call.
    pub fn set_fixed_time(&mut self, boottime_ns: u64) {
        self.fixed_boottime_ns = Some(boottime_ns);
    }

    fn boottime_ns(&self) -> u64 {
        self.fixed_boottime_ns.unwrap_or_else(|| clock_ns(ClockId::CLOCK_BOOTTIME))
    }

    fn now(&self) -> Instant {
        match self.fixed_boottime_ns {
            Some(boottime_ns) => Instant { boottime_ns, monotonic_ns: boottime_ns, ..now() },
            None => now(),
        }
    }

    /// For a fixture tree: the CPU clock of a process in nanoseconds. Without clocks each process is read in each sample.
    pub fn set_process_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.scanner.set_process_clock(pid, cpu_ns);
    }

    /// Whether the CPU budget allows a sub-sample now. `sub_sample` checks this, too.
    pub fn allows_sub_sample(&self) -> bool {
        self.budget.allows(clock_ns(ClockId::CLOCK_MONOTONIC))
    }

    /// Returns how many of the next `most` sub-samples would read no thread, so that the caller can omit them. The first is due
    /// after `first`, the others a `period` apart. The next sub-sample or sample records them with the thread states seen last.
    pub fn omit_idle_sub_samples(&mut self, first: Duration, period: Duration, most: u32) -> u32 {
        let now_ns = self.boottime_ns();
        let count = if self.was_blocked_recently() { 0 } else { self.scanner.idle_sub_samples(now_ns).min(most) };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.omitted_sub_samples =
            OmittedSubSamples { count, first_ns: now_ns.saturating_add(ns(first)), period_ns: ns(period) };
        count
    }

    /// Records the omitted sub-samples that were due before now.
    fn record_omitted_sub_samples(&mut self) {
        let (now_ns, OmittedSubSamples { count, first_ns, period_ns }) =
            (self.boottime_ns(), std::mem::take(&mut self.omitted_sub_samples));
        let times = (0..count).map(|number| first_ns.saturating_add(period_ns.saturating_mul(u64::from(number))));
        for boottime_ns in times.take_while(|&time_ns| time_ns < now_ns) {
            self.sub_samples_since_full_one = self.sub_samples_since_full_one.saturating_add(1);
            self.scanner.skip_sub_sample();
            let cross_checks = SubSampleReadings { boottime_ns, cpu: None, in_flight: self.in_flight };
            self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), cross_checks);
        }
    }

    /// Takes a sub-sample of the active threads; called about ten times a second. If the CPU budget does not allow it, counts it
    /// as skipped and returns false.
    pub fn sub_sample(&mut self) -> bool {
        self.record_omitted_sub_samples();
        if !self.allows_sub_sample() {
            self.waits.record_skipped();
            return false;
        }
        let begin = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        self.scanner.sub_sample(self.boottime_ns());
        self.sub_samples_since_full_one = self.sub_samples_since_full_one.saturating_add(1);
        let all = self.sub_samples_since_full_one >= SUB_SAMPLES_PER_FULL_ONE;
        if all {
            self.sub_samples_since_full_one = 0;
        }
        let blocked = self.was_blocked_recently();
        // The two most expensive files. While no thread is blocked, requests in flight are only displayed, and CPU times are
        // not used.
        if blocked || (all && !self.disk.is_idle()) {
            self.in_flight = self.disk.in_flight(&self.root).ok();
        }
        let cpu = if blocked { self.cpu.read_total(&self.root).ok() } else { None };
        let cross_checks = SubSampleReadings { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), cross_checks);
        self.read_lock_owners();
        if all {
            self.exits.fetch(self.boottime_ns(), &self.scanner);
        }
        let cost_ns = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
        self.sub_samples_cpu_ns = self.sub_samples_cpu_ns.saturating_add(cost_ns);
        self.budget.spend(clock_ns(ClockId::CLOCK_MONOTONIC), cost_ns);
        true
    }

    /// Not of a fixture tree, whose processes have no memory.
    fn read_lock_owners(&mut self) {
        if self.root.is_host() {
            self.waits.read_lock_owners(self.scanner.files());
        }
    }

    /// Whether a thread is blocked, or was within the last second.
    fn was_blocked_recently(&mut self) -> bool {
        let now_ns = self.boottime_ns();
        if self.scanner.has_blocked_threads() {
            self.last_blocked_ns = Some(now_ns);
        }
        self.last_blocked_ns.is_some_and(|blocked_ns| now_ns.saturating_sub(blocked_ns) <= BLOCKED_HOLD_NS)
    }

    /// Reads everything once. The sample includes the sub-samples since the last sample, and a closing one.
    /// `cost.start_delay_ns` and `cost.skipped_samples` remain 0: the caller sets them.
    pub fn sample(&mut self) -> Sample {
        self.record_omitted_sub_samples();
        let mut sample = Sample::empty(self.now());
        sample.cpu = self.cpu.sample(&self.root);
        if let Ok(cpu) = &sample.cpu {
            sample.cpu_frequencies = self.cpu_frequency.sample(&self.root, &cpu.cpus, std::time::Instant::now());
        }
        sample.load = self.cpu.load(&self.root);
        sample.pressure = self.pressure.sample(&self.root);
        sample.memory = self.memory.sample(&self.root);
        sample.read_delays.disks_us = self.read_delay_us(&sample);
        sample.disks = self.disk.sample(&self.root);
        sample.block_io = self.block_latencies.read(sample.disks.as_deref().unwrap_or_default(), sample.at.boottime_ns);
        sample.read_delays.nics_us = self.read_delay_us(&sample);
        sample.nics = self.network.sample(&self.root);
        sample.protocols = self.network.protocols(&self.root);
        sample.read_delays.cgroups_us = self.read_delay_us(&sample);
        self.cgroup.set_host_oom_kills(sample.memory.as_ref().ok().and_then(|memory| memory.oom_kills));
        (sample.cgroups, sample.io_limits) = self.cgroup.sample(&self.root);

        let begin = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let forks = sample.cpu.as_ref().ok().and_then(|cpu| cpu.forks);
        let counters = new_pids::ForkCounters { forks, last_pid: self.cpu.last_pid() };
        self.exits.fetch(self.boottime_ns(), &self.scanner);
        self.scanner.set_sample_time(sample.at.boottime_ns);
        let mut tasks = self.scanner.scan(self.boottime_ns(), counters);
        tasks.users = self.user_names();
        if let Some(reader) = &mut self.context_switches {
            sample.context_switches = Ok(reader.sample(self.scanner.files(), &tasks));
        }
        let competing =
            sample.cpu.as_ref().is_ok_and(|cpu| cpu.running.is_some_and(|running| running as usize > cpu.cpus.len()));
        if competing {
            sample.cgroup_weights = self.cgroup.weights(&self.root, &tasks);
        }
        sample.read_delays.network_namespaces_us = self.read_delay_us(&sample);
        sample.network_namespaces = self.network.namespaces(&self.root, self.scanner.network_namespaces(), &tasks);
        let load = sample.load.as_ref().ok().copied();
        let known = limits::KnownReadings { tasks: &tasks, load, cgroups: &self.cgroup, now_ns: sample.at.boottime_ns };
        sample.limits = Ok(self.limits.sample(&self.root, self.scanner.files(), known));
        sample.tasks = Ok(tasks);
        sample.container_names = self.containers.sample(&self.root, &sample);
        let machine = self.host.machine.as_bytes();
        sample.protocols.waiting_connections = self.network.waiting_connections(&self.root, self.scanner.files(), machine);
        sample.exits = self.exits.sample(sample.at.boottime_ns, &self.scanner);
        sample.delays = self.delays.sample(&self.root, self.scanner.processes(), clock_ns(ClockId::CLOCK_BOOTTIME));
        let scan_cpu_ns = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);

        let stale = self.boottime_ns().saturating_sub(sample.at.boottime_ns) > MAX_CPU_TIMES_AGE_NS;
        let cpu = match &sample.cpu {
            Ok(cpu) if !stale && !self.was_blocked_recently() => {
                self.in_flight = self.disk.last_in_flight();
                Some(cpu.total)
            }
            _ => {
                self.in_flight = self.disk.in_flight(&self.root).ok();
                self.cpu.read_total(&self.root).ok()
            }
        };
        let cross_checks = SubSampleReadings { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        let switches = sample.cpu.as_ref().ok().and_then(|cpu| cpu.context_switches);
        self.waits.limit_lock_wakers(switches, sample.at.boottime_ns);
        self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), cross_checks);
        self.read_lock_owners();
        let drained = self.waits.finish_interval();
        let disks = sample.disks.as_deref().unwrap_or_default();
        let machine = self.host.machine.as_bytes();
        let throttled: Vec<&CgroupId> = self.cgroup.throttled().collect();
        let known = waits::blocked::SampleReadings { disks, tasks: sample.tasks.as_ref().ok(), throttled: &throttled };
        sample.waits = waits::blocked::resolve_files(drained, &self.root, self.scanner.files(), machine, known);
        if let Ok(tasks) = &sample.tasks {
            let stuck = stacks::candidates(self.waits.stuck_threads(), &sample.waits, tasks);
            // Another thread reads them while this one reads the kernel stacks and what follows.
            self.user_stacks.request(&stuck);
            sample.stacks = self.stacks.sample(self.scanner.files(), stuck, sample.at.boottime_ns);
        } else {
            self.user_stacks.request(&[]);
        }
        let read = (sample.tasks.as_ref().ok(), &sample.waits);
        let (root, files, now_ns) = (&self.root, self.scanner.files(), sample.at.boottime_ns);
        sample.protocols.unix_senders =
            self.unix_senders.sample(root, files, machine, now_ns, read, self.network.known_namespaces());
        sample.user_stacks = self.user_stacks.sample();

        sample.cost = SamplingCost {
            process_cpu_ns: Counter(clock_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)),
            scan_cpu_ns,
            sub_samples_cpu_ns: std::mem::take(&mut self.sub_samples_cpu_ns),
            start_delay_ns: 0,
            tasks_read: self.scanner.tasks_read(),
            skipped_samples: 0,
        };
        sample
    }

    /// How long after the time of the sample it is, µs; 0 if that is too little to matter.
    fn read_delay_us(&self, sample: &Sample) -> u32 {
        let delay_ns = self.boottime_ns().saturating_sub(sample.at.boottime_ns);
        if delay_ns < MIN_READ_DELAY_NS { 0 } else { u32::try_from(delay_ns / 1000).unwrap_or(u32::MAX) }
    }

    /// The names of all users with a process; the same allocation until a name is added.
    fn user_names(&mut self) -> Arc<BTreeMap<u32, Name>> {
        let known = &self.user_names;
        let mut new = Vec::new();
        for &uid in self.scanner.owner_uids() {
            if let Some(name) = self.user_lookup.name(&self.root, uid).filter(|name| known.get(&uid) != Some(name)) {
                new.push((uid, name));
            }
        }
        if !new.is_empty() {
            Arc::make_mut(&mut self.user_names).extend(new);
        }
        Arc::clone(&self.user_names)
    }
}

/// The time by the three clocks of a sample.
pub fn now() -> Instant {
    Instant {
        boottime_ns: clock_ns(ClockId::CLOCK_BOOTTIME),
        monotonic_ns: clock_ns(ClockId::CLOCK_MONOTONIC),
        realtime_ns: i64::try_from(clock_ns(ClockId::CLOCK_REALTIME)).unwrap_or(i64::MAX),
    }
}

/// Reads a clock, which every kernel since 2.6.39 has; 0 where a sandbox forbids it.
fn clock_ns(clock: ClockId) -> u64 {
    read_clock_ns(clock).unwrap_or(0)
}
