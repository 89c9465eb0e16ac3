//! What must be remembered of earlier intervals for rules that measure how long something has lasted. Small: replay
//! keeps copies of it.

use std::net::IpAddr;
use std::sync::Arc;

use crate::ids::{DiskId, NicId};
use crate::interval::Interval;
use crate::interval::cpu_accounting::{self, CpuAccounting};
use crate::interval::network::remote_hosts::RemoteHostsSpan;

use super::Thresholds;
use super::stuck;
use super::stuck::habits::{Habits, Hanging};

/// Streaks that have not broken yet.
#[derive(Clone, Debug, Default)]
pub struct Streaks {
    /// Devices with requests in flight that complete nothing, and since when (CLOCK_BOOTTIME)
    silent: Vec<(DiskId, u64)>,
    /// Interfaces that were saturated, and how many intervals in a row
    dropping: Vec<(NicId, u32)>,
    /// Interfaces whose queueing discipline had a backlog while it dropped or delayed, and how many samples in a row
    backlogged: Vec<(NicId, u32)>,
    /// Intervals in a row in which run time and ticks were apart in one direction
    apart: Option<Apart>,
    /// The end of the last interval in which a listening socket here dropped a connection request (CLOCK_BOOTTIME)
    refused_ns: Option<u64>,
    /// The interface that was last found to drop most of what TCP sends again, and when (CLOCK_BOOTTIME)
    lost: Option<(NicId, u64)>,
    /// Remote hosts at the last look at the connections: not every interval has one
    peers: Option<Arc<RemoteHostsSpan>>,
    /// Hosts whose round trips were far above their minimum at one of the last looks; bit 0 is the latest
    slow: Vec<(IpAddr, u8)>,
    /// Kernel threads in D
    habits: Habits,
}

/// The last three looks.
const LOOKS: u8 = 0b111;

/// How far two clocks were apart, over some intervals: sums over their seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Apart {
    intervals: f64,
    seconds: f64,
    gap: f64,
    excess: f64,
    skew: f64,
    variance: f64,
}

/// Ticks above run time are proof only where most of them are time that was counted twice.
const COUNTED_TWICE: f64 = 0.75;

/// Segments are sent again some round trips after they were dropped, and again a second later.
const LOST_NS: u64 = 3_000_000_000;

/// A connection request is sent again 1, 3 and 7 seconds after it was dropped.
const REQUEST_RETRIES_NS: u64 = 8_000_000_000;

impl Streaks {
    /// Take in one interval before it is judged.
    pub fn observe(&mut self, interval: &Interval, thresholds: &Thresholds) {
        let start = interval.older.at.boottime_ns;
        self.apart =
            interval.cpu.as_ref().and_then(|cpu| self.further_apart(cpu.accounting.as_ref()?, interval.seconds, thresholds));
        let silent = interval.disks.iter().filter(|disk| disk.stalled);
        self.silent = silent.map(|disk| (disk.id, self.silent_since(disk.id).unwrap_or(start))).collect();
        let dropping = interval.nics.iter().filter(|nic| super::network::is_dropping(nic, thresholds));
        self.dropping = dropping.map(|nic| (nic.id.clone(), self.dropping(&nic.id) + 1)).collect();
        let backlogged = interval.nics.iter().filter(|nic| super::network::is_backlogged(nic, thresholds));
        self.backlogged = backlogged.map(|nic| (nic.id.clone(), self.backlogged(&nic.id) + 1)).collect();
        if interval.protocols.listen_drops.is_some_and(|rate| rate.0 > 0.0) {
            self.refused_ns = Some(interval.at().boottime_ns);
        }
        if let Some(loser) = super::network::loser(interval) {
            self.lost = Some((loser.clone(), interval.at().boottime_ns));
        }
        self.look_at_peers(interval, thresholds);
        let now_ns = interval.at().boottime_ns;
        let stalled = |&(_, since): &(DiskId, u64)| now_ns.saturating_sub(since) as f64 / 1e9 >= thresholds.stalled_seconds;
        let trouble = self.silent.iter().any(stalled) || stuck::hung(interval, thresholds).next().is_some();
        self.habits.look(interval, trouble);
    }

