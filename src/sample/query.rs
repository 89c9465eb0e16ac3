//! Queries of a database server: cumulative counts, as the eBPF programs of assets/probe/query.bpf.c count them when they end.
//! `kernel/probe/query` reads them; `interval/query` has the distributions.

use super::histogram_bucket::FineBucket;
use super::{Instant, Name};
use crate::units::Counter;

/// What was counted up to an instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Queries {
    pub at: Instant,
    pub all: Latencies,
    /// Those that the query cache answered; `None`: the server has none
    pub cached: Option<Latencies>,
    /// Those whose thread another one preempted
    pub preempted: Latencies,
    /// Sums over all queries
    pub times: QueryTimes,
    pub preempted_by: Vec<Preemptor>,
    /// Preemptions by processes that had no place in the table
    pub preempted_by_others: Counter,
    /// Queries that were not counted: the kernel had no memory
    pub lost: Counter,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Queries in each bucket: those in which something was counted, sorted
    pub buckets: Vec<(FineBucket, Counter)>,
    /// All added up
    pub total_ns: Counter,
}

/// What the threads of queries did, from the beginning of each to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueryTimes {
    pub on_cpu_ns: Counter,
    /// Waiting for a CPU
    pub run_queue_ns: Counter,
    /// Asleep with the in_iowait flag, or uninterruptibly in fsync and its forms
    pub storage_ns: Counter,
    /// Asleep in futex or semop, or uninterruptibly without the flag
    pub locks_ns: Counter,
    /// Asleep otherwise
    pub other_ns: Counter,
}

/// A process whose threads preempted threads with a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Preemptor {
    /// 0: the idle thread, where the limit of a cgroup is reached
    pub pid: u32,
    pub name: Name,
    pub count: Counter,
}
