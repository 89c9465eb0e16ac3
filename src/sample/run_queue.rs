//! How long threads waited for a CPU: cumulative counts by CPU and process, as the eBPF program of assets/probe/run_queue.bpf.c counts
//! them when they get it. `kernel/probe/run_queue` reads them; `interval/run_queue` has the distributions.

use super::{Instant, Name};
use crate::ids::CpuId;
use crate::units::Counter;

/// What was counted up to an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct RunQueues {
    pub at: Instant,
    /// Sorted by CPU
    pub cpus: Vec<(CpuId, WaitHistogram)>,
    /// Sorted by pid
    pub processes: Vec<ProcessWaits>,
}

/// Bucket (`histogram_bucket`) and waits in it: those in which something was counted, sorted
pub type WaitHistogram = Vec<(u8, Counter)>;

/// The waits of all threads with this pid. Another process that takes the pid begins again at 0 if a reading found none with it, and
/// otherwise goes on from the counts of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessWaits {
    pub pid: u32,
    /// `None` if it ended before it could be read
    pub name: Option<Name>,
    pub waits: WaitHistogram,
}
