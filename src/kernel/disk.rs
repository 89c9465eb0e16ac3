//! Reads block devices: the counters of each whole device from /proc/diskstats (`diskstats` parses a line), its facts from
//! sysfs and the mount table.

mod diskstats;
mod facts;
mod mount_points;
mod random_read;
mod sysfs;

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use diskstats::parse_in_flight;
pub use diskstats::{DiskstatsLine, parse_diskstats};
pub use facts::{is_partition_name, max_request_bytes};
use mount_points::MountPoints;
pub use random_read::RandomReader;

use super::mounts::MountTable;
use super::refresh_cycle::RefreshCycle;
use super::root::{FileHandle, Root};
use super::uevents::UeventWatcher;
use crate::ids::DiskId;
use crate::sample::disk::{Disk, DiskFacts, find_disk};
use crate::sample::{Absent, Name, Reading};
use crate::units::{Counter, SmallSort};

/// Facts are read again after this time even without a uevent, since the I/O scheduler may be switched; with hundreds of
/// devices, those of some devices in each sample.
const FACTS_TTL: Duration = Duration::from_secs(30);

/// Levels of stacked devices that are told apart. More are possible: a loop device on a file system on LVM on LUKS is of level 3.
const STACK_LEVELS: usize = 8;

/// Reads /proc/diskstats; keeps it open, and the facts of each device.
#[derive(Debug)]
pub struct DiskReader {
    file: FileHandle,
    buffer: Vec<u8>,
    mounts: MountTable,
    mount_points: MountPoints,
    known: FxHashMap<DiskId, KnownDevice>,
    refresh_cycle: RefreshCycle<DiskId>,
    uevent_watcher: UeventWatcher,
    /// How often /proc/diskstats was read
    read_count: u64,
    /// Requests in flight when it was last read
    in_flight: Option<u32>,
    /// Requests completed since boot at the last sample
    completed: u64,
    is_idle: bool,
}

/// A line of /proc/diskstats that has done I/O.
#[derive(Debug)]
struct KnownDevice {
    name: Name,
    /// `None` for a partition.
    facts: Option<Arc<DiskFacts>>,
    /// 0, or of a stacked device 1 more than the highest level of the devices below it
    stack_level: usize,
    /// Reads completed at the last reading. If they decrease, another device has taken the name and number.
    reads_completed: Counter,
    /// The last reading that had the device
    last_read_count: u64,
}

impl Default for DiskReader {
    fn default() -> DiskReader {
        DiskReader {
            file: FileHandle::new("proc/diskstats"),
            buffer: Vec::new(),
            mounts: MountTable::default(),
            mount_points: MountPoints::default(),
            known: FxHashMap::default(),
            refresh_cycle: RefreshCycle::with_period(FACTS_TTL),
            uevent_watcher: UeventWatcher::default(),
            read_count: 0,
            in_flight: None,
            completed: 0,
            is_idle: false,
        }
    }
}

impl DiskReader {
    /// The whole devices that have done I/O since boot or have requests in flight, sorted by id.
    pub fn sample(&mut self, root: &Root) -> Reading<Vec<Disk>> {
        self.refresh_facts(root);
        (self.in_flight, self.is_idle) = (None, false);
        self.file.read(root, &mut self.buffer)?;
        self.read_count += 1;
        let mut disks = Vec::with_capacity(self.known.len());
        let mut seen_any = false;
        let mut last_whole = None;
        for line in parse_diskstats(&self.buffer) {
            seen_any = true;
            if !line.has_done_io() {
                continue;
            }
            let known = match self.known.get_mut(&line.id) {
                Some(known) if known.name.as_bytes() == line.name && known.reads_completed <= line.reads.completed => known,
                _ => {
                    let known = identify_device(root, &line, last_whole, &self.mount_points);
                    self.known.entry(line.id).insert_entry(known).into_mut()
                }
            };
            (known.reads_completed, known.last_read_count) = (line.reads.completed, self.read_count);
            let Some(facts) = &known.facts else { continue };
            last_whole = Some(line.name);
            disks.push(line.into_disk(known.name.clone(), facts.clone()));
        }
        // The file is empty in a container that hides devices; a file with damaged lines alone is malformed.
        if !seen_any && !self.buffer.is_empty() {
            return Err(Absent::Malformed);
        }
        disks.small_sort_by_key(|disk| disk.id);
        disks.dedup_by_key(|disk| disk.id);
        self.update_stack_levels(&disks);
        let outstanding = self.sum_in_flight();
        let completed = disks.iter().map(completed_requests).fold(0, u64::wrapping_add);
        self.is_idle = outstanding == 0 && completed == std::mem::replace(&mut self.completed, completed);
        self.in_flight = Some(outstanding);
        Ok(disks)
    }

