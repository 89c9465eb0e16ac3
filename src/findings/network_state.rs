//! State from earlier intervals of one network namespace: how long its interfaces have dropped packets or had a backlog, and what
//! caused retransmits lately.

use std::net::SocketAddr;

use super::network_scope::NetworkScope;
use super::nic_conditions;
use super::syn_queue_conditions::{is_accept_queue_full, is_nearly_full, syn_queue_full_rate};
use super::thresholds::Thresholds;
use crate::ids::{NicId, ProcessId};

/// Segments are retransmitted some round trips after they were dropped, and again a second later.
const RETRANSMIT_DELAY_NS: u64 = 3_000_000_000;

/// A request stays in a SYN queue for this time, while the kernel sends it SYN/ACKs (net.ipv4.tcp_synack_retries 5).
const SYN_ACK_RETRY_NS: u64 = 64_000_000_000;

/// A connection request is retransmitted 1, 3 and 7 seconds after it was dropped.
const SYN_RETRY_NS: u64 = 8_000_000_000;

/// Conditions of one namespace that hold since earlier intervals.
#[derive(Clone, Debug, Default)]
pub struct NetworkState {
    /// Interfaces that drop packets, with the number of consecutive intervals
    dropping_intervals: Box<[(NicId, u32)]>,
    /// Interfaces that receive or send packets with errors, with the number of consecutive intervals
    damaging_intervals: Box<[(NicId, u32)]>,
    /// Interfaces whose queueing discipline has a backlog while it drops or delays, with the number of consecutive samples
    backlogged_samples: Box<[(NicId, u32)]>,
    /// The end of the last interval in which a listening socket here dropped a connection request (CLOCK_BOOTTIME)
    listen_drop_ns: Option<u64>,
    /// The end of the last interval in which a SYN queue here was full (CLOCK_BOOTTIME)
    syn_queue_full_ns: Option<u64>,
    /// The interface that last dropped most of the retransmitted segments, and when (CLOCK_BOOTTIME)
    local_drop: Option<Box<(NicId, u64)>>,
    /// Listening sockets that dropped connection requests within `SYN_RETRY_NS`: of other namespaces not every sample has them
    full_queues: Box<[FullQueue]>,
}

/// A listening socket whose queue had connections or requests while the kernel dropped some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullQueue {
    pub local_address: SocketAddr,
    /// Whether it is the accept queue; otherwise the SYN queue
    pub is_accept_queue: bool,
    pub owner: Option<ProcessId>,
    /// The end of the last interval that showed it (CLOCK_BOOTTIME)
    pub last_ns: u64,
}

impl NetworkState {
    /// Updates the state with an interval that ends at `now_ns` (CLOCK_BOOTTIME).
    pub fn update(&mut self, scope: &NetworkScope, now_ns: u64, thresholds: &Thresholds) {
        let dropping = scope.nics.iter().filter(|nic| nic_conditions::is_dropping(nic, thresholds));
        self.dropping_intervals = dropping.map(|nic| (nic.id.clone(), self.dropping_intervals(&nic.id) + 1)).collect();
        let damaging = scope.nics.iter().filter(|nic| nic_conditions::damaged_packets(nic, thresholds).is_some());
        self.damaging_intervals = damaging.map(|nic| (nic.id.clone(), self.damaging_intervals(&nic.id) + 1)).collect();
        let backlogged = scope.nics.iter().filter(|nic| nic_conditions::is_backlogged(nic, thresholds));
        self.backlogged_samples = backlogged.map(|nic| (nic.id.clone(), self.backlogged_samples(&nic.id) + 1)).collect();
        if scope.protocols.listen_drops.is_some_and(|rate| rate.0 > 0.0) {
            self.listen_drop_ns = Some(now_ns);
        }
        if syn_queue_full_rate(scope).is_some_and(|rate| rate >= thresholds.syn_queue_full_per_second) {
            self.syn_queue_full_ns = Some(now_ns);
        }
        if let Some(loser) = nic_conditions::local_drop_nic(scope) {
            self.local_drop = Some(Box::new((loser.clone(), now_ns)));
        }
        self.update_full_queues(scope, now_ns, thresholds);
    }

