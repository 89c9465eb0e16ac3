//! Readers of the running kernel, one file a subject, and the `Sampler` that asks each of them once.
//!
//! Facts only: nothing is subtracted, judged or drawn here. What cannot be read is `Absent`, with its reason.

pub mod cgroup;
mod context_switches;
pub mod cpu;
pub mod delays;
pub mod disk;
pub mod exits;
pub mod fields;
pub mod host;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod pressure;
pub mod probe;
mod refresh_cycle;
pub mod root;
pub mod scan;
pub mod task;
pub mod taskstats;
mod uevents;
pub mod users;
pub mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use nix::time::ClockId;
use thiserror::Error;

pub use root::Root;

use crate::sample::{Host, Instant, Name, Sample, SamplingCost};
use crate::units::Counter;
use scan::{TaskScanner, new_pids, read_clock_ns};
use waits::budget::{CpuBudget, DEFAULT_SHARE};
use waits::{CrossChecks, WaitCounter};

/// What has ended is fetched in one of so many sub-samples: the kernel holds 3,000 ends for us, and a storm may begin at any
/// time; where nothing has ended that is one system call. And while nobody is stuck the requests in flight are read in one of
/// so many, where there was any I/O in the second before.
const SUB_SAMPLES_PER_FULL_ONE: u32 = 3;
/// For so long after somebody was seen stuck these are read in every sub-sample: a group counts as blocked between two looks
/// that saw one of its threads so.
const BLOCKED_HOLD_NS: u64 = 1_000_000_000;
/// What a sample read of them at its beginning holds at its end, unless it took longer: they are counted in ticks of 10 ms.
const MAX_CPU_TIMES_AGE_NS: u64 = 10_000_000;

/// Why there can be no sampling at all.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("/proc is not mounted")]
    NoProc,
}

/// Sub-samples that nobody woke up for, since they would have looked at nobody.
#[derive(Clone, Copy, Debug, Default)]
struct OmittedSubSamples {
    count: u32,
    /// CLOCK_BOOTTIME of the first
    first_ns: u64,
    period_ns: u64,
}

/// Takes samples of one machine. It remembers only what spares reading something again.
///
/// Reading /proc blocks, for seconds on a sick box: it lives on a plain thread.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    host: Host,
    cpu: cpu::CpuReader,
    memory: memory::MemoryReader,
    pressure: pressure::PressureReader,
    disk: disk::DiskReader,
    network: network::NetworkReader,
    cgroup: cgroup::CgroupReader,
    delays: delays::DelayReader,
    /// Where they were asked for
    context_switches: Option<context_switches::ContextSwitchReader>,
    user_lookup: users::UserNames,
    user_names: Arc<BTreeMap<u32, Name>>,
    scanner: TaskScanner,
    waits: WaitCounter,
    exits: exits::ExitReader,
    budget: CpuBudget,
    sub_samples_cpu_ns: u64,
    /// Requests in flight when they were last read
    in_flight: Option<u32>,
    /// Sub-samples since the last in which everything was done: not everything is done in each
    sub_samples_since_full_one: u32,
    omitted_sub_samples: OmittedSubSamples,
    /// CLOCK_BOOTTIME when a thread was last seen stuck
    last_blocked_ns: Option<u64>,
    /// Of a tree that stands for a machine
    fixed_boottime_ns: Option<u64>,
}

impl Sampler {
    /// Opens what is read again and again. The only failure is that there is no /proc.
    pub fn new(root: Root) -> Result<Sampler, KernelError> {
        let host = host::read(&root);
        let scanner = TaskScanner::new(&root, &host).map_err(|_| KernelError::NoProc)?;
        if !root.exists("proc/stat") {
            return Err(KernelError::NoProc);
        }
        Ok(Sampler {
            host,
            cpu: cpu::CpuReader::default(),
            memory: memory::MemoryReader::default(),
            pressure: pressure::PressureReader::default(),
            disk: disk::DiskReader::default(),
            network: network::NetworkReader::default(),
            cgroup: cgroup::CgroupReader::default(),
            delays: delays::DelayReader::default(),
            context_switches: None,
            user_lookup: users::UserNames::default(),
            user_names: Arc::default(),
            scanner,
            waits: WaitCounter::default(),
            exits: exits::ExitReader::new(&root),
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

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Reads context switches from now on: a file a thread that ran.
    pub fn enable_context_switches(&mut self) {
        self.context_switches.get_or_insert_default();
    }

    /// Another share of one CPU for sub-samples than 1 %.
    pub fn set_sub_sample_cpu_share(&mut self, share: f64) {
        self.budget = CpuBudget::new(share);
    }

    /// Of a tree that stands for a machine: what time it is there, as CLOCK_BOOTTIME, until another one is given.
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

    /// Of a tree that stands for a machine: what the CPU clock of a process says, in nanoseconds. Without clocks every
    /// process is read every time.
    pub fn set_process_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.scanner.set_process_clock(pid, cpu_ns);
    }

    /// Whether the budget allows a sub-sample now. `sub_sample` asks by itself.
    pub fn allows_sub_sample(&self) -> bool {
        self.budget.allows(clock_ns(ClockId::CLOCK_MONOTONIC))
    }

    /// How many of the next `most` sub-samples, the first of which is due after `first` and each other a `period` later, would
    /// look at nobody, so that the caller need not take them. They are counted with the next look or sample, as what was
    /// seen last, which is what they would have counted.
    pub fn omit_idle_sub_samples(&mut self, first: Duration, period: Duration, most: u32) -> u32 {
        let now_ns = self.boottime_ns();
        let count = if self.was_blocked_recently() { 0 } else { self.scanner.idle_sub_samples(now_ns).min(most) };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.omitted_sub_samples =
            OmittedSubSamples { count, first_ns: now_ns.saturating_add(ns(first)), period_ns: ns(period) };
        count
    }

    /// Counts the omitted sub-samples that were due before now.
    fn record_omitted_sub_samples(&mut self) {
        let (now_ns, OmittedSubSamples { count, first_ns, period_ns }) =
            (self.boottime_ns(), std::mem::take(&mut self.omitted_sub_samples));
        let times = (0..count).map(|number| first_ns.saturating_add(period_ns.saturating_mul(u64::from(number))));
        for boottime_ns in times.take_while(|&time_ns| time_ns < now_ns) {
            self.sub_samples_since_full_one = self.sub_samples_since_full_one.saturating_add(1);
            self.scanner.skip_sub_sample();
            let witnesses = CrossChecks { boottime_ns, cpu: None, in_flight: self.in_flight };
            self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), witnesses);
        }
    }

