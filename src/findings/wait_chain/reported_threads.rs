//! From which mean number of threads a sentence or a chain mentions them.

use crate::interval::idle_blocked::BlockedGroup;

/// Mean numbers of threads below this are not reported. docs/metrics.md, "Fixed thresholds".
pub const MIN_REPORTED_THREADS: f64 = 0.05;

/// Mean number of threads from which there are several: it rounds to two.
pub const MIN_SEVERAL_THREADS: f64 = 1.5;

/// Share of the first group's figure (blocked threads, or its part of the ratio) from which another group is reported, and of a group's
/// threads on storage from which those behind a lock are part of its chain: a smaller one would not change what to do.
pub const MIN_SECONDARY_SHARE: f64 = 0.2;

/// Mean number of waiting threads from which a group's lock or IPC peer is part of its chain: a few threads that occasionally
/// wait behind many on storage are not.
pub fn min_waiters(group: &BlockedGroup) -> f64 {
    MIN_REPORTED_THREADS.max((group.storage + group.hidden) * MIN_SECONDARY_SHARE)
}
