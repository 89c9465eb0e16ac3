//! Readers of the running kernel, one file a subject, and the `Sampler` that asks each of them once.
//!
//! Facts only: nothing is subtracted, judged or drawn here. What cannot be read is `Absent`, with its reason.

pub mod cgroup;
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
pub mod root;
mod rounds;
pub mod sweep;
mod switches;
pub mod task;
pub mod taskstats;
mod uevents;
pub mod users;
pub mod waits;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::time::ClockId;
use thiserror::Error;

pub use root::Root;

use crate::sample::{Cost, Host, Instant, Name, Sample};
use crate::units::Counter;
use sweep::{Sweep, births, nanoseconds};
use waits::budget::{Budget, DEFAULT_SHARE};
use waits::{Watch, Witnesses};

/// What has ended is fetched in one of so many sub-samples: the kernel holds 3,000 ends for us, and a storm may begin at any
/// time; where nothing has ended that is one system call. And while nobody is stuck the requests in flight are read in one of
/// so many, where there was any I/O in the second before.
const TURNS: u32 = 3;
/// For so long after somebody was seen stuck these are read in every sub-sample: a group counts as blocked between two looks
/// that saw one of its threads so.
const STUCK_FOR_NS: u64 = 1_000_000_000;
/// What a sample read of them at its beginning holds at its end, unless it took longer: they are counted in ticks of 10 ms.
const SAME_TICK_NS: u64 = 10_000_000;

/// Why there can be no sampling at all.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("/proc is not mounted")]
    NoProc,
}

/// Sub-samples that nobody woke up for, since they would have looked at nobody.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
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
    switches: Option<switches::SwitchReader>,
    users: users::Users,
    user_names: Arc<BTreeMap<u32, Name>>,
    sweep: Sweep,
    watch: Watch,
    exits: exits::ExitReader,
    budget: Budget,
    sub_samples_ns: u64,
    /// Requests in flight when they were last read
    in_flight: Option<u32>,
    /// Sub-samples since the last in which everything was done: not everything is done in each
    turn: u32,
    left_out: LeftOut,
    /// CLOCK_BOOTTIME when a thread was last seen stuck
    stuck_ns: Option<u64>,
    /// Of a tree that stands for a machine
    given_ns: Option<u64>,
}

