//! Latency histograms of block requests, by the eBPF program of assets/probe/block.bpf.c, which counts in memory that this process
//! shares with it. This process tells the program which devices there are, and reads what it has counted.
//!
//! Nothing is pinned: the program is detached and unloaded when this process ends, however it ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustc_hash::FxHashMap;

use super::map_words::{device_hash, device_number};
use super::probe_error::ProbeError;
use super::slot_table::SlotTable;
use crate::ids::DiskId;
use crate::kernel::sys::{self, SharedWords};
use crate::sample::Name;
use crate::sample::block_io::{BUCKETS, LatencyBucket};
use crate::sample::disk::{Disk, Operation};
use crate::units::Counter;

/// How large the maps are: the loader makes them so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// CPUs count in the shard with their number modulo this, a power of two
    pub shards: u32,
    /// Devices that are counted at most
    pub slots: u32,
    /// Several CPUs count in one shard, with atomic additions.
    pub is_shared: bool,
}

/// Operations of a device, in the order of the program's.
const OPERATIONS: [Operation; 4] = [Operation::Read, Operation::Write, Operation::Flush, Operation::Discard];
/// `TABLE_PLACES` in block.bpf.c
const TABLE_PLACES: usize = 128;
/// `struct device`, in words of 64 bits: number and slot, then the end of the last request of each operation
const DEVICE_WORDS: usize = 8;
/// `struct histograms`: the number of requests, then the buckets
const HISTOGRAM_WORDS: usize = 1 + BUCKETS * BUCKET_WORDS;
/// `struct bucket`
const BUCKET_WORDS: usize = 4;
/// No request begins there.
const NO_SECTOR: u64 = u64::MAX;

impl BlockLayout {
    const MAX_SHARDS: u32 = 16;
    const SLOTS: std::ops::RangeInclusive<u32> = 8..=64;

    /// For a machine with CPUs up to this number and so many devices: 32 KB for each device in each shard, 32 MB at most.
    pub fn new(possible_cpus: u32, devices: u32) -> BlockLayout {
        BlockLayout {
            shards: possible_cpus.clamp(1, Self::MAX_SHARDS).next_power_of_two(),
            // Some may be added later.
            slots: devices.saturating_add(4).clamp(*Self::SLOTS.start(), *Self::SLOTS.end()),
            is_shared: possible_cpus > Self::MAX_SHARDS,
        }
    }

    /// Entries of the map `histograms`.
    pub fn histograms(self) -> u32 {
        self.shards * self.slots * OPERATIONS.len() as u32
    }

    /// For the command line of the loader.
    pub fn to_words(self) -> [String; 3] {
        [self.shards, self.slots, u32::from(self.is_shared)].map(|number| number.to_string())
    }

    /// The inverse of `to_words`; `None` for anything else.
    pub fn from_words(words: &[String]) -> Option<BlockLayout> {
        let [shards, slots, is_shared] = words else { return None };
        let layout =
            BlockLayout { shards: shards.parse().ok()?, slots: slots.parse().ok()?, is_shared: is_shared.as_str() == "1" };
        let is_known = layout.shards.is_power_of_two() && layout.shards <= Self::MAX_SHARDS;
        (is_known && Self::SLOTS.contains(&layout.slots)).then_some(layout)
    }
}

/// The loaded program. Dropping it detaches and unloads it.
#[derive(Debug)]
pub struct BlockProbe {
    layout: BlockLayout,
    program: OwnedFd,
    histograms: SharedWords,
    devices: SlotTable,
    link: Option<OwnedFd>,
    /// By device; those that are counted
    tracked: FxHashMap<DiskId, TrackedDevice>,
    /// Requests that were counted when they were last read
    requests: u64,
}

#[derive(Debug)]
struct TrackedDevice {
    name: Name,
    slot: u32,
    operations: [CachedOperation; 4],
}

/// What was last read of an operation: it is read again when it has more requests.
#[derive(Debug, Default)]
struct CachedOperation {
    requests: u64,
    buckets: Vec<LatencyBucket>,
}

impl BlockProbe {
    /// Maps the memory of the program: of its descriptor and those of its two maps, as the loader sends them.
    pub fn new(layout: BlockLayout, descriptors: Vec<OwnedFd>) -> Result<BlockProbe, ProbeError> {
        let [program, histograms, devices] = <[OwnedFd; 3]>::try_from(descriptors).map_err(|_| ProbeError::Descriptors)?;
        Ok(BlockProbe {
            histograms: SharedWords::map(histograms.as_fd(), layout.histograms() as usize * HISTOGRAM_WORDS)?,
            devices: SlotTable::map_wide(devices.as_fd(), TABLE_PLACES, DEVICE_WORDS, layout.slots)?,
            program,
            link: None,
            tracked: FxHashMap::default(),
            requests: 0,
            layout,
        })
    }

