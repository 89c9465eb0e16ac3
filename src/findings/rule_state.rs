//! State from earlier intervals, for rules that measure how long a condition has lasted. Small, since checkpoints of a replay
//! contain it.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use crate::baseline::device::is_virtual;
use crate::ids::{DiskId, TaskId};
use crate::interval::Interval;
use crate::interval::cpu_accounting::{self, CpuAccounting};
use crate::interval::disk::DiskSpan;
use crate::interval::network::remote_hosts::RemoteHostsSpan;
use crate::interval::task::ThreadSpan;

use super::Thresholds;
use super::hung_threads::hung_threads;
use super::kernel_thread_tracker::{HungKernelThread, KernelThreadTracker};
use super::network_scope::NetworkScope;
use super::network_state::NetworkState;

/// Conditions that hold since earlier intervals.
#[derive(Clone, Debug, Default)]
pub struct RuleState {
    /// Devices that are stalled, and rotating ones that complete nothing; sorted by id
    silent: Box<[SilentDevice]>,
    /// Consecutive intervals in which run time and ticks differed in one direction
    accounting_difference: Option<AccountingDifference>,
    /// Of the network namespace of stalltop
    network: NetworkState,
    /// Of other network namespaces with a condition, by inode
    namespaces: Box<[(u64, NetworkState)]>,
    /// Remote hosts at the last scan of the connections: not every interval has one
    remote_hosts: Option<Arc<RemoteHostsSpan>>,
    /// Hosts whose round trips were far above their minimum at one of the last scans; bit 0 is the latest
    slow_history: Vec<(IpAddr, u8)>,
    /// Threads that used much of a CPU and changed to another one, and when they last did (CLOCK_BOOTTIME)
    moved_threads: Box<[(TaskId, u64)]>,
    /// Kernel threads in D
    kernel_threads: KernelThreadTracker,
}

/// A device that completes nothing. Times are CLOCK_BOOTTIME in ns.
#[derive(Clone, Copy, Debug)]
struct SilentDevice {
    id: DiskId,
    /// Start of the first interval without a completion; of a device that does not rotate that of the stall
    since_ns: u64,
    /// Start of the stall: requests are in flight
    stalled_since_ns: Option<u64>,
}

/// The last three scans of the connections.
const SLOW_HISTORY_MASK: u8 = 0b111;

/// Difference between run time and ticks, summed over the seconds of some intervals.
#[derive(Clone, Copy, Debug, Default)]
struct AccountingDifference {
    intervals: f64,
    seconds: f64,
    difference: f64,
    excess: f64,
    skew: f64,
    variance: f64,
}

/// Ticks above run time count only if this share of the difference is time that was counted twice.
const MIN_DOUBLE_COUNTED_SHARE: f64 = 0.75;

/// A thread that changed to another CPU within this time migrates between CPUs.
const MOVED_NS: u64 = 10_000_000_000;

/// Share of a CPU from which a thread's changes of the CPU are remembered.
const MIN_MOVED_SHARE: f64 = 0.5;

impl RuleState {
    /// Updates the state with an interval before its rules are evaluated.
    pub fn update(&mut self, interval: &Interval, thresholds: &Thresholds) {
        let start = interval.older.at.boottime_ns;
        self.accounting_difference = interval
            .cpu
            .as_ref()
            .and_then(|cpu| self.accumulate_difference(cpu.accounting.as_ref()?, interval.seconds, thresholds));
        let rotates = |disk: &DiskSpan| {
            let newer = interval.newer.disks.as_ref().ok().and_then(|disks| disks.get(disk.index));
            newer.is_some_and(|disk| disk.facts.rotational == Some(true) && !is_virtual(disk))
        };
        let silent = interval.disks.iter().filter(|disk| disk.stalled || disk.completed() == 0 && rotates(disk));
        let state = |disk: &DiskSpan| SilentDevice {
            id: disk.id,
            since_ns: self.silent(disk.id).map_or(start, |before| before.since_ns),
            stalled_since_ns: disk.stalled.then(|| self.stalled_since(disk.id).unwrap_or(start)),
        };
        self.silent = silent.map(state).collect();
        self.update_networks(interval, thresholds);
        self.update_remote_hosts(interval, thresholds);
        self.update_moved_threads(interval);
        let now_ns = interval.at().boottime_ns;
        let is_long = |since: u64| now_ns.saturating_sub(since) as f64 / 1e9 >= thresholds.stalled_seconds;
        let other_hang = self.silent.iter().filter_map(|device| device.stalled_since_ns).any(is_long)
            || hung_threads(interval, thresholds).next().is_some();
        self.kernel_threads.update(interval, other_hang);
    }

    fn update_networks(&mut self, interval: &Interval, thresholds: &Thresholds) {
        let now_ns = interval.at().boottime_ns;
        let mut namespaces = Vec::new();
        for scope in NetworkScope::all(interval) {
            match scope.inode() {
                None => self.network.update(&scope, now_ns, thresholds),
                Some(inode) => {
                    let mut state = self.network(Some(inode)).clone();
                    state.update(&scope, now_ns, thresholds);
                    namespaces.push((inode, state));
                }
            }
        }
        namespaces.retain(|(_, state)| !state.is_empty());
        self.namespaces = namespaces.into();
    }

    /// The state of a network namespace, by its inode; `None`: that of stalltop.
    pub fn network(&self, inode: Option<u64>) -> &NetworkState {
        /// Of a namespace that no earlier interval had.
        static NEW: LazyLock<NetworkState> = LazyLock::new(NetworkState::default);
        let Some(inode) = inode else { return &self.network };
        self.namespaces.iter().find(|(other, _)| *other == inode).map_or(&NEW, |(_, state)| state)
    }

