//! An interval: the span between two samples. All arithmetic on counters happens here. A figure that is not known is `None`
//! (a counter fell, a file was missing, nothing completed), never 0.

pub mod blocked_threads;
pub mod boot;
pub mod cgroup;
pub mod context_switches;
pub mod cpu;
pub mod cpu_accounting;
pub mod cpu_affinity;
pub mod delays;
pub mod disk;
pub mod exited;
pub mod idle_blocked;
pub mod mean;
pub mod memory;
pub mod network;
pub mod new_tasks;
pub mod nicstat;
mod pairing;
pub mod pressure;
pub mod process_groups;
pub mod run;
pub mod short_lived;
pub mod statistics;
pub mod task;
pub mod task_activity;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::sample::task::Process;
use crate::sample::waits::BlockedThread;
use crate::sample::{Host, Instant, Sample};

/// Everything that can be said about the time between two samples of one boot of one machine.
#[derive(Clone, Debug)]
pub struct Interval {
    pub host: Arc<Host>,
    /// The samples it stands between; the newer one gives names, states and gauges.
    pub older: Arc<Sample>,
    pub newer: Arc<Sample>,
    /// Seconds of CLOCK_BOOTTIME, never the nominal interval. Above 0.
    pub seconds: f64,
    /// Seconds of it in which the machine was suspended (BOOTTIME without MONOTONIC).
    pub suspended_seconds: f64,
    pub cpu: Option<cpu::CpuSpan>,
    pub memory: Option<memory::MemorySpan>,
    pub pressure: pressure::PressureSpan,
    /// Same order as the newer sample's disks; devices present in both.
    pub disks: Vec<disk::DiskSpan>,
    /// Same order as the newer sample's interfaces; interfaces present in both.
    pub nics: Vec<network::NicSpan>,
    pub protocols: network::ProtocolSpan,
    /// CPUs whose packets could be counted
    pub softnet: Vec<network::softnet::SoftnetSpan>,
    /// Remote hosts; `None` without a scan of the connections in between
    pub remote_hosts: Option<Arc<network::remote_hosts::RemoteHostsSpan>>,
    pub cgroups: Vec<cgroup::CgroupSpan>,
    pub io_limits: Vec<cgroup::IoLimitSpan>,
    pub tasks: Option<task::TaskSpan>,
    /// Tasks that neither sample has.
    pub short_lived: Option<short_lived::ShortLived>,
    /// What kept active threads waiting, sorted by task; empty without delay accounting
    pub delays: Vec<delays::DelaySpan>,
    /// Context switches of threads; `None` if they were not read
    pub context_switches: Option<context_switches::ContextSwitchSpans>,
    /// Threads that wait for a CPU and may use only some of them
    pub affinity_waiters: Vec<cpu_affinity::AffinityWaiters>,
    /// Threads that sub-samples saw blocked, one entry a thread; sorted by task
    pub blocked_threads: Vec<BlockedThread>,
    /// Idle-but-blocked: the part of the available time that is not free.
    pub idle_blocked: Option<idle_blocked::IdleBlocked>,
    /// CPU time of the monitor itself, in CPUs (1.0 is one whole CPU).
    pub self_cpus: Option<f64>,
}

impl Interval {
    /// The span from `older` to `newer`; `None` when no time passed between them (or it ran backwards).
    pub fn between(host: &Arc<Host>, older: &Arc<Sample>, newer: &Arc<Sample>) -> Option<Interval> {
        Interval::with_totals(host, older, newer, None)
    }

