//! Readers of the running kernel, one file per subject, and the `Sampler`, which calls each of them once per sample.
//!
//! Readers return counters and facts as the kernel has them, without differences or judgements. A reading that fails is
//! `Absent` with its reason. The `Sampler` calls four parts: `system_readers` (files of the whole machine), `scan` and `task_readers`
//! (tasks), `sub_sampler` (the threads that may be blocked, ten times a second between two samples), and `wait_readers` (what waiting
//! threads wait for).

pub mod cgroup;
mod clock;
mod containers;
mod context_switches;
mod cost_pacer;
pub mod cpu;
mod cpu_frequency;
pub mod delays;
pub mod disk;
pub mod elf;
pub mod exits;
pub mod fields;
pub mod host;
pub mod limits;
pub mod mapped_files;
pub mod mappings;
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
mod sub_sampler;
#[allow(unsafe_code, reason = "the only module of this layer with unsafe code")]
pub mod sys;
mod sys_admin;
mod system_readers;
pub mod task;
mod task_readers;
pub mod taskstats;
mod uevents;
#[cfg_attr(not(all(feature = "user-stacks", target_arch = "x86_64")), path = "kernel/user_stacks/unavailable.rs")]
pub mod user_stacks;
pub mod users;
mod wait_readers;
pub mod waits;
pub mod wake_trace;

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

pub use clock::now;
pub use root::Root;

use crate::sample::{Host, Sample, SamplingCost};
use crate::units::Counter;
use clock::{SampleClock, process_cpu_ns, thread_cpu_ns};
use scan::TaskScanner;
use sub_sampler::{SubSampleSources, SubSampler};
use system_readers::SystemReaders;
use task_readers::TaskReaders;
use wait_readers::{SeenWaits, WaitReaders};

/// Why no samples can be taken.
#[derive(Debug, Error)]
pub enum KernelError {
    #[error("/proc is not mounted")]
    NoProc,
}