    /// Whether no device had a request in flight at the last sample or completed one since the sample before.
    pub fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Requests in flight at the last reading, of a sample or a sub-sample; `None` where it failed.
    pub fn last_in_flight(&self) -> Option<u32> {
        self.in_flight
    }

    /// Reads the requests in flight now, for sub-samples. Which devices are partitions is known from the last sample.
    ///
    /// A request to a stacked device (dm, md, loop) is in flight there and in the devices below it, or only in the stacked one while
    /// the mapper holds it back: the largest of the sums of each level is returned.
    pub fn in_flight(&mut self, root: &Root) -> Reading<u32> {
        self.in_flight = None;
        self.file.read(root, &mut self.buffer)?;
        let outstanding = self.sum_in_flight();
        self.in_flight = Some(outstanding);
        Ok(outstanding)
    }

    /// The requests in flight in the bytes that were last read.
    fn sum_in_flight(&self) -> u32 {
        let mut sums = [0_u32; STACK_LEVELS];
        for line in parse_in_flight(&self.buffer) {
            let known = self.known.get(&line.id);
            if known.is_some_and(|known| known.facts.is_none()) {
                continue;
            }
            if let Some(sum) = sums.get_mut(known.map_or(0, |known| known.stack_level)) {
                *sum = sum.saturating_add(line.in_flight);
            }
        }
        sums.into_iter().max().unwrap_or(0)
    }

    /// Sets the levels of the stacked devices among these. Facts are read at different times and may contain a circle.
    fn update_stack_levels(&mut self, disks: &[Disk]) {
        for disk in disks {
            let mut below = disk.facts.slaves.clone();
            let mut level = 0;
            while !below.is_empty() && level < STACK_LEVELS - 1 {
                level += 1;
                let slaves = below.iter().filter_map(|id| find_disk(disks, *id)).flat_map(|disk| &disk.facts.slaves);
                below = slaves.copied().collect();
                below.small_sort_by_key(|id| *id);
                below.dedup();
            }
            if let Some(known) = self.known.get_mut(&disk.id) {
                known.stack_level = level;
            }
        }
    }

    /// Reads the facts of the devices that are due. Facts that did not change keep their allocation, which samples share.
    fn refresh_facts(&mut self, root: &Root) {
        // Without a mount table the mount points are unknown; the rest is read nevertheless.
        let mounts_changed = self.mounts.refresh(root).unwrap_or(false);
        if self.refresh_cycle.is_due(self.uevent_watcher.has_new_event(root) || mounts_changed) {
            self.mount_points = MountPoints::read(root, self.mounts.mounts());
            self.known.retain(|_, known| known.last_read_count == self.read_count);
            self.refresh_cycle.start(self.known.iter().filter(|(_, known)| known.facts.is_some()).map(|(id, _)| *id));
        }
        for id in self.refresh_cycle.next_batch() {
            let Some(known) = self.known.get_mut(&id) else { continue };
            let Some(facts) = &mut known.facts else { continue };
            let now = facts::read(root, id, known.name.as_bytes(), &self.mount_points);
            if **facts != now {
                *facts = Arc::new(now);
            }
        }
    }
}

/// Completed requests of all operations since boot.
fn completed_requests(disk: &Disk) -> u64 {
    let discards = disk.discards.map_or(0, |discards| discards.completed.0);
    let flushes = disk.flushes.map_or(0, |flushes| flushes.0);
    [disk.reads.completed.0, disk.writes.completed.0, discards, flushes].into_iter().fold(0, u64::wrapping_add)
}

/// The whole device with this number, also without I/O since boot; `None` if there is none, or if it is a partition.
pub fn find_device(root: &Root, id: DiskId) -> Reading<Option<Disk>> {
    let bytes = root.read_once("proc/diskstats")?;
    let mut mounts = MountTable::default();
    // Without a mount table the mount points are unknown.
    let _ = mounts.refresh(root);
    let Some(line) = parse_diskstats(&bytes).find(|line| line.id == id) else { return Ok(None) };
    let known = identify_device(root, &line, None, &MountPoints::read(root, mounts.mounts()));
    Ok(known.facts.map(|facts| line.into_disk(known.name, facts)))
}

