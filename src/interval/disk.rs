//! Disk figures as in `iostat -x`, from the counters of `sample/disk`. Each kind of operation has its own await: a mean over
//! reads, writes and flushes would say nothing. `figures/disk` names and describes the columns.

use super::block_latencies::{self, OperationLatency};
use crate::ids::DiskId;
use crate::sample::Sample;
pub use crate::sample::disk::Operation;
use crate::sample::disk::{Disk, OpCounters, find_disk};
use crate::units::{Millis, PerSecond, Ratio, delta};

/// Share of the requests of an interval that may complete between the readings of diskstats and of the histograms.
const MAX_BETWEEN_READINGS: f64 = 0.05;
/// With fewer requests, one that completes between the two readings is a large share.
const MIN_COMPARED_REQUESTS: u64 = 20;

/// One device, present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpan {
    pub id: DiskId,
    /// Index into the newer sample's disks, which have name and facts
    pub index: usize,
    /// Time between the two readings of diskstats
    pub seconds: f64,
    pub reads: OpSpan,
    pub writes: OpSpan,
    pub discards: Option<OpSpan>,
    pub flushes: Option<OpSpan>,
    /// aqu-sz: mean number of requests in flight. `None` for a stalled device, since the kernel adds the time of a request when
    /// it completes
    pub aqu_sz: Option<f64>,
    /// Requests in flight at the newer sample
    pub in_flight: u32,
    /// Share of time with at least one request in flight (iostat's `%util`); not a measure of saturation
    pub busy: Option<Ratio>,
    /// Requests were in flight at both samples and none completed in between
    pub stalled: bool,
    /// Distributions of latency by operation, in their order; empty where they are not known (`Sample::block_latencies`)
    pub latencies: Vec<OperationLatency>,
}

/// One kind of operation on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpSpan {
    /// Requests completed in this interval
    pub completed: u64,
    /// Requests completed per second: r/s, w/s, d/s, f/s
    pub rate: PerSecond,
    /// KB of 1024 bytes per second: rkB/s, wkB/s, dkB/s
    pub kilobytes: PerSecond,
    /// Requests merged per second: rrqm/s, wrqm/s, drqm/s
    pub merged: PerSecond,
    /// Δ`time_ms` ÷ Δ`completed`: mean time from queueing to completion (r_await, w_await, …); `None` if none completed
    pub r#await: Option<Millis>,
    /// Mean size in KiB (rareq-sz, wareq-sz, dareq-sz); `None` if none completed
    pub request_size_kib: Option<f64>,
    /// Mean number of requests of this kind in flight: Δ`time_ms` ÷ 1000 ÷ Δt
    pub concurrency: f64,
}

impl OpSpan {
    /// Share of requests that were merged before they reached the device.
    pub fn merged_share(&self) -> Option<Ratio> {
        Ratio::new(self.merged.0, self.merged.0 + self.rate.0)
    }

    fn between(older: &OpCounters, newer: &OpCounters, seconds: f64) -> Option<OpSpan> {
        let completed = newer.completed.since(older.completed)?;
        let sectors = newer.sectors.since(older.sectors)?;
        let merged = newer.merged.since(older.merged)?;
        let time_ms = newer.time_ms.since(older.time_ms)?;
        Some(OpSpan {
            completed,
            rate: PerSecond(completed as f64 / seconds),
            kilobytes: PerSecond(sectors as f64 / 2.0 / seconds),
            merged: PerSecond(merged as f64 / seconds),
            r#await: Millis::mean(time_ms, completed),
            request_size_kib: (completed > 0).then(|| sectors as f64 / 2.0 / completed as f64),
            concurrency: time_ms as f64 / 1000.0 / seconds,
        })
    }
}