/// Takes samples of one machine. It keeps open files, facts and counters of the last reading, so that unchanged things are
/// not read again.
///
/// Reading /proc may block for seconds on an overloaded machine: callers run it on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    host: Host,
    clock: SampleClock,
    system: SystemReaders,
    scanner: TaskScanner,
    tasks: TaskReaders,
    sub_sampler: SubSampler,
    waits: WaitReaders,
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
            clock: SampleClock::default(),
            system: SystemReaders::default(),
            scanner,
            tasks: TaskReaders::new(&root),
            sub_sampler: SubSampler::default(),
            waits: WaitReaders::new(&root),
            root,
        })
    }

    /// The facts of the machine.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Reads context switches from now on: one file for each thread that ran.
    pub fn enable_context_switches(&mut self) {
        self.tasks.enable_context_switches();
    }

    /// Reads the owners of locks inside the kernel from now on, where this program may load an eBPF program and sees all tasks by
    /// their numbers in the initial pid namespace. `program`: the path of stalltop, run again as the loader when threads wait for
    /// such locks. With `max_cpu_share`, of one CPU, what notes for which lock a thread waits is not attached while that would take more.
    pub fn enable_kernel_lock_owners(&mut self, program: PathBuf, max_cpu_share: Option<f64>) {
        if self.root.is_host() && self.is_in_initial_pid_namespace() {
            self.sub_sampler.waits.enable_kernel_lock_owners(program, self.host.machine.clone(), max_cpu_share);
        }
    }

    /// Finds the holders of mutexes that name no owner from now on, by an eBPF program that is loaded when threads queue at one,
    /// where this program may load it and sees all tasks by their numbers in the initial pid namespace. `program`: the path of
    /// stalltop, run again as the loader. With `max_cpu_share`, of one CPU, it is not attached while that would take more.
    pub fn enable_lock_wakers(&mut self, program: PathBuf, max_cpu_share: Option<f64>) {
        let can_load = self.root.is_host() && probe::permission_obstacle().is_none();
        if can_load && self.is_in_initial_pid_namespace() {
            self.scanner.follow_likely_mutexes();
            self.sub_sampler.waits.enable_lock_wakers(program, self.host.machine.clone(), max_cpu_share);
        }
    }

    /// Counts latencies of block requests from now on, by an eBPF program, where it may load one; does not wait for that.
    /// `program`: the path of stalltop, run again as the loader. With `max_cpu_share`, of one CPU, it counts for a part of the
    /// time where it would cost more.
    pub fn enable_block_latencies(&mut self, program: PathBuf, max_cpu_share: Option<f64>) {
        if self.root.is_host() {
            self.system.block_latencies = probe::block_latencies::BlockLatencyReader::start(&self.root, program, max_cpu_share);
        }
    }

    /// Waits until the program is attached, for `--probes on`; the error says why it is not.
    pub fn wait_for_block_latencies(&mut self) -> Result<(), probe::probe_error::ProbeError> {
        self.system.block_latencies.wait_until_attached(&self.root)
    }

    /// Whether the pids in /proc are those of the initial pid namespace.
    pub fn is_in_initial_pid_namespace(&mut self) -> bool {
        self.scanner.files().is_in_initial_pid_namespace()
    }

    /// Sets the CPU budget of sub-samples, as a share of one CPU; 0.01 by default.
    pub fn set_sub_sample_cpu_share(&mut self, share: f64) {
        self.sub_sampler.set_cpu_share(share);
    }

    /// For a fixture tree: the time as CLOCK_BOOTTIME, until the next call.
    pub fn set_fixed_time(&mut self, boottime_ns: u64) {
        self.clock.set_fixed(boottime_ns);
    }

    /// For a fixture tree: the CPU clock of a process in nanoseconds. Without clocks each process is read in each sample.
    pub fn set_process_clock(&mut self, pid: u32, cpu_ns: u64) {
        self.scanner.set_process_clock(pid, Some(cpu_ns));
    }

    /// Whether the CPU budget allows a sub-sample now. `sub_sample` checks this, too.
    pub fn allows_sub_sample(&self) -> bool {
        self.sub_sampler.is_allowed()
    }

    /// Returns how many of the next `most` sub-samples would read no thread, so that the caller can omit them. The first is due
    /// after `first`, the others a `period` apart. The next sub-sample or sample records them with the thread states seen last.
    pub fn omit_idle_sub_samples(&mut self, first: Duration, period: Duration, most: u32) -> u32 {
        let (sub_sampler, sources) = self.sub_sampling();
        sub_sampler.omit_idle(&sources, first, period, most)
    }

    /// Takes a sub-sample of the hot threads; called about ten times a second. If the CPU budget does not allow it, counts it
    /// as skipped and returns false.
    pub fn sub_sample(&mut self) -> bool {
        let (sub_sampler, mut sources) = self.sub_sampling();
        sub_sampler.sub_sample(&mut sources)
    }

    /// Reads everything once. The sample includes the sub-samples since the last sample, and a closing one.
    /// `cost.start_delay_ns` and `cost.skipped_samples` remain 0: the caller sets them.
    pub fn sample(&mut self) -> Sample {
        let (sub_sampler, mut sources) = self.sub_sampling();
        sub_sampler.record_omitted(&mut sources);
        let mut sample = self.system.sample(&self.root, &self.clock);
        let begin = thread_cpu_ns();
        self.sample_tasks(&mut sample);
        let scan_cpu_ns = thread_cpu_ns().saturating_sub(begin);
        let (sub_sampler, mut sources) = self.sub_sampling();
        let interval = sub_sampler.finish(&mut sources, &sample);
        let seen = SeenWaits { interval, stuck: self.sub_sampler.waits.stuck_threads() };
        let machine = self.host.machine.as_bytes();
        self.waits.sample((&self.root, machine), &mut self.system, &mut self.scanner, seen, &mut sample);
        sample.cost = SamplingCost {
            process_cpu_ns: Counter(process_cpu_ns()),
            scan_cpu_ns,
            sub_samples_cpu_ns: self.sub_sampler.take_cpu_ns(),
            start_delay_ns: 0,
            tasks_read: self.scanner.tasks_read(),
            skipped_samples: 0,
        };
        sample
    }

    /// Scans the tasks, and reads what depends on them.
    fn sample_tasks(&mut self, sample: &mut Sample) {
        let Sampler { root, host, clock, system, scanner, tasks: readers, .. } = self;
        let counters = system.fork_counters(sample);
        readers.exits.fetch(clock.boottime_ns(), scanner);
        scanner.set_sample_time(sample.at.boottime_ns);
        let mut tasks = scanner.scan(clock.boottime_ns(), counters);
        readers.complete(root, scanner, &mut tasks, sample);
        system.sample_of_tasks((root, clock), scanner, (&tasks, host.machine.as_bytes()), sample);
        readers.sample(root, scanner, &system.cgroup, tasks, sample);
    }

    fn sub_sampling(&mut self) -> (&mut SubSampler, SubSampleSources<'_>) {
        let Sampler { root, clock, system, scanner, tasks, sub_sampler, .. } = self;
        (sub_sampler, SubSampleSources { root, clock, system, scanner, exits: &mut tasks.exits })
    }
}