    /// The same where the totals over the processes of the older sample are known: the interval before ends with them.
    pub fn with_totals(
        host: &Arc<Host>,
        older: &Arc<Sample>,
        newer: &Arc<Sample>,
        totals: Option<&task::ProcessTotals>,
    ) -> Option<Interval> {
        let seconds = newer.at.seconds_since(older.at);
        if seconds < 0.001 {
            return None;
        }
        let monotonic = newer.at.monotonic_ns.saturating_sub(older.at.monotonic_ns) as f64 / 1e9;
        let tasks = task::TaskSpan::between(host, older, newer, seconds, totals);
        let online = newer.cpu.as_ref().ok().map(|cpu| cpu.cpus.len() as f64);
        let seen = tasks.as_ref().and_then(|tasks| tasks.busy_cpus);
        let room = online.zip(seen).map(|(online, seen)| (online - seen).max(0.0));
        let ended = exited::ExitedSpan::between(host, older, newer, seconds, room);
        let cpu = cpu::CpuSpan::between(host, older, newer, seconds, tasks.as_ref(), ended.as_ref());
        let clocks = cpu.as_ref().and_then(|cpu| cpu.accounting.as_ref());
        let short_lived = ended.as_ref().map(|ended| short_lived::ShortLived::between(older, newer, seconds, ended, clocks));
        let pressure = pressure::PressureSpan::between(&older.pressure, &newer.pressure, seconds);
        let disks = disk::between(older, newer, seconds);
        let blocked_threads = blocked_threads::blocked_threads(&newer.waits);
        let spans = idle_blocked::Spans {
            cpu: cpu.as_ref(),
            tasks: tasks.as_ref(),
            pressure: &pressure,
            disks: &disks,
            blocked_threads: &blocked_threads,
        };
        let idle_blocked = idle_blocked::IdleBlocked::between(host, older, newer, &spans);
        Some(Interval {
            host: Arc::clone(host),
            older: Arc::clone(older),
            newer: Arc::clone(newer),
            seconds,
            suspended_seconds: (seconds - monotonic).max(0.0),
            memory: memory::MemorySpan::between(host, older, newer, seconds),
            nics: network::between(older, newer, seconds),
            protocols: network::ProtocolSpan::between(&older.protocols, &newer.protocols, seconds),
            softnet: network::softnet::between(older, newer, seconds),
            remote_hosts: network::remote_hosts::between(older, newer).map(Arc::new),
            cgroups: cgroup::between(older, newer, seconds),
            io_limits: cgroup::io_limits_between(older, newer, seconds),
            delays: delays::between(older, newer, seconds),
            context_switches: context_switches::ContextSwitchSpans::between(host, older, newer, seconds),
            affinity_waiters: cpu
                .as_ref()
                .zip(tasks.as_ref())
                .map_or_else(Vec::new, |(cpu, tasks)| cpu_affinity::affinity_waiters(newer, cpu, tasks)),
            self_cpus: newer.cost.process_cpu_ns.since(older.cost.process_cpu_ns).map(|ns| ns as f64 / 1e9 / seconds),
            pressure,
            disks,
            cpu,
            tasks,
            short_lived,
            blocked_threads,
            idle_blocked,
        })
    }

    /// The process with this pid as it was last seen: one that has ended meanwhile is in the older sample.
    pub fn process(&self, pid: u32) -> Option<&Arc<Process>> {
        let samples = [&self.newer, &self.older];
        samples.into_iter().find_map(|sample| sample.tasks.as_ref().ok()?.process(pid))
    }

    /// What kept a thread waiting, where it is counted.
    pub fn task_delays(&self, task: crate::ids::TaskId) -> Option<&delays::DelaySpan> {
        let at = self.delays.binary_search_by_key(&task, |span| span.task).ok()?;
        self.delays.get(at)
    }

    /// What a device did.
    pub fn disk(&self, id: crate::ids::DiskId) -> Option<&disk::DiskSpan> {
        let at = self.disks.binary_search_by_key(&id, |span| span.id).ok()?;
        self.disks.get(at)
    }

    /// The totals over the processes of the newer sample, for the next interval.
    pub fn process_totals(&self) -> Option<&Arc<task::ProcessTotals>> {
        self.tasks.as_ref().map(|tasks| &tasks.totals)
    }

    /// When it ended.
    pub fn at(&self) -> Instant {
        self.newer.at
    }

    /// Online CPUs; 0 where /proc/stat could not be read.
    pub fn online_cpus(&self) -> usize {
        self.cpu.as_ref().map_or(0, |cpu| cpu.cpus.len())
    }
}
