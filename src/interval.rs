//! An interval: the span between two samples. Differences, rates, shares and means of what two samples hold are computed in this layer
//! alone.
//! An unknown figure is `None`, never 0: a counter decreased, a file was missing, or nothing completed.

pub mod aio_waits;
pub mod block_latencies;
pub mod blocked_threads;
pub mod boot;
pub mod cgroup;
pub mod cgroup_names;
pub mod cgroup_tasks;
pub mod context_switches;
pub mod cpu;
pub mod cpu_accounting;
pub mod cpu_affinity;
pub mod cpu_runs;
pub mod deadlocks;
pub mod delays;
pub mod disk;
pub mod exited;
pub mod file_lock_queues;
pub mod file_systems;
pub mod group_label;
mod holder_activity;
pub mod idle_blocked;
mod ipc_peers;
pub mod latency_histogram;
pub mod limits;
pub mod load_members;
pub mod local_servers;
mod lock_graph;
pub mod lock_holders;
pub mod locks;
pub mod mean;
pub mod memory;
pub mod mutex_queues;
pub mod network;
pub mod new_tasks;
mod owner_peers;
mod pairing;
pub mod pipelines;
pub mod pressure;
pub mod process_groups;
pub mod query;
pub mod remote_waits;
pub mod run;
pub mod run_queue;
pub mod runnable;
pub mod server_connections;
pub mod short_lived;
pub mod statistics;
mod storage_turns;
pub mod stuck_servers;
pub mod task;
pub mod task_activity;
pub mod thread_locks;
pub mod thread_states;
pub mod throttled_servers;
pub mod throttling;
pub mod traced_processes;
pub mod wait_counts;
pub mod wait_graph;
pub mod wait_queues;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::sample::task::Process;
use crate::sample::{Host, Instant, Sample};

/// Samples that are closer make no interval.
const MIN_SECONDS: f64 = 0.001;

/// What is known beside the two samples of an interval.
#[derive(Clone, Debug, Default)]
pub struct IntervalContext<'a> {
    /// Speed and duplex of interfaces, from the configuration
    pub links: network::LinkOverrides,
    /// `process_totals` of the interval that ends with the older sample: they are not summed again
    pub older_totals: Option<&'a task::ProcessTotals>,
}

/// The figures of the time between two samples of the same boot of the same machine.
#[derive(Clone, Debug)]
pub struct Interval {
    pub host: Arc<Host>,
    /// Configured links: utilization of interfaces is relative to them
    pub link_overrides: network::LinkOverrides,
    /// The sample at its start
    pub older: Arc<Sample>,
    /// The sample at its end, which also has names, states and gauges
    pub newer: Arc<Sample>,
    /// Length in seconds by CLOCK_BOOTTIME, not the nominal interval. Above 0.
    pub seconds: f64,
    /// Seconds of it in which the machine was suspended (BOOTTIME without MONOTONIC).
    pub suspended_seconds: f64,
    pub cpu: Option<cpu::CpuSpan>,
    pub memory: Option<memory::MemorySpan>,
    pub pressure: pressure::PressureSpan,
    /// Same order as the newer sample's disks; devices present in both.
    pub disks: Vec<disk::DiskSpan>,
    pub network: network::NetworkSpan,
    pub cgroups: Vec<cgroup::CgroupSpan>,
    pub io_limits: Vec<cgroup::IoLimitSpan>,
    /// Limits of the kernel that are nearly used up
    pub limits: Vec<limits::LimitSpan>,
    pub tasks: Option<task::TaskSpan>,
    /// Tasks that started and exited in the interval, so that neither sample contains them
    pub short_lived: Option<short_lived::ShortLived>,
    /// Shares of the time that active threads waited, by cause, sorted by task; empty without delay accounting
    pub delays: Vec<delays::DelaySpan>,
    /// Context switches of threads; `None` if they were not read
    pub context_switches: Option<context_switches::ContextSwitchSpans>,
    /// Threads that wait for a CPU and are restricted to some CPUs, by their set of CPUs
    pub affinity_waiters: Vec<cpu_affinity::AffinityWaiters>,
    /// What the sub-samples saw, by wait class
    pub wait_counts: wait_counts::WaitCounts,
    /// Threads that sub-samples saw blocked, one entry a thread; sorted by task
    pub blocked_threads: Vec<blocked_threads::BlockedThread>,
    /// Idle-but-blocked: the part of the available time that is not free.
    pub idle_blocked: Option<idle_blocked::IdleBlocked>,
    /// Servers that are stopped, or behind a lock, while connections wait for them
    pub stuck_servers: Vec<stuck_servers::StuckServers>,
    /// Processes that run under a tracer
    pub traced_processes: Vec<traced_processes::TracedSpan>,
    /// Locks with a known holder
    pub locks: locks::LockSpans,
    /// CPU time of the monitor itself, in CPUs (1.0 is one whole CPU).
    pub self_cpus: Option<f64>,
}