fn identify_device(root: &Root, line: &DiskstatsLine<'_>, last_whole: Option<&[u8]>, mounted: &MountPoints) -> KnownDevice {
    let whole = match facts::is_partition(root, line.name) {
        Some(partition) => !partition,
        // No sysfs: a partition's line follows its disk's and has the disk's name with a number behind it.
        None => !last_whole.is_some_and(|disk| facts::is_partition_name(line.name, disk)),
    };
    KnownDevice {
        name: Name::from(line.name),
        facts: whole.then(|| Arc::new(facts::read(root, line.id, line.name, mounted))),
        stack_level: 0,
        reads_completed: line.reads.completed,
        last_read_count: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc_tree::ProcTree;

    #[test]
    fn disks_are_idle_without_requests_in_flight_and_without_completions_since_the_last_sample() {
        let tree = ProcTree::empty();
        let root = tree.root();
        let mut disks = DiskReader::default();
        let mut sample = |reads: u32, flushes: u32, in_flight: u32| {
            let line = format!("8 0 sda {reads} 0 0 0 5 0 0 0 {in_flight} 0 0 1 0 0 0 {flushes} 0\n");
            tree.write("proc/diskstats", line);
            disks.sample(&root).unwrap();
            (disks.is_idle(), disks.last_in_flight())
        };
        assert_eq!(sample(7, 1, 0), (false, Some(0)), "there is no earlier sample to compare with");
        assert_eq!(sample(7, 1, 0), (true, Some(0)));
        assert_eq!(sample(8, 1, 0), (false, Some(0)));
        assert_eq!(sample(8, 2, 0), (false, Some(0)));
        assert_eq!(sample(8, 2, 3), (false, Some(3)));
        assert_eq!(sample(8, 2, 0), (true, Some(0)));
        tree.remove("proc/diskstats");
        let mut gone = DiskReader::default();
        assert!(gone.sample(&root).is_err());
        assert_eq!((gone.is_idle(), gone.last_in_flight()), (false, None));
    }

    #[test]
    fn a_request_in_flight_on_each_level_of_a_stack_is_one_request() {
        let line = |numbers: &str, name: &str, in_flight: u32| {
            format!("{numbers} {name} 9 0 0 0 5 0 0 0 {in_flight} 0 0 1 0 0 0 0 0\n")
        };
        let (tree, mut disks) = (ProcTree::empty(), DiskReader::default());
        // An LVM volume on LUKS on nvme0n1, and another on sda.
        for (name, number) in [("dm-1/slaves/dm-0", "252:0"), ("dm-0/slaves/nvme0n1", "259:0"), ("dm-2/slaves/sda", "8:0")] {
            tree.write(format!("sys/class/block/{name}/dev"), format!("{number}\n"));
        }
        let mut in_flight = |of_disks: [u32; 5]| {
            let [sda, dm0, dm1, dm2, nvme] = of_disks;
            let lines = [
                line("8 0", "sda", sda),
                line("252 0", "dm-0", dm0),
                line("252 1", "dm-1", dm1),
                line("252 2", "dm-2", dm2),
                line("259 0", "nvme0n1", nvme),
            ];
            tree.write("proc/diskstats", lines.concat());
            disks.sample(&tree.root()).unwrap();
            (disks.last_in_flight(), disks.in_flight(&tree.root()))
        };
        assert_eq!(in_flight([0, 5, 5, 0, 5]), (Some(5), Ok(5)));
        assert_eq!(in_flight([3, 5, 5, 3, 5]), (Some(8), Ok(8)));
        assert_eq!(in_flight([0, 0, 5, 4, 0]), (Some(5), Ok(5)), "held back by the mapper");
    }

    #[test]
    fn the_device_with_the_file_of_a_loop_device_is_below_it() {
        let line = |numbers: &str, name: &str| format!("{numbers} {name} 9 0 0 0 5 0 0 0 1 0 0 1 0 0 0 0 0\n");
        let lines = [line("7 0", "loop0"), line("7 1", "loop1"), line("8 0", "sda"), line("8 1", "sda1")].concat();
        let tree = ProcTree::with([
            ("proc/diskstats", lines.as_str()),
            ("proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /mnt/fuse rw - fuse.sshfs host: rw\n"),
            ("sys/class/block/loop0/loop/backing_file", "/images/a.img\n"),
            ("sys/class/block/loop1/loop/backing_file", "/mnt/fuse/b.img\n"),
            ("sys/class/block/sda/dev", "8:0\n"),
            ("sys/class/block/sda1/partition", "1\n"),
            ("sys/devices/sda/dev", "8:0\n"),
            ("sys/devices/sda/sda1/partition", "1\n"),
        ]);
        tree.link("../../devices/sda/sda1", "sys/dev/block/8:1");
        let mut disks = DiskReader::default();
        let sample = disks.sample(&tree.root()).unwrap();
        let below =
            |name: &str| sample.iter().find(|disk| disk.name.as_bytes() == name.as_bytes()).unwrap().facts.slaves.clone();
        assert_eq!(below("loop0"), [DiskId { major: 8, minor: 0 }], "the whole device");
        assert_eq!(below("loop1"), [], "a file of a server");
        assert_eq!(below("sda"), []);
        assert_eq!(disks.last_in_flight(), Some(2), "a request to loop0 is one of sda");
    }
}
