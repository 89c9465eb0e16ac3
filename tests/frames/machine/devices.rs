//! Disks and interfaces of a machine of the frames.

use stalltop::ids::DiskId;
use stalltop::interval::disk::Operation;
use stalltop::sample::block_latencies::LatencyBucket;
use stalltop::sample::disk::{Disk, DiskFacts};
use stalltop::sample::network::Nic;
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

use super::super::synthetic;

#[derive(Clone, PartialEq)]
pub struct Device {
    pub name: &'static [u8],
    pub minor: u32,
    pub rotational: bool,
    /// Requests per second, and milliseconds of each
    pub reads: (u64, u64),
    pub writes: (u64, u64),
    pub flushes: (u64, u64),
    pub in_flight: u32,
    pub busy_ms: u64,
    /// Buckets of the latency histogram of reads, and requests per second in each; none where no eBPF program counts them
    pub read_latencies: Vec<(u8, u64)>,
}

#[derive(Clone, PartialEq)]
pub struct Link {
    pub name: &'static [u8],
    pub speed_mbps: Option<u32>,
    pub rx: (u64, u64),
    pub tx: (u64, u64),
}

impl Device {
    pub fn id(&self) -> DiskId {
        DiskId { major: 8, minor: self.minor }
    }

    /// A quarter of the requests is sequential; half of each latency is in the queue, half on the device.
    pub(super) fn latencies_at(&self, k: u64) -> Vec<LatencyBucket> {
        let bucket = |bucket: u8, completed: u64, part: u64| LatencyBucket {
            sequential: Counter(completed * k / 4),
            queued: Counter(part * k),
            on_device: Counter(part * k),
            ..synthetic::latency_bucket(self.id(), Operation::Read, bucket, completed * k)
        };
        // Eight buckets to a power of two
        let both = |&(whole, count): &(u8, u64)| [bucket(whole - 8, 0, count), bucket(whole, count, 0)];
        let mut buckets: Vec<LatencyBucket> = self.read_latencies.iter().flat_map(both).collect();
        buckets.sort_by_key(|row| row.bucket);
        buckets
    }

    pub(super) fn at(&self, k: u64) -> Disk {
        let op = |(count, each_ms): (u64, u64), kib: u64| synthetic::operations(count * k, kib, count * each_ms * k);
        let facts = DiskFacts {
            rotational: Some(self.rotational),
            model: Some(Name::from("WDC WD40EFRX")),
            size_bytes: Some(4_000_787_030_016),
            scheduler: Some(Name::from("mq-deadline")),
            mount_points: vec![Name::from("/var/lib/pg")],
            ..DiskFacts::default()
        };
        synthetic::disk(self.name)
            .id(8, self.minor)
            .facts(facts)
            .reads(op(self.reads, 8))
            .writes(op(self.writes, 16))
            .flushes(self.flushes.0 * k, self.flushes.0 * self.flushes.1 * k)
            .in_flight(self.in_flight)
            .busy_ms(self.busy_ms * k, (self.reads.0 * self.reads.1 + self.writes.0 * self.writes.1) * k)
            .build()
    }
}

impl Link {
    pub(super) fn at(&self, index: u32, k: u64) -> Nic {
        let side = |(kilobytes, packets): (u64, u64)| synthetic::traffic(kilobytes * 1024 * k, packets * k);
        let nic = synthetic::nic(index, self.name).rx(side(self.rx)).tx(side(self.tx));
        nic.facts(|facts| {
            facts.speed_mbps = self.speed_mbps.ok_or(Absent::Unsupported);
            facts.virtual_device = self.speed_mbps.is_none();
        })
        .build()
    }
}
