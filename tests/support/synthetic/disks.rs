//! Synthetic disks: a part of `synthetic`.

use std::sync::Arc;

use stalltop::ids::DiskId;
use stalltop::sample::Name;
use stalltop::sample::block_latencies::LatencyBucket;
use stalltop::sample::disk::{Disk, DiskFacts, OpCounters, Operation};
use stalltop::units::Counter;

/// Completed requests of `kib_each` KiB; `time_ms` is the sum of their times.
pub fn operations(completed: u64, kib_each: u64, time_ms: u64) -> OpCounters {
    OpCounters {
        completed: Counter(completed),
        merged: Counter(0),
        sectors: Counter(completed * kib_each * 2),
        time_ms: Counter(time_ms),
    }
}

/// Disk 8:0 of a kernel that counts neither discards nor flushes.
pub fn disk(name: impl Into<Name>) -> DiskBuilder {
    DiskBuilder(Disk {
        id: DiskId { major: 8, minor: 0 },
        name: name.into(),
        facts: Arc::default(),
        reads: OpCounters::default(),
        writes: OpCounters::default(),
        discards: None,
        flushes: None,
        flush_time_ms: None,
        in_flight: 0,
        io_ticks_ms: Counter(0),
        time_in_queue_ms: Counter(0),
    })
}

#[derive(Clone)]
pub struct DiskBuilder(Disk);

impl DiskBuilder {
    pub fn id(self, major: u32, minor: u32) -> Self {
        self.with(|disk| disk.id = DiskId { major, minor })
    }

    pub fn facts(self, facts: DiskFacts) -> Self {
        self.with(|disk| disk.facts = Arc::new(facts))
    }

    pub fn reads(self, reads: OpCounters) -> Self {
        self.with(|disk| disk.reads = reads)
    }

    pub fn writes(self, writes: OpCounters) -> Self {
        self.with(|disk| disk.writes = writes)
    }

    pub fn flushes(self, completed: u64, time_ms: u64) -> Self {
        self.with(|disk| (disk.flushes, disk.flush_time_ms) = (Some(Counter(completed)), Some(Counter(time_ms))))
    }

    pub fn in_flight(self, requests: u32) -> Self {
        self.with(|disk| disk.in_flight = requests)
    }

    /// Time with at least one request in flight, and the sum of the times of all requests.
    pub fn busy_ms(self, io_ticks: u64, time_in_queue: u64) -> Self {
        self.with(|disk| (disk.io_ticks_ms, disk.time_in_queue_ms) = (Counter(io_ticks), Counter(time_in_queue)))
    }

    pub fn with(mut self, set: impl FnOnce(&mut Disk)) -> Self {
        set(&mut self.0);
        self
    }

    pub fn build(self) -> Disk {
        self.0
    }
}

impl From<DiskBuilder> for Disk {
    fn from(builder: DiskBuilder) -> Disk {
        builder.0
    }
}

/// A bucket of a latency histogram: completed requests, none of which is known to be sequential.
pub fn latency_bucket(disk: DiskId, operation: Operation, bucket: u8, completed: u64) -> LatencyBucket {
    LatencyBucket {
        disk,
        operation,
        bucket,
        completed: Counter(completed),
        sequential: Counter(0),
        queued: Counter(0),
        on_device: Counter(0),
    }
}