impl DiskSpan {
    fn between(index: usize, older: &Disk, newer: &Disk, seconds: f64) -> Option<DiskSpan> {
        let reads = OpSpan::between(&older.reads, &newer.reads, seconds)?;
        let writes = OpSpan::between(&older.writes, &newer.writes, seconds)?;
        let pair = |newer: &Option<OpCounters>, older: &Option<OpCounters>| match (newer, older) {
            (Some(newer), Some(older)) => OpSpan::between(older, newer, seconds),
            _ => None,
        };
        let discards = pair(&newer.discards, &older.discards);
        let flushes = delta(newer.flushes, older.flushes).zip(delta(newer.flush_time_ms, older.flush_time_ms)).map(
            |(completed, time_ms)| OpSpan {
                completed,
                rate: PerSecond(completed as f64 / seconds),
                r#await: Millis::mean(time_ms, completed),
                concurrency: time_ms as f64 / 1000.0 / seconds,
                ..OpSpan::default()
            },
        );
        let others = discards.map_or(0, |op| op.completed).saturating_add(flushes.map_or(0, |op| op.completed));
        let completed = reads.completed.saturating_add(writes.completed).saturating_add(others);
        let silent = completed == 0 && newer.in_flight > 0 && older.in_flight > 0;
        let queue_ms = newer.time_in_queue_ms.since(older.time_in_queue_ms);
        Some(DiskSpan {
            id: newer.id,
            index,
            seconds,
            reads,
            writes,
            discards,
            flushes,
            aqu_sz: queue_ms.filter(|_| !silent).map(|ms| ms as f64 / 1000.0 / seconds),
            in_flight: newer.in_flight,
            busy: newer
                .io_ticks_ms
                .since(older.io_ticks_ms)
                .and_then(|ms| Ratio::new((ms as f64 / 1000.0).min(seconds), seconds)),
            stalled: silent,
            latencies: Vec::new(),
        })
    }

    /// All kinds of operation that this kernel counts.
    pub fn operations(&self) -> impl Iterator<Item = (Operation, &OpSpan)> {
        [
            (Operation::Read, Some(&self.reads)),
            (Operation::Write, Some(&self.writes)),
            (Operation::Flush, self.flushes.as_ref()),
            (Operation::Discard, self.discards.as_ref()),
        ]
        .into_iter()
        .filter_map(|(kind, span)| Some((kind, span?)))
    }

    /// The distribution of the latencies of an operation; `None` if it is not known, or none completed.
    pub fn latency(&self, operation: Operation) -> Option<&OperationLatency> {
        self.latencies.iter().find(|latency| latency.operation == operation)
    }

    /// The share of the completed operations whose latency was measured; `None` if none was.
    pub fn measured_share(&self, operation: Operation) -> Option<Ratio> {
        let measured = self.latency(operation)?.total.requests();
        // A request that completes between the readings of diskstats and of the histogram is in both, but in different intervals.
        let completed = measured.saturating_add(self.unmeasured(operation));
        Ratio::new(measured as f64, completed as f64)
    }

    /// Completed operations whose latency was not measured. 0 if these are so few that they may have completed between the readings.
    pub fn unmeasured(&self, operation: Operation) -> u64 {
        let completed = self.operations().find(|known| known.0 == operation).map_or(0, |(_, span)| span.completed);
        let measured = self.latency(operation).map_or(0, |known| known.total.requests());
        let missing = completed.saturating_sub(measured);
        let is_unmeasured = completed >= MIN_COMPARED_REQUESTS && missing as f64 > MAX_BETWEEN_READINGS * completed as f64;
        if is_unmeasured { missing } else { 0 }
    }

    /// Completions of all kinds per second.
    pub fn completed_per_second(&self) -> f64 {
        self.operations().map(|(_, op)| op.rate.0).sum()
    }

    /// Completions of all kinds.
    pub fn completed(&self) -> u64 {
        self.operations().map(|(_, op)| op.completed).fold(0, u64::saturating_add)
    }
}

/// Devices that both samples contain with the same identity and name, and whose counters did not decrease.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<DiskSpan> {
    let (Ok(was), Ok(now)) = (&older.disks, &newer.disks) else { return Vec::new() };
    now.iter()
        .enumerate()
        .filter_map(|(index, disk)| {
            let before = find_disk(was, disk.id).filter(|before| is_same_device(before, disk))?;
            let span = DiskSpan::between(index, before, disk, seconds)?;
            Some(DiskSpan { latencies: block_latencies::between(older, newer, disk.id), ..span })
        })
        .collect()
}

/// Whether both are the same device. The kernel reuses numbers and names: serial and backing file must be the same, too.
fn is_same_device(older: &Disk, newer: &Disk) -> bool {
    let facts = std::sync::Arc::ptr_eq(&older.facts, &newer.facts)
        || (older.facts.serial == newer.facts.serial && older.facts.backing_file == newer.facts.backing_file);
    older.id == newer.id && older.name == newer.name && facts
}
