//! From which mean number of threads a sentence or a chain mentions them.

use crate::interval::idle_blocked::BlockedGroup;

/// Mean numbers of threads below this are not reported. docs/metrics.md, "Fixed thresholds".
pub const MIN_REPORTED_THREADS: f64 = 0.05;

/// Mean number of threads from which there are several: it rounds to two.
pub const MIN_SEVERAL_THREADS: f64 = 1.5;

/// Share of the first group's figure (blocked threads, or its part of the ratio) from which another group is reported, and of a group's
/// threads on storage from which those behind a lock are part of its chain: a smaller one would not change what to do.
pub const MIN_SECONDARY_SHARE: f64 = 0.2;

/// Whether the threads of a group that wait for a lock, or for an IPC peer, are part of its chain. Headline, sentence and chain
/// use this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedWaiters {
    pub lock: bool,
    pub ipc_peer: bool,
}

impl ReportedWaiters {
    /// A few threads that occasionally wait behind many on storage are no part of the chain, and a few that wait for one of the
    /// two beside many that wait for the other one neither.
    pub fn new(group: &BlockedGroup) -> ReportedWaiters {
        let (lock, ipc_peer) = (group.behind_lock(), group.behind_ipc_peer);
        let all = lock + ipc_peer;
        let is_queue = all >= MIN_REPORTED_THREADS.max((group.storage + group.hidden) * MIN_SECONDARY_SHARE);
        let least = MIN_REPORTED_THREADS.max(all * MIN_SECONDARY_SHARE);
        ReportedWaiters { lock: is_queue && lock >= least, ipc_peer: is_queue && ipc_peer >= least }
    }

    pub fn any(self) -> bool {
        self.lock || self.ipc_peer
    }
}