impl Sampler {
    /// Opens what is read again and again. The only failure is that there is no /proc.
    pub fn new(root: Root) -> Result<Sampler, KernelError> {
        let host = host::read(&root);
        let sweep = Sweep::new(&root, &host).map_err(|_| KernelError::NoProc)?;
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
            switches: None,
            users: users::Users::default(),
            user_names: Arc::default(),
            sweep,
            watch: Watch::default(),
            exits: exits::ExitReader::new(&root),
            budget: Budget::new(DEFAULT_SHARE),
            sub_samples_ns: 0,
            in_flight: None,
            turn: 0,
            left_out: LeftOut::default(),
            stuck_ns: None,
            given_ns: None,
            root,
        })
    }

    /// The machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// From now on an eBPF task iterator may be loaded by `program`, which is this one (`probe::loader`), in a process of its
    /// own: when the threads of a process of 1,000 had to be asked in a few sweeps, where the kernel permits it.
    pub fn permit_iterator(&mut self, program: PathBuf) {
        self.sweep.permit_iterator(program);
    }

    /// Whether it is being loaded.
    pub fn is_loading_iterator(&self) -> bool {
        self.sweep.is_loading_iterator()
    }

    /// Whether it is in use.
    pub fn has_iterator(&self) -> bool {
        self.sweep.has_iterator()
    }

    /// Reads context switches from now on: a file a thread that ran.
    pub fn count_switches(&mut self) {
        self.switches.get_or_insert_default();
    }

    /// Another share of one CPU for sub-samples than 1 %.
    pub fn set_sub_sample_share(&mut self, share: f64) {
        self.budget = Budget::new(share);
    }

    /// Of a tree that stands for a machine: what time it is there, as CLOCK_BOOTTIME, until another one is given.
    pub fn give_time(&mut self, boottime_ns: u64) {
        self.given_ns = Some(boottime_ns);
    }

    fn boottime_ns(&self) -> u64 {
        self.given_ns.unwrap_or_else(|| clock(ClockId::CLOCK_BOOTTIME))
    }

    fn now(&self) -> Instant {
        match self.given_ns {
            Some(boottime_ns) => Instant { boottime_ns, monotonic_ns: boottime_ns, ..now() },
            None => now(),
        }
    }

    /// Of a tree that stands for a machine: what the CPU clock of a process says, in nanoseconds. Without clocks every
    /// process is read every time.
    pub fn give_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.sweep.give_clock(pid, cpu_ns);
    }

    /// Whether the budget allows a sub-sample now. `sub_sample` asks by itself.
    pub fn allows_sub_sample(&self) -> bool {
        self.budget.allows(clock(ClockId::CLOCK_MONOTONIC))
    }

    /// How many of the next `most` sub-samples, the first of which is due after `first` and each other a `period` later, would
    /// look at nobody, so that the caller need not take them. They are counted with the next look or sample, as what was
    /// seen last, which is what they would have counted.
    pub fn leave_out(&mut self, first: Duration, period: Duration, most: u32) -> u32 {
        let now_ns = self.boottime_ns();
        let count = if self.is_stuck() { 0 } else { self.sweep.restful_looks(now_ns).min(most) };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.left_out = LeftOut { count, first_ns: now_ns.saturating_add(ns(first)), period_ns: ns(period) };
        count
    }

    /// Counts those that were due before now.
    fn count_left_out(&mut self) {
        let (now_ns, LeftOut { count, first_ns, period_ns }) = (self.boottime_ns(), std::mem::take(&mut self.left_out));
        let times = (0..count).map(|number| first_ns.saturating_add(period_ns.saturating_mul(u64::from(number))));
        for boottime_ns in times.take_while(|&time_ns| time_ns < now_ns) {
            self.turn = self.turn.saturating_add(1);
            self.sweep.pass();
            let witnesses = Witnesses { boottime_ns, cpu: None, in_flight: self.in_flight };
            self.watch.count(self.sweep.awake(), witnesses);
        }
    }

    /// One look at the hot threads, about ten times a second; false when the budget did not allow it, which is counted.
    pub fn sub_sample(&mut self) -> bool {
        self.count_left_out();
        if !self.allows_sub_sample() {
            self.watch.skip();
            return false;
        }
        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        self.sweep.glance(self.boottime_ns());
        self.turn = self.turn.saturating_add(1);
        let all = self.turn >= TURNS;
        if all {
            self.turn = 0;
        }
        let stuck = self.is_stuck();
        // These are the two dearest files. While nobody is stuck, what is in flight is only one of the screen's figures, and
        // the time of the CPUs is compared with nothing: the first look that sees somebody stuck reads it, and shares it out
        // over those before, at which no time was lost.
        if stuck || (all && !self.disk.is_idle()) {
            self.in_flight = self.disk.in_flight(&self.root).ok();
        }
        let cpu = if stuck { self.cpu.total_only(&self.root).ok() } else { None };
        let witnesses = Witnesses { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        self.watch.count(self.sweep.awake(), witnesses);
        if all {
            self.exits.fetch(self.boottime_ns(), &self.sweep);
        }
        let cost_ns = clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
        self.sub_samples_ns = self.sub_samples_ns.saturating_add(cost_ns);
        self.budget.spend(clock(ClockId::CLOCK_MONOTONIC), cost_ns);
        true
    }

    /// Whether somebody is stuck, or was within the last second: each look counts.
    fn is_stuck(&mut self) -> bool {
        let now_ns = self.boottime_ns();
        if self.sweep.has_blocked() {
            self.stuck_ns = Some(now_ns);
        }
        self.stuck_ns.is_some_and(|stuck_ns| now_ns.saturating_sub(stuck_ns) <= STUCK_FOR_NS)
    }

    /// Everything, once; with the sub-samples since the last sample, the one that closes them included.
    /// How late it is, and how many were left out before it, only the caller knows: `cost.late_ns` and `left_out` stay 0.
    pub fn sample(&mut self) -> Sample {
        self.count_left_out();
        let mut sample = Sample::empty(self.now());
        sample.cpu = self.cpu.sample(&self.root);
        sample.load = self.cpu.load(&self.root);
        sample.pressure = self.pressure.sample(&self.root);
        sample.memory = self.memory.sample(&self.root);
        sample.disks = self.disk.sample(&self.root);
        sample.nics = self.network.sample(&self.root);
        sample.protocols = self.network.protocols(&self.root);
        (sample.cgroups, sample.io_limits) = self.cgroup.sample(&self.root);

        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let forks = sample.cpu.as_ref().ok().and_then(|cpu| cpu.forks);
        let births = births::Count { forks, last_pid: self.cpu.last_pid() };
        self.exits.fetch(self.boottime_ns(), &self.sweep);
        let mut tasks = self.sweep.sweep(self.boottime_ns(), births);
        tasks.users = self.user_names();
        if let Some(reader) = &mut self.switches {
            sample.switches = Ok(reader.sample(self.sweep.files(), &tasks));
        }
        sample.tasks = Ok(tasks);
        sample.exits = self.exits.sample(sample.at.boottime_ns, &self.sweep);
        sample.delays = self.delays.sample(&self.root, self.sweep.known(), clock(ClockId::CLOCK_BOOTTIME));
        let sweep_ns = clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);

        let stale = self.boottime_ns().saturating_sub(sample.at.boottime_ns) > SAME_TICK_NS;
        let cpu = match &sample.cpu {
            Ok(cpu) if !stale && !self.is_stuck() => {
                self.in_flight = self.disk.last_in_flight();
                Some(cpu.total)
            }
            _ => {
                self.in_flight = self.disk.in_flight(&self.root).ok();
                self.cpu.total_only(&self.root).ok()
            }
        };
        let witnesses = Witnesses { boottime_ns: self.boottime_ns(), cpu, in_flight: self.in_flight };
        self.watch.count(self.sweep.awake(), witnesses);
        let drained = self.watch.drain();
        let disks = sample.disks.as_deref().unwrap_or_default();
        let machine = self.host.machine.as_bytes();
        let known = (disks, sample.tasks.as_ref().ok());
        sample.waits = waits::blocked::describe(drained, &self.root, self.sweep.files(), machine, known);

        sample.cost = Cost {
            process_cpu_ns: Counter(clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)),
            sweep_ns,
            sub_samples_ns: std::mem::take(&mut self.sub_samples_ns),
            late_ns: 0,
            tasks_read: self.sweep.tasks_read(),
            left_out: 0,
        };
        sample
    }

    /// The names of all who own a process: the same map as long as nothing new is known.
    fn user_names(&mut self) -> Arc<BTreeMap<u32, Name>> {
        let known = &self.user_names;
        let mut new = Vec::new();
        for &uid in self.sweep.owners() {
            if let Some(name) = self.users.name(&self.root, uid).filter(|name| known.get(&uid) != Some(name)) {
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
        boottime_ns: clock(ClockId::CLOCK_BOOTTIME),
        monotonic_ns: clock(ClockId::CLOCK_MONOTONIC),
        realtime_ns: i64::try_from(clock(ClockId::CLOCK_REALTIME)).unwrap_or(i64::MAX),
    }
}

/// These clocks exist on every kernel since 2.6.39; 0 where a sandbox forbids even that.
fn clock(clock: ClockId) -> u64 {
    nanoseconds(clock).unwrap_or(0)
}
