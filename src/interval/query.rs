//! Distributions of the latencies of queries, and what their threads did, from the counts of `sample/query`.

use super::latency_histogram::QueryHistogram;
use crate::sample::histogram_bucket::FineBucket;
use crate::sample::query::{Latencies, Queries};
use crate::sample::{Instant, Name};
use crate::units::{Counter, Millis, Ratio, SmallSort};

/// The queries that ended between two readings.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryInterval {
    /// Its end
    pub at: Instant,
    /// Its length
    pub seconds: f64,
    pub all: QuerySpan,
    /// Answered by the query cache, and not; `None`: the server has none
    pub cached_and_not: Option<[QuerySpan; 2]>,
    /// Their thread was preempted, and was not
    pub preempted_and_not: [QuerySpan; 2],
    /// Of all queries
    pub times: [(QueryPart, Millis); 5],
    /// The most frequent first
    pub preempted_by: Vec<PreemptorSpan>,
    /// Preemptions by processes that had no place in the table
    pub preempted_by_others: u64,
    /// Queries that were not counted: the kernel had no memory
    pub lost: u64,
}

/// Latencies of a part of the queries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuerySpan {
    pub latencies: QueryHistogram,
    /// Added up: exact, other than the middles of the buckets
    pub total: Millis,
}

/// What a thread with a query does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryPart {
    OnCpu,
    RunQueue,
    Storage,
    Locks,
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PreemptorSpan {
    pub pid: u32,
    pub name: Name,
    pub count: u64,
}

impl QueryInterval {
    /// `None` if no time passed.
    pub fn between(older: &Queries, newer: &Queries) -> Option<QueryInterval> {
        let seconds = newer.at.seconds_since(older.at);
        let all = QuerySpan::between(&older.all, &newer.all);
        let preempted = QuerySpan::between(&older.preempted, &newer.preempted);
        let cached = older.cached.as_ref().zip(newer.cached.as_ref()).map(|(older, newer)| QuerySpan::between(older, newer));
        let (was, is) = (older.times, newer.times);
        let times = [
            (QueryPart::OnCpu, was.on_cpu_ns, is.on_cpu_ns),
            (QueryPart::RunQueue, was.run_queue_ns, is.run_queue_ns),
            (QueryPart::Storage, was.storage_ns, is.storage_ns),
            (QueryPart::Locks, was.locks_ns, is.locks_ns),
            (QueryPart::Other, was.other_ns, is.other_ns),
        ];
        let preempted_by = newer.preempted_by.iter().map(|now| {
            let before = older.preempted_by.iter().find(|known| known.pid == now.pid);
            let count = grown(before.map_or(Counter(0), |before| before.count), now.count);
            PreemptorSpan { pid: now.pid, name: now.name.clone(), count }
        });
        let mut preempted_by: Vec<PreemptorSpan> = preempted_by.filter(|preemptor| preemptor.count > 0).collect();
        preempted_by.small_sort_by_key(|preemptor| (std::cmp::Reverse(preemptor.count), preemptor.pid));
        (seconds > 0.0).then(|| QueryInterval {
            at: newer.at,
            seconds,
            cached_and_not: cached.map(|cached| {
                let others = all.without(&cached);
                [cached, others]
            }),
            preempted_and_not: [preempted.clone(), all.without(&preempted)],
            all,
            times: times.map(|(part, was, is)| (part, millis(grown(was, is)))),
            preempted_by,
            preempted_by_others: grown(older.preempted_by_others, newer.preempted_by_others),
            lost: grown(older.lost, newer.lost),
        })
    }

    /// The share of the time in queries; `None` without any.
    pub fn share(&self, time: Millis) -> Option<Ratio> {
        Ratio::new(time.0, self.times.iter().map(|(_, time)| time.0).sum())
    }

    /// The time of a query on average; `None` without any.
    pub fn per_query(&self, time: Millis) -> Option<Millis> {
        let count = self.all.latencies.requests();
        (count > 0).then(|| Millis(time.0 / count as f64))
    }
}

impl QuerySpan {
    fn between(older: &Latencies, newer: &Latencies) -> QuerySpan {
        let was = |bucket: FineBucket| {
            let place = older.buckets.binary_search_by_key(&bucket, |known| known.0).ok();
            place.and_then(|place| older.buckets.get(place)).map_or(Counter(0), |known| known.1)
        };
        let buckets = newer.buckets.iter().map(|&(bucket, count)| (bucket, grown(was(bucket), count)));
        QuerySpan { latencies: QueryHistogram::new(buckets), total: millis(grown(older.total_ns, newer.total_ns)) }
    }

    /// The others of these queries.
    fn without(&self, part: &QuerySpan) -> QuerySpan {
        let total = Millis((self.total.0 - part.total.0).max(0.0));
        QuerySpan { latencies: self.latencies.without(&part.latencies), total }
    }

    /// The latency that this share of the queries, 0 to 1, did not exceed: of all of them the longest; `None` without queries.
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        self.latencies.interpolated_quantile(share)
    }

    /// The exact mean; `None` without queries.
    pub fn mean(&self) -> Option<Millis> {
        let count = self.latencies.requests();
        (count > 0).then(|| Millis(self.total.0 / count as f64))
    }
}

/// The programs only add.
fn grown(was: Counter, now: Counter) -> u64 {
    now.since(was).unwrap_or(0)
}

fn millis(ns: u64) -> Millis {
    Millis(ns as f64 / 1e6)
}
