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
use crate::sample::block_latencies::LatencyBucket;
use crate::sample::disk::{Disk, Operation};
use crate::sample::histogram_bucket::HistogramBucket;
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
const HISTOGRAM_WORDS: usize = 1 + u8::COUNT * BUCKET_WORDS;
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
    program: OwnedFd,
    histograms: Histograms,
    devices: SlotTable,
    link: Option<OwnedFd>,
    /// By device; those that are counted
    tracked: FxHashMap<DiskId, TrackedDevice>,
    /// Requests that were counted, also of devices that are gone, when they were last read
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
            histograms: Histograms::map(layout, histograms)?,
            devices: SlotTable::map_wide(devices.as_fd(), TABLE_PLACES, DEVICE_WORDS, layout.slots)?,
            program,
            link: None,
            tracked: FxHashMap::default(),
            requests: 0,
        })
    }

    /// Attaches the program, which then counts.
    pub fn attach(&mut self) -> io::Result<()> {
        if self.link.is_none() {
            self.link = Some(sys::bpf_raw_tracepoint_open(self.program.as_fd(), None)?);
        }
        Ok(())
    }

    /// Stops counting; the requests of the machine cost nothing then.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// Requests that were counted since it was first attached, as last read.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// What was counted of these devices, which are sorted by id. One that appears is counted from now on.
    pub fn read(&mut self, disks: &[Disk]) -> Vec<LatencyBucket> {
        self.track(disks);
        let mut all = Vec::new();
        for disk in disks {
            let Some(device) = self.tracked.get_mut(&disk.id) else { continue };
            for (operation, cached) in OPERATIONS.into_iter().zip(&mut device.operations) {
                let now = self.histograms.sum(device.slot, operation, 0);
                if now != cached.requests {
                    self.requests = self.requests.wrapping_add(now.wrapping_sub(cached.requests));
                    cached.requests = now;
                    cached.buckets = read_buckets(&self.histograms, device.slot, disk.id, operation);
                }
                all.extend_from_slice(&cached.buckets);
            }
        }
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
        // The requests of a stacked device are those of the devices below it; a loop device has requests of its own. There may be
        // more loop devices than slots.
        let is_loop = |disk: &&Disk| disk.facts.backing_file.is_some();
        let others = disks.iter().filter(|disk| !is_loop(disk) && disk.facts.slaves.is_empty());
        for disk in others.chain(disks.iter().filter(is_loop)) {
            if self.tracked.contains_key(&disk.id) {
                continue;
            }
            let number = device_number(disk.id);
            let histograms = &self.histograms;
            let slot = devices.add(number, device_hash(number), |new| {
                // Slots that no device has had are 0.
                if new.was_used {
                    histograms.clear(new.slot);
                }
                new.fill(OPERATIONS.len(), NO_SECTOR);
            });
            // What cannot be mapped is tried again with the next sample.
            if let Some(slot) = slot
                && self.histograms.map_up_to(slot).is_ok()
            {
                self.tracked.insert(disk.id, TrackedDevice { name: disk.name.clone(), slot, operations: Default::default() });
            }
        }
    }
}

/// The counts of all shards. Slots that no device has had are not mapped: they would be resident.
#[derive(Debug)]
struct Histograms {
    layout: BlockLayout,
    map: OwnedFd,
    /// By shard, up to the same slot
    shards: Vec<SharedWords>,
    mapped_slots: u32,
}

impl Histograms {
    /// With the first slot.
    fn map(layout: BlockLayout, map: OwnedFd) -> nix::Result<Histograms> {
        let mut histograms = Histograms { layout, map, shards: Vec::new(), mapped_slots: 0 };
        histograms.map_up_to(0)?;
        Ok(histograms)
    }

    /// Maps the slots up to this one.
    fn map_up_to(&mut self, slot: u32) -> nix::Result<()> {
        if slot < self.mapped_slots {
            return Ok(());
        }
        let places = |shard| self.place(shard, 0, Operation::Read)..self.place(shard, slot + 1, Operation::Read);
        let mapped = (0..self.layout.shards).map(|shard| SharedWords::map_part(self.map.as_fd(), places(shard)));
        self.shards = mapped.collect::<nix::Result<Vec<_>>>()?;
        self.mapped_slots = slot + 1;
        Ok(())
    }

    /// The word with which the histogram of an operation begins.
    fn place(&self, shard: u32, slot: u32, operation: Operation) -> usize {
        let device = shard * self.layout.slots + slot;
        (device as usize * OPERATIONS.len() + operation as usize) * HISTOGRAM_WORDS
    }

    /// Sets all counts of a slot to 0.
    fn clear(&self, slot: u32) {
        for (shard, words) in (0..).zip(&self.shards) {
            words.fill(self.place(shard, slot, Operation::Read)..self.place(shard, slot + 1, Operation::Read), 0);
        }
    }