impl Interval {
    /// The interval from `older` to `newer`; `None` if it would be shorter than 1 ms.
    pub fn between(host: &Arc<Host>, older: &Arc<Sample>, newer: &Arc<Sample>) -> Option<Interval> {
        Interval::with_context(host, older, newer, IntervalContext::default())
    }

    /// As `between`, where more is known than the two samples.
    pub fn with_context(
        host: &Arc<Host>,
        older: &Arc<Sample>,
        newer: &Arc<Sample>,
        IntervalContext { links, older_totals }: IntervalContext<'_>,
    ) -> Option<Interval> {
        let seconds = newer.at.seconds_since(older.at);
        if seconds < MIN_SECONDS {
            return None;
        }
        let monotonic = newer.at.monotonic_ns.saturating_sub(older.at.monotonic_ns) as f64 / 1e9;
        let wait_counts = wait_counts::WaitCounts::new(host, &newer.waits);
        let turns = storage_turns::StorageTurns::new(host, older, newer, &wait_counts);
        let disks = disk::between(older, newer, read_seconds(older, newer, |delays| delays.disks_us));
        let aio_waits = aio_waits::AioWaits::new(older, newer, &wait_counts, &disks);
        let tasks = task::TaskSpan::between(host, older, newer, (&wait_counts, &turns, &aio_waits), older_totals);
        let online = newer.cpu.as_ref().ok().map(|cpu| cpu.cpus.len() as f64);
        let seen = tasks.as_ref().and_then(|tasks| tasks.busy_cpus);
        let max_cpus = online.zip(seen).map(|(online, seen)| (online - seen).max(0.0));
        let exited_span = exited::ExitedSpan::between(host, older, newer, seconds, max_cpus);
        let cpu = cpu::CpuSpan::between(host, older, newer, seconds, tasks.as_ref(), exited_span.as_ref());
        let clocks = cpu.as_ref().and_then(|cpu| cpu.accounting.as_ref());
        let short_lived = exited_span
            .as_ref()
            .map(|exited_span| short_lived::ShortLived::between(older, newer, seconds, exited_span, clocks));
        let pressure = pressure::PressureSpan::between(&older.pressure, &newer.pressure, seconds);
        let network = network::NetworkSpan::between(older, newer, &links);
        let cgroup_seconds = read_seconds(older, newer, |delays| delays.cgroups_us);
        let blocked_threads = blocked_threads::blocked_threads(host, &newer.waits);
        let locks = locks::LockSpans::new(host, (older, newer), &wait_counts, &blocked_threads);
        let spans = idle_blocked::Spans {
            cpu: cpu.as_ref(),
            tasks: tasks.as_ref(),
            pressure: &pressure,
            disks: &disks,
            blocked_threads: &blocked_threads,
            wait_counts: &wait_counts,
            locks: &locks,
            turns: &turns,
            aio_waits: &aio_waits,
        };
        let idle_blocked = idle_blocked::IdleBlocked::between(host, older, newer, &spans);
        Some(Interval {
            host: Arc::clone(host),
            link_overrides: links,
            older: Arc::clone(older),
            newer: Arc::clone(newer),
            seconds,
            suspended_seconds: (seconds - monotonic).max(0.0),
            memory: memory::MemorySpan::between(host, older, newer, seconds),
            network,
            cgroups: cgroup::between(older, newer, cgroup_seconds, online),
            io_limits: cgroup::io_limits_between(older, newer, cgroup_seconds),
            limits: limits::between(older, newer, seconds),
            delays: delays::between(older, newer, seconds),
            context_switches: context_switches::ContextSwitchSpans::between(host, older, newer, seconds),
            affinity_waiters: cpu
                .as_ref()
                .zip(tasks.as_ref())
                .map_or_else(Vec::new, |(cpu, tasks)| cpu_affinity::affinity_waiters(newer, cpu, tasks)),
            self_cpus: newer.cost.process_cpu_ns.since(older.cost.process_cpu_ns).map(|ns| ns as f64 / 1e9 / seconds),
            stuck_servers: stuck_servers::stuck_servers(newer, &wait_counts),
            traced_processes: traced_processes::traced_processes(older, newer, tasks.as_ref()),
            locks,
            pressure,
            disks,
            cpu,
            tasks,
            short_lived,
            wait_counts,
            blocked_threads,
            idle_blocked,
        })
    }

    /// For several samples: replaces idle-but-blocked, known only for the newer sample's time, by its mean over all, 0 to 1.
    /// `None`: unknown.
    pub fn set_mean_blocked_ratio(&mut self, ratio: Option<f64>) {
        let online = self.online_cpus() as f64;
        let available = self.cpu.as_ref().map(cpu::CpuSpan::available);
        self.idle_blocked = ratio.zip(available).map(|(ratio, available)| {
            let last = self.idle_blocked.take().unwrap_or_default();
            let ratio = ratio.min(available);
            let free = available - ratio;
            idle_blocked::IdleBlocked { ratio, cpus: ratio * online, free, available, ratio_with_connections: ratio, ..last }
        });
    }