    /// Reads the hot threads, about ten times a second. False if the budget did not allow it, which is counted.
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
        let stuck = self.was_blocked_recently();
        // The two most expensive files. While no thread is blocked, requests in flight are only a figure on a screen, and the CPU times are
        // compared with nothing: the first sub-sample with a blocked thread reads them, and shares them out over those before, in which no time
        // was lost.
        if stuck || (all && !self.disk.is_idle()) {
            self.in_flight = self.disk.in_flight(&self.root).ok();
        }
        let cpu = if stuck { self.cpu.read_total(&self.root).ok() } else { None };
        let witnesses = CrossChecks { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), witnesses);
        if all {
            self.exits.fetch(self.boottime_ns(), &self.scanner);
        }
        let cost_ns = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
        self.sub_samples_cpu_ns = self.sub_samples_cpu_ns.saturating_add(cost_ns);
        self.budget.spend(clock_ns(ClockId::CLOCK_MONOTONIC), cost_ns);
        true
    }

    /// Whether a thread is blocked, or was within the last second: then every sub-sample reads all.
    fn was_blocked_recently(&mut self) -> bool {
        let now_ns = self.boottime_ns();
        if self.scanner.has_blocked_threads() {
            self.last_blocked_ns = Some(now_ns);
        }
        self.last_blocked_ns.is_some_and(|stuck_ns| now_ns.saturating_sub(stuck_ns) <= BLOCKED_HOLD_NS)
    }

    /// Everything, once; with the sub-samples since the last sample, the one that closes them included.
    /// How late it is, and how many were left out before it, only the caller knows: `cost.late_ns` and `left_out` stay 0.
    pub fn sample(&mut self) -> Sample {
        self.record_omitted_sub_samples();
        let mut sample = Sample::empty(self.now());
        sample.cpu = self.cpu.sample(&self.root);
        sample.load = self.cpu.load(&self.root);
        sample.pressure = self.pressure.sample(&self.root);
        sample.memory = self.memory.sample(&self.root);
        sample.disks = self.disk.sample(&self.root);
        sample.nics = self.network.sample(&self.root);
        sample.protocols = self.network.protocols(&self.root);
        (sample.cgroups, sample.io_limits) = self.cgroup.sample(&self.root);

        let begin = clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let forks = sample.cpu.as_ref().ok().and_then(|cpu| cpu.forks);
        let counters = new_pids::ForkCounters { forks, last_pid: self.cpu.last_pid() };
        self.exits.fetch(self.boottime_ns(), &self.scanner);
        let mut tasks = self.scanner.scan(self.boottime_ns(), counters);
        tasks.users = self.user_names();
        if let Some(reader) = &mut self.context_switches {
            sample.context_switches = Ok(reader.sample(self.scanner.files(), &tasks));
        }
        sample.tasks = Ok(tasks);
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
        let witnesses = CrossChecks { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        self.waits.record_sub_sample(self.scanner.sub_sampled_mut(), witnesses);
        let drained = self.waits.finish_interval();
        let disks = sample.disks.as_deref().unwrap_or_default();
        let machine = self.host.machine.as_bytes();
        let known = (disks, sample.tasks.as_ref().ok());
        sample.waits = waits::blocked::resolve_files(drained, &self.root, self.scanner.files(), machine, known);

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

    /// The names of all who own a process: the same map as long as nothing new is known.
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

/// Now, on the three clocks of a sample.
pub fn now() -> Instant {
    Instant {
        boottime_ns: clock_ns(ClockId::CLOCK_BOOTTIME),
        monotonic_ns: clock_ns(ClockId::CLOCK_MONOTONIC),
        realtime_ns: i64::try_from(clock_ns(ClockId::CLOCK_REALTIME)).unwrap_or(i64::MAX),
    }
}

/// These clocks exist on every kernel since 2.6.39; 0 where a sandbox forbids even that.
fn clock_ns(clock: ClockId) -> u64 {
    read_clock_ns(clock).unwrap_or(0)
}