    /// Kernel threads that hang, the longest first, without those that are always in D.
    pub fn hung_kernel_threads(&self) -> &[HungKernelThread] {
        self.kernel_threads.hung()
    }

    fn update_remote_hosts(&mut self, interval: &Interval, thresholds: &Thresholds) {
        if interval.newer.protocols.remote_hosts.is_err() {
            (self.remote_hosts, self.slow_history) = (None, Vec::new());
        }
        let Some(remote_hosts) = &interval.network.remote_hosts else { return };
        let before =
            |address: IpAddr| self.slow_history.iter().find(|(other, _)| *other == address).map_or(0, |(_, scans)| *scans);
        let scan = |remote_host: &crate::interval::network::remote_hosts::RemoteHostSpan| {
            let slow = u8::from(super::remote_host_limits::is_slow(remote_host, thresholds));
            (remote_host.address, (before(remote_host.address) << 1 | slow) & SLOW_HISTORY_MASK)
        };
        self.slow_history = remote_hosts.rows.iter().map(scan).filter(|(_, scans)| *scans != 0).collect();
        self.remote_hosts = Some(Arc::clone(remote_hosts));
    }

    fn update_moved_threads(&mut self, interval: &Interval) {
        let now_ns = interval.at().boottime_ns;
        let threads = interval.tasks.iter().flat_map(|tasks| &tasks.threads);
        let moved = |thread: &&ThreadSpan| thread.migrated && thread.cpu.is_some_and(|used| used.0 >= MIN_MOVED_SHARE);
        let now: Vec<(TaskId, u64)> = threads.filter(moved).map(|thread| (thread.id, now_ns)).collect();
        let is_recent =
            |&&(task, at): &&(TaskId, u64)| now_ns.saturating_sub(at) < MOVED_NS && now.iter().all(|&(moved, _)| moved != task);
        let earlier = self.moved_threads.iter().filter(is_recent).copied();
        self.moved_threads = earlier.chain(now.iter().copied()).collect();
    }

    /// Whether a thread that uses much of a CPU changed to another one in the last `MOVED_NS`.
    pub fn moved_lately(&self, task: TaskId) -> bool {
        self.moved_threads.iter().any(|(moved, _)| *moved == task)
    }

    /// When such a thread last changed, CLOCK_BOOTTIME; `None` if not in the last `MOVED_NS`.
    pub fn last_moved_ns(&self, task: TaskId) -> Option<u64> {
        self.moved_threads.iter().find(|(moved, _)| *moved == task).map(|&(_, at)| at)
    }

    /// Remote hosts at the last scan of the connections.
    pub fn remote_hosts(&self) -> Option<&Arc<RemoteHostsSpan>> {
        self.remote_hosts.as_ref()
    }

    /// Whether a host was slow at the last scan and at one of the two before.
    pub fn is_slow(&self, address: IpAddr) -> bool {
        self.slow_history.iter().any(|&(other, scans)| other == address && scans & 1 != 0 && scans.count_ones() >= 2)
    }

    fn accumulate_difference(
        &self,
        clocks: &CpuAccounting,
        seconds: f64,
        thresholds: &Thresholds,
    ) -> Option<AccountingDifference> {
        let gap = clocks.difference();
        if gap.abs() <= thresholds.hidden_cpus {
            return None;
        }
        let sum = self.accounting_difference.filter(|sum| sum.difference.signum() == gap.signum()).unwrap_or_default();
        Some(AccountingDifference {
            intervals: sum.intervals + 1.0,
            seconds: sum.seconds + seconds,
            difference: sum.difference + gap * seconds,
            excess: sum.excess + clocks.excess_cpus * seconds,
            skew: sum.skew + clocks.read_skew_cpus * seconds,
            variance: sum.variance + clocks.variance * seconds * seconds,
        })
    }

    /// The difference between run time and ticks in CPUs, if neither chance nor read skew explains it. Above 0: run time
    /// that no tick saw; below 0: ticks that count time twice.
    pub fn accounting_difference(&self, thresholds: &Thresholds) -> Option<f64> {
        let sum = self.accounting_difference.filter(|sum| sum.intervals >= thresholds.hidden_intervals)?;
        let chance = cpu_accounting::MIN_DEVIATIONS * sum.variance.sqrt();
        let enough = sum.difference.abs() > thresholds.hidden_cpus * sum.seconds + sum.skew + chance;
        let proven = sum.difference > 0.0 || sum.excess >= -sum.difference * MIN_DOUBLE_COUNTED_SHARE;
        (enough && proven).then_some(sum.difference / sum.seconds)
    }

    /// Start of the stall of a device (CLOCK_BOOTTIME, ns); `None` if it is not stalled.
    pub fn stalled_since(&self, disk: DiskId) -> Option<u64> {
        self.silent(disk)?.stalled_since_ns
    }

    /// For how long a stalled device had completed nothing before it stalled, in seconds: 0 of one that does not rotate.
    pub fn idle_seconds_before_stall(&self, disk: DiskId) -> Option<f64> {
        let device = self.silent(disk)?;
        Some(device.stalled_since_ns?.saturating_sub(device.since_ns) as f64 / 1e9)
    }

    fn silent(&self, disk: DiskId) -> Option<&SilentDevice> {
        let at = self.silent.binary_search_by_key(&disk, |device| device.id).ok()?;
        self.silent.get(at)
    }
}