    fn update_full_queues(&mut self, scope: &NetworkScope, now_ns: u64, thresholds: &Thresholds) {
        let mut queues = Vec::new();
        if is_accept_queue_full(scope) {
            queues.extend(scope.listeners().iter().filter(|listener| is_nearly_full(listener)).map(|listener| FullQueue {
                local_address: listener.local_address,
                is_accept_queue: true,
                owner: listener.owner.as_ref().map(|(owner, _)| *owner),
                last_ns: now_ns,
            }));
        }
        if syn_queue_full_rate(scope).is_some_and(|rate| rate >= thresholds.syn_queue_full_per_second) {
            queues.extend(scope.syn_queues().iter().map(|queue| FullQueue {
                local_address: queue.local_address,
                is_accept_queue: false,
                owner: queue.owner.as_ref().map(|(owner, _)| *owner),
                last_ns: now_ns,
            }));
        }
        let is_same =
            |a: &FullQueue, b: &FullQueue| (a.local_address, a.is_accept_queue) == (b.local_address, b.is_accept_queue);
        let is_recent = |queue: &FullQueue| now_ns.saturating_sub(queue.last_ns) <= SYN_RETRY_NS;
        let earlier = self.full_queues.iter().filter(|queue| is_recent(queue) && !queues.iter().any(|now| is_same(now, queue)));
        let earlier: Vec<FullQueue> = earlier.copied().collect();
        self.full_queues = queues.into_iter().chain(earlier).collect();
    }

    /// Listening sockets that dropped connection requests, now or within `SYN_RETRY_NS`.
    pub fn full_queues(&self) -> &[FullQueue] {
        &self.full_queues
    }

    /// Whether nothing of it would change a later interval.
    pub fn is_empty(&self) -> bool {
        let NetworkState {
            dropping_intervals,
            damaging_intervals,
            backlogged_samples,
            listen_drop_ns,
            syn_queue_full_ns,
            local_drop,
            full_queues,
        } = self;
        dropping_intervals.is_empty()
            && damaging_intervals.is_empty()
            && backlogged_samples.is_empty()
            && full_queues.is_empty()
            && (listen_drop_ns.is_none() && syn_queue_full_ns.is_none() && local_drop.is_none())
    }

    /// Whether retransmits now may be connection requests that a full local accept queue has dropped.
    pub fn had_listen_drop(&self, now_ns: u64) -> bool {
        self.listen_drop_ns.is_some_and(|at| now_ns.saturating_sub(at) <= SYN_RETRY_NS)
    }

    /// Whether retransmits now may be SYN/ACKs to requests in a SYN queue that was full.
    pub fn had_full_syn_queue(&self, now_ns: u64) -> bool {
        self.syn_queue_full_ns.is_some_and(|at| now_ns.saturating_sub(at) <= SYN_ACK_RETRY_NS)
    }

    /// Whether that interface dropped most of the retransmitted segments, now or in the last `RETRANSMIT_DELAY_NS`.
    pub fn had_local_drop(&self, nic: &NicId, now_ns: u64) -> bool {
        self.local_drop.as_deref().is_some_and(|(id, at)| id == nic && now_ns.saturating_sub(*at) <= RETRANSMIT_DELAY_NS)
    }

    /// Number of consecutive intervals in which the interface dropped packets.
    pub fn dropping_intervals(&self, nic: &NicId) -> u32 {
        self.dropping_intervals.iter().find(|(id, _)| id == nic).map_or(0, |&(_, times)| times)
    }

    /// Number of consecutive intervals in which the interface received or sent packets with errors.
    pub fn damaging_intervals(&self, nic: &NicId) -> u32 {
        self.damaging_intervals.iter().find(|(id, _)| id == nic).map_or(0, |&(_, times)| times)
    }

    /// Number of consecutive samples at which the interface had a backlog.
    pub fn backlogged_samples(&self, nic: &NicId) -> u32 {
        self.backlogged_samples.iter().find(|(id, _)| id == nic).map_or(0, |&(_, times)| times)
    }
}