    /// Kernel threads that hang, the longest first, without those that always sit in D.
    pub fn hanging(&self) -> &[Hanging] {
        self.habits.hanging()
    }

    fn look_at_peers(&mut self, interval: &Interval, thresholds: &Thresholds) {
        if interval.newer.protocols.remote_hosts.is_err() {
            (self.peers, self.slow) = (None, Vec::new());
        }
        let Some(peers) = &interval.remote_hosts else { return };
        let before = |address: IpAddr| self.slow.iter().find(|(other, _)| *other == address).map_or(0, |(_, looks)| *looks);
        let look = |peer: &crate::interval::network::remote_hosts::RemoteHostSpan| {
            let slow = u8::from(super::network::peers::is_slow(peer, thresholds));
            (peer.address, (before(peer.address) << 1 | slow) & LOOKS)
        };
        self.slow = peers.rows.iter().map(look).filter(|(_, looks)| *looks != 0).collect();
        self.peers = Some(Arc::clone(peers));
    }

    /// Remote hosts at the last look.
    pub fn peers(&self) -> Option<&Arc<RemoteHostsSpan>> {
        self.peers.as_ref()
    }

    /// Whether a host was slow at the last look and at one of the two before.
    pub fn is_slow(&self, address: IpAddr) -> bool {
        self.slow.iter().any(|&(other, looks)| other == address && looks & 1 != 0 && looks.count_ones() >= 2)
    }

    fn further_apart(&self, clocks: &CpuAccounting, seconds: f64, thresholds: &Thresholds) -> Option<Apart> {
        let gap = clocks.difference();
        if gap.abs() <= thresholds.hidden_cpus {
            return None;
        }
        let sum = self.apart.filter(|sum| sum.gap.signum() == gap.signum()).unwrap_or_default();
        Some(Apart {
            intervals: sum.intervals + 1.0,
            seconds: sum.seconds + seconds,
            gap: sum.gap + gap * seconds,
            excess: sum.excess + clocks.excess_cpus * seconds,
            skew: sum.skew + clocks.read_skew_cpus * seconds,
            variance: sum.variance + clocks.variance * seconds * seconds,
        })
    }

    /// By how many CPUs run time and ticks have been apart, where neither chance nor the way of reading explains it.
    /// Above 0: run time that no tick saw; below 0: ticks that count time twice.
    pub fn apart(&self, thresholds: &Thresholds) -> Option<f64> {
        let sum = self.apart.filter(|sum| sum.intervals >= thresholds.hidden_intervals)?;
        let chance = cpu_accounting::MIN_DEVIATIONS * sum.variance.sqrt();
        let enough = sum.gap.abs() > thresholds.hidden_cpus * sum.seconds + sum.skew + chance;
        let proven = sum.gap > 0.0 || sum.excess >= -sum.gap * COUNTED_TWICE;
        (enough && proven).then_some(sum.gap / sum.seconds)
    }

    /// Since when a device has completed nothing although it was asked to.
    pub fn silent_since(&self, disk: DiskId) -> Option<u64> {
        let at = self.silent.binary_search_by_key(&disk, |(id, _)| *id).ok()?;
        self.silent.get(at).map(|&(_, since)| since)
    }

    /// Whether requests that are sent again now may be those that a full accept queue here has dropped.
    pub fn refused_here(&self, now_ns: u64) -> bool {
        self.refused_ns.is_some_and(|at| now_ns.saturating_sub(at) <= REQUEST_RETRIES_NS)
    }

    /// Whether that interface was found to drop most of what TCP sends again, now or lately.
    pub fn lost_here(&self, nic: &NicId, now_ns: u64) -> bool {
        self.lost.as_ref().is_some_and(|(id, at)| id == nic && now_ns.saturating_sub(*at) <= LOST_NS)
    }

    pub fn dropping(&self, nic: &NicId) -> u32 {
        self.dropping.iter().find(|(id, _)| id == nic).map_or(0, |&(_, times)| times)
    }

    pub fn backlogged(&self, nic: &NicId) -> u32 {
        self.backlogged.iter().find(|(id, _)| id == nic).map_or(0, |&(_, times)| times)
    }
}