    /// Begins to count, from 0.
    pub fn attach(&mut self) -> io::Result<()> {
        self.detach();
        for device in self.tracked.values_mut() {
            clear(&self.histograms, self.layout, device.slot);
            device.operations = Default::default();
        }
        self.requests = 0;
        self.link = Some(sys::bpf_raw_tracepoint_open(self.program.as_fd(), None)?);
        Ok(())
    }

    /// Stops counting; the requests of the machine cost nothing then.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Requests that were counted since it was attached, as last read.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// What was counted of these devices, which are sorted by id. One that appears is counted from now on.
    pub fn read(&mut self, disks: &[Disk]) -> Vec<LatencyBucket> {
        self.track(disks);
        let mut all = Vec::new();
        let mut requests = 0_u64;
        for disk in disks {
            let Some(device) = self.tracked.get_mut(&disk.id) else { continue };
            for (operation, cached) in OPERATIONS.into_iter().zip(&mut device.operations) {
                let shards = (0..self.layout.shards)
                    .map(|shard| histogram_at(self.layout, shard, device.slot, operation))
                    .collect::<Vec<_>>();
                let now = shards.iter().map(|&at| self.histograms.get(at)).fold(0, u64::wrapping_add);
                requests = requests.wrapping_add(now);
                if now != cached.requests {
                    cached.requests = now;
                    cached.buckets = read_buckets(&self.histograms, &shards, disk.id, operation);
                }
                all.extend_from_slice(&cached.buckets);
            }
        }
        self.requests = requests;
        all
    }

    /// Tells the program which devices to count.
    fn track(&mut self, disks: &[Disk]) {
        let is_same = |id: &DiskId, known: &TrackedDevice| {
            let found = disks.binary_search_by_key(id, |disk| disk.id).ok().and_then(|at| disks.get(at));
            found.is_some_and(|disk| disk.name == known.name)
        };
        let devices = &mut self.devices;
        self.tracked.retain(|id, known| {
            let kept = is_same(id, known);
            if !kept {
                devices.remove(device_number(*id));
            }
            kept
        });
        // The requests of a stacked device are those of the devices below it.
        for disk in disks.iter().filter(|disk| disk.facts.slaves.is_empty()) {
            if self.tracked.contains_key(&disk.id) {
                continue;
            }
            let number = device_number(disk.id);
            let (histograms, layout) = (&self.histograms, self.layout);
            let slot = devices.add(number, device_hash(number), |new| {
                // Slots that no device has had are not written: that would allocate their memory.
                if new.was_used {
                    clear(histograms, layout, new.slot);
                }
                new.fill(OPERATIONS.len(), NO_SECTOR);
            });
            if let Some(slot) = slot {
                self.tracked.insert(disk.id, TrackedDevice { name: disk.name.clone(), slot, operations: Default::default() });
            }
        }
    }
}

/// Sets all counts of a slot to 0.
fn clear(histograms: &SharedWords, layout: BlockLayout, slot: u32) {
    for shard in 0..layout.shards {
        for operation in OPERATIONS {
            let at = histogram_at(layout, shard, slot, operation);
            histograms.fill(at..at + HISTOGRAM_WORDS, 0);
        }
    }
}

/// The word with which the histograms of an operation begin.
fn histogram_at(layout: BlockLayout, shard: u32, slot: u32, operation: Operation) -> usize {
    let device = shard * layout.slots + slot;
    (device as usize * OPERATIONS.len() + operation as usize) * HISTOGRAM_WORDS
}

/// The buckets with requests, over all shards.
fn read_buckets(words: &SharedWords, shards: &[usize], disk: DiskId, operation: Operation) -> Vec<LatencyBucket> {
    let mut buckets = Vec::new();
    for bucket in 0..=u8::MAX {
        let sum = |column: usize| {
            let of_shard = |at: &usize| words.get(at + 1 + usize::from(bucket) * BUCKET_WORDS + column);
            shards.iter().map(of_shard).fold(0, u64::wrapping_add)
        };
        let [completed, sequential, queued, on_device] = [sum(0), sum(1), sum(2), sum(3)].map(Counter);
        if [completed, queued, on_device].iter().any(|count| count.0 > 0) {
            buckets.push(LatencyBucket { disk, operation, bucket, completed, sequential, queued, on_device });
        }
    }
    buckets
}