    /// For several samples: takes the blocked groups of the last part, if it was blocked at least half as much as the mean, and
    /// its kernel locks.
    pub fn set_blocked_groups_of(&mut self, last: &Interval) {
        const MIN_SHARE_OF_MEAN: f64 = 0.5;
        if let (Some(whole), Some(last)) = (&mut self.idle_blocked, &last.idle_blocked) {
            if last.ratio >= whole.ratio * MIN_SHARE_OF_MEAN {
                whole.groups.clone_from(&last.groups);
            }
            whole.kernel_locks.clone_from(&last.kernel_locks);
            let (d_threads, in_flight) = (last.cross_checks.d_threads, last.cross_checks.in_flight);
            let from_counters =
                idle_blocked::CrossChecks::from_counters(self.cpu.as_ref(), &self.pressure, self.tasks.as_ref());
            whole.cross_checks = idle_blocked::CrossChecks { d_threads, in_flight, ..from_counters };
        }
    }

    /// The process with this pid, from the newer sample, or from the older one if it has exited.
    pub fn process(&self, pid: u32) -> Option<&Arc<Process>> {
        let samples = [&self.newer, &self.older];
        samples.into_iter().find_map(|sample| sample.tasks.as_ref().ok()?.process(pid))
    }

    /// The processes that ran or have a thread that is not asleep, sorted by pid, each with its span. Cheaper than `process` of
    /// each: no search reads other processes.
    pub fn active_processes(&self) -> impl Iterator<Item = (&Arc<Process>, &task::ProcessSpan)> {
        let processes = self.newer.tasks.as_ref().map_or(&[][..], |tasks| &tasks.processes);
        let spans = self.tasks.iter().flat_map(|tasks| tasks.active_processes.iter().zip(&tasks.active_indices));
        spans.filter_map(|(span, &place)| Some((processes.get(place)?, span)))
    }

    /// The processes with the title of a session of PostgreSQL, sorted by pid. Reading all titles of 2,000 processes is 9 % of the CPU
    /// time of `compare`.
    pub fn database_sessions(&self) -> impl Iterator<Item = &Arc<Process>> {
        let processes = self.newer.tasks.as_ref().map_or(&[][..], |tasks| &tasks.processes);
        let places = self.tasks.iter().flat_map(|tasks| &tasks.totals.database_sessions);
        places.filter_map(|&place| processes.get(place))
    }

    /// The delays of a thread; `None` if the kernel does not count them.
    pub fn task_delays(&self, task: crate::ids::TaskId) -> Option<&delays::DelaySpan> {
        let at = self.delays.binary_search_by_key(&task, |span| span.task).ok()?;
        self.delays.get(at)
    }

    /// The figures of a device, if both samples contain it.
    pub fn disk(&self, id: crate::ids::DiskId) -> Option<&disk::DiskSpan> {
        let at = self.disks.binary_search_by_key(&id, |span| span.id).ok()?;
        self.disks.get(at)
    }

    /// The CPU weight of a cgroup (`CgroupWeight::weight`); `None` if it was not read.
    pub fn cgroup_weight(&self, version: crate::ids::CgroupVersion, path: &[u8]) -> Option<u64> {
        let of_group =
            |weight: &&crate::sample::cgroup::CgroupWeight| weight.id.version == version && weight.id.path.as_bytes() == path;
        let samples = [&self.newer, &self.older];
        samples.into_iter().find_map(|sample| sample.cgroup_weights.iter().find(of_group)).map(|found| found.weight)
    }

    /// The totals over the processes of the newer sample, for the next interval.
    pub fn process_totals(&self) -> Option<&Arc<task::ProcessTotals>> {
        self.tasks.as_ref().map(|tasks| &tasks.totals)
    }

    /// The time of the newer sample.
    pub fn at(&self) -> Instant {
        self.newer.at
    }

    /// The interface of these figures, as the newer sample has it.
    pub fn nic(&self, span: &network::NicSpan) -> Option<&crate::sample::network::Nic> {
        let newer = &self.newer;
        match span.namespace {
            None => newer.nics.as_ref().ok()?.get(span.index),
            Some(_) => newer.network_namespaces.as_ref().ok()?.nics.get(span.index).map(|inside| &inside.nic),
        }
    }

    /// Number of online CPUs; 0 if /proc/stat could not be read.
    pub fn online_cpus(&self) -> usize {
        self.cpu.as_ref().map_or(0, |cpu| cpu.cpus.len())
    }
}

/// Seconds between the two readings of some counters: those between the samples, unless the sampler lost its CPU in between.
fn read_seconds(older: &Sample, newer: &Sample, delay_us: fn(&crate::sample::ReadDelays) -> u32) -> f64 {
    let read_ns = |sample: &Sample| sample.at.boottime_ns.saturating_add(u64::from(delay_us(&sample.read_delays)) * 1000);
    // A delay cannot exceed the interval, unless the recording is damaged.
    match read_ns(newer).saturating_sub(read_ns(older)) as f64 / 1e9 {
        seconds if seconds >= MIN_SECONDS => seconds,
        _ => newer.at.seconds_since(older.at),
    }
}