    /// One word of a histogram, over all shards.
    fn sum(&self, slot: u32, operation: Operation, word: usize) -> u64 {
        let of_shard = |(shard, words): (u32, &SharedWords)| words.get(self.place(shard, slot, operation) + word);
        (0..).zip(&self.shards).map(of_shard).fold(0, u64::wrapping_add)
    }
}

/// The buckets with requests, over all shards.
fn read_buckets(histograms: &Histograms, slot: u32, disk: DiskId, operation: Operation) -> Vec<LatencyBucket> {
    let mut buckets = Vec::new();
    for bucket in 0..=u8::MAX {
        let sum = |column: usize| histograms.sum(slot, operation, 1 + usize::from(bucket) * BUCKET_WORDS + column);
        let [completed, sequential, queued, on_device] = [sum(0), sum(1), sum(2), sum(3)].map(Counter);
        if [completed, queued, on_device].iter().any(|count| count.0 > 0) {
            buckets.push(LatencyBucket { disk, operation, bucket, completed, sequential, queued, on_device });
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sample::disk::DiskFacts;
    use crate::synthetic;

    const LAYOUT: BlockLayout = BlockLayout { shards: 1, slots: 8, is_shared: false };

    /// A probe on files, and all counts.
    fn probe() -> (BlockProbe, SharedWords) {
        let file = |words: usize| {
            let file = tempfile::tempfile().unwrap();
            file.set_len((words * 8) as u64).unwrap();
            file
        };
        let words = LAYOUT.histograms() as usize * HISTOGRAM_WORDS;
        let histograms = file(words);
        let counts = SharedWords::map(histograms.as_fd(), words).unwrap();
        let descriptors = [file(1), histograms, file(TABLE_PLACES * DEVICE_WORDS)].map(OwnedFd::from);
        (BlockProbe::new(LAYOUT, Vec::from(descriptors)).unwrap(), counts)
    }

    fn disk(major: u32, minor: u32, backing_file: Option<Name>) -> Disk {
        synthetic::disk("disk").id(major, minor).facts(DiskFacts { backing_file, ..DiskFacts::default() }).build()
    }

    #[test]
    fn disks_have_slots_before_loop_devices() {
        let (mut probe, counts) = probe();
        let loops = (0..LAYOUT.slots).map(|minor| disk(7, minor, Some("/a.img".into())));
        let disks: Vec<Disk> = loops.chain([disk(8, 0, None), disk(259, 0, None)]).collect();
        probe.read(&disks);
        counts.fill(0..counts.len(), 1);
        let counted: BTreeSet<DiskId> = probe.read(&disks).iter().map(|bucket| bucket.disk).collect();
        let expected = disks.iter().map(|disk| disk.id).filter(|id| id.major != 7 || id.minor < LAYOUT.slots - 2);
        assert_eq!(counted, expected.collect());
    }

    #[test]
    fn the_number_of_requests_does_not_fall_when_a_device_is_removed() {
        let (mut probe, counts) = probe();
        let disks = [disk(8, 0, None), disk(8, 16, None)];
        probe.read(&disks);
        counts.fill(0..counts.len(), 100);
        probe.read(&disks);
        let both = probe.requests();
        assert_eq!(both, 2 * 4 * 100);
        let [first, _] = disks;
        probe.read(&[first]);
        assert_eq!(probe.requests(), both);
        // The slot of the removed device is cleared for the next one.
        probe.read(&[disk(8, 0, None), disk(8, 32, None)]);
        assert_eq!(probe.requests(), both);
    }

    #[test]
    fn counts_of_slots_are_mapped_when_devices_need_them() {
        let layout = BlockLayout { shards: 2, slots: 8, is_shared: false };
        let words = layout.histograms() as usize * HISTOGRAM_WORDS;
        let file = tempfile::tempfile().unwrap();
        file.set_len((words * 8) as u64).unwrap();
        let all = SharedWords::map(file.as_fd(), words).unwrap();
        let mut histograms = Histograms::map(layout, OwnedFd::from(file)).unwrap();
        for (slot, count) in [(0, 1), (1, 5), (5, 10)] {
            (0..2).for_each(|shard| all.set(histograms.place(shard, slot, Operation::Flush) + 3, count + u64::from(shard)));
        }
        let sums = |histograms: &Histograms| [0, 1, 5].map(|slot| histograms.sum(slot, Operation::Flush, 3));
        assert_eq!(sums(&histograms), [1 + 2, 0, 0], "the others are not mapped");
        histograms.map_up_to(5).unwrap();
        assert_eq!(sums(&histograms), [1 + 2, 5 + 6, 10 + 11]);
        histograms.clear(0);
        assert_eq!(sums(&histograms), [0, 5 + 6, 10 + 11]);
    }
}
