//! Operations of mounted file systems, by the eBPF programs of assets/probe/file_systems.bpf.c, which count in memory that this
//! process shares with them. This process tells them which file systems there are, and reads what they have counted.
//!
//! Nothing is pinned: the programs are detached and unloaded when this process ends, however it ends.

mod system_calls;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustc_hash::FxHashSet;

use super::loader_process::{Loaded, LoaderProcess, ProbeProgram};
use super::map_words::{device_hash, device_number};
use super::probe_error::ProbeError;
use super::slot_table::{NewSlot, SlotTable};
use crate::ids::DiskId;
use crate::kernel::mounts::{Mount, MountTable, innermost};
use crate::kernel::root::Root;
use crate::kernel::sys::SharedWords;
use crate::sample::file_systems::{FileSystem, FileSystems, Flow, MissingCounts};
use crate::sample::{Instant, Name, Reading};
use crate::units::Counter;

/// How large the maps are, and which tasks are counted: the loader sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemsLayout {
    /// CPUs count in the shard with their number modulo this, a power of two
    pub shards: u32,
    /// Several CPUs count in one shard, with atomic additions
    pub is_shared: bool,
    pub filter: TaskFilter,
}

/// Whose operations are counted; by default all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Of this process, by its number in the initial pid namespace
    pub pid: Option<u32>,
    /// Of tasks with this real uid, of the initial user namespace
    pub uid: Option<u32>,
}

/// File systems that are counted at most
pub const SLOTS: u32 = 256;
/// `TABLE_PLACES` in file_systems.bpf.c
const TABLE_PLACES: usize = 1024;
/// `PATH_BYTES` in file_systems.bpf.c
pub const PATH_BYTES: usize = 128;
/// `struct counts`, in words of 64 bits
const COUNTS_WORDS: usize = 32;
const FLOW_WORDS: usize = 3;
const OTHERS_AT: usize = 8 * FLOW_WORDS;

pub use system_calls::{SYSTEM_CALLS, argument_layouts};

impl FileSystemsLayout {
    const MAX_SHARDS: u32 = 16;

    /// For a machine with CPUs up to this number.
    pub fn new(possible_cpus: u32, filter: TaskFilter) -> FileSystemsLayout {
        FileSystemsLayout {
            shards: possible_cpus.clamp(1, Self::MAX_SHARDS).next_power_of_two(),
            is_shared: possible_cpus > Self::MAX_SHARDS,
            filter,
        }
    }

    /// Entries of the map `counts`.
    pub fn counts(self) -> u32 {
        self.shards * SLOTS
    }

    /// For the command line of the loader.
    pub fn to_words(self) -> [String; 4] {
        let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let is_shared = u32::from(self.is_shared).to_string();
        [self.shards.to_string(), is_shared, number(self.filter.pid), number(self.filter.uid)]
    }

    /// The inverse of `to_words`; `None` for anything else.
    pub fn from_words(words: &[String]) -> Option<FileSystemsLayout> {
        let [shards, is_shared, pid, uid] = words else { return None };
        let number = |word: &String| if word == "-" { Some(None) } else { word.parse().ok().map(Some) };
        let filter = TaskFilter { pid: number(pid)?, uid: number(uid)? };
        let shards: u32 = shards.parse().ok()?;
        let is_known = shards.is_power_of_two() && shards <= Self::MAX_SHARDS;
        is_known.then_some(FileSystemsLayout { shards, is_shared: is_shared == "1", filter })
    }
}

/// The attached programs. Dropping it detaches and unloads them.
#[derive(Debug)]
pub struct FileSystemsProbe {
    layout: FileSystemsLayout,
    counts: SharedWords,
    slots: SlotTable,
    /// Of the programs with their tracepoints
    _links: Vec<OwnedFd>,
    /// Tracepoints that this kernel lacks: what they report is not counted
    missing: Vec<String>,
    /// What the kernel refused, and why
    refused: Vec<(String, String)>,
    mounts: MountTable,
    /// The only file system that is counted
    only: Option<DiskId>,
    /// File systems for which there was no place
    uncounted: usize,
}

impl FileSystemsProbe {
    /// Loads and attaches the programs, which takes a third of a second, and waits for that. `program`: the path of stalltop, run
    /// again as the loader. With `only`, one file system is counted.
    pub fn attach(
        program: &Path,
        layout: FileSystemsLayout,
        mounts: MountTable,
        only: Option<DiskId>,
    ) -> Result<FileSystemsProbe, ProbeError> {
        let Loaded { descriptors, missing, refused, .. } = LoaderProcess::load(program, ProbeProgram::FileSystems(layout))?;
        let mut descriptors = descriptors.into_iter();
        let (Some(counts), Some(places)) = (descriptors.next(), descriptors.next()) else {
            return Err(ProbeError::Descriptors);
        };
        Ok(FileSystemsProbe {
            layout,
            counts: SharedWords::map(counts.as_fd(), layout.counts() as usize * COUNTS_WORDS)?,
            slots: SlotTable::map(places.as_fd(), TABLE_PLACES, SLOTS)?,
            _links: descriptors.collect(),
            missing,
            refused,
            mounts,
            only,
            uncounted: 0,
        })
    }

    /// Tracepoints that this kernel lacks.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// What the kernel refused, and why: a program by its tracepoint, whose events are not counted, or `mount_points`, without which calls
    /// on paths count at the file system above.
    pub fn refused(&self) -> &[(String, String)] {
        &self.refused
    }

    fn missing_counts(&self) -> MissingCounts {
        let lacks = |name: &str| {
            self.missing.iter().chain(self.refused.iter().map(|(refused, _)| refused)).any(|missing| missing == name)
        };
        MissingCounts {
            page_reads: lacks("mm_filemap_add_to_page_cache"),
            // The loader lists both names of a tracepoint, or none.
            page_writes: lacks("writeback_dirty_folio") || lacks("writeback_dirty_page"),
            io_uring: lacks("io_uring_submit_req") || lacks("io_uring_submit_sqe") || lacks("io_uring_complete"),
        }
    }

    /// File systems that are not counted at the last reading, because there was no place for them.
    pub fn uncounted(&self) -> usize {
        self.uncounted
    }

    /// What was counted. A file system that was mounted since is counted from now on.
    pub fn read(&mut self, root: &Root, now: impl FnOnce() -> Instant) -> Reading<FileSystems> {
        self.mounts.refresh(root)?;
        let shown = shown_mounts(self.mounts.mounts(), self.only);
        let mounted: FxHashSet<u32> = shown.iter().map(|mount| device_number(mount.device)).collect();
        self.slots.retain(|number| mounted.contains(&number));
        self.uncounted = 0;
        let (counts, shards) = (&self.counts, self.layout.shards);
        // What another file system has counted there.
        let clear = |new: NewSlot| {
            for shard in 0..shards {
                let at = (shard * SLOTS + new.slot) as usize * COUNTS_WORDS;
                counts.fill(at..at + COUNTS_WORDS, 0);
            }
        };
        for mount in &shown {
            let number = device_number(mount.device);
            self.uncounted += usize::from(self.slots.add(number, device_hash(number), clear).is_none());
        }
        let at = now();
        let file_systems =
            shown.iter().filter_map(|mount| Some(self.counts_of(mount, self.slots.slot(device_number(mount.device))?)));
        Ok(FileSystems { at, missing: self.missing_counts(), file_systems: file_systems.collect() })
    }

    fn counts_of(&self, mount: &Mount, slot: u32) -> FileSystem {
        let word = |at: usize| {
            let of_shard = |shard: u32| self.counts.get((shard * SLOTS + slot) as usize * COUNTS_WORDS + at);
            Counter((0..self.layout.shards).map(of_shard).fold(0, u64::wrapping_add))
        };
        let flow = |pattern: usize, direction: usize| {
            let at = (pattern * 2 + direction) * FLOW_WORDS;
            Flow { operations: word(at), bytes: word(at + 1), time_ns: word(at + 2) }
        };
        FileSystem {
            device: mount.device,
            mount_point: Name::from(mount.mount_point.as_os_str().as_bytes()),
            fs_type: Name::from(mount.fs_type.as_slice()),
            source: Name::from(mount.source.as_slice()),
            flows: [0, 1, 2].map(|pattern| [flow(pattern, 0), flow(pattern, 1)]),
            others: [0, 1, 2, 3, 4].map(|other| word(OTHERS_AT + other)),
        }
    }
}

/// Interfaces to the kernel, with no files that are stored.
const KERNEL_INTERFACES: [&[u8]; 16] = [
    b"proc",
    b"sysfs",
    b"cgroup",
    b"cgroup2",
    b"devpts",
    b"securityfs",
    b"debugfs",
    b"tracefs",
    b"bpf",
    b"pstore",
    b"efivarfs",
    b"mqueue",
    b"configfs",
    b"fusectl",
    b"binfmt_misc",
    b"nsfs",
];

/// One mount of each file system: the first that shows all of it, or else the first. Without `only`, those with stored files.
fn shown_mounts(mounts: &[Mount], only: Option<DiskId>) -> Vec<Mount> {
    let is_wanted = |mount: &&Mount| match only {
        Some(device) => mount.device == device,
        None => !KERNEL_INTERFACES.contains(&mount.fs_type.as_slice()),
    };
    let mut shown: Vec<Mount> = Vec::new();
    for mount in mounts.iter().filter(is_wanted) {
        match shown.iter_mut().find(|known| known.device == mount.device) {
            Some(known) if known.subdirectory != b"/" && mount.subdirectory == b"/" => *known = mount.clone(),
            Some(_) => {}
            None => shown.push(mount.clone()),
        }
    }
    shown
}

/// Mount points for the map `mount_points`.
#[derive(Debug, Default)]
pub struct MountPoints {
    /// Each with a slash at its end, padded with zeros, and its length in bits and device, in the order of the mounts. Without those that
    /// another one covers.
    pub points: Vec<([u8; PATH_BYTES], u32, u32)>,
    /// Those that are left out, since their paths are too long
    pub too_long: usize,
}

pub fn mount_points(mounts: &[Mount]) -> MountPoints {
    let mut all = MountPoints::default();
    for mount in mounts {
        let mut path = mount.mount_point.as_os_str().as_bytes().to_vec();
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        let mut padded = [0; PATH_BYTES];
        let Some(place) = padded.get_mut(..path.len()) else {
            all.too_long += 1;
            continue;
        };
        place.copy_from_slice(&path);
        all.points.retain(|(known, ..)| *known != padded);
        all.points.push((padded, path.len() as u32 * 8, device_number(mount.device)));
    }
    all
}

/// The root directory of the mount table, by which the program knows tasks with the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootMount {
    /// As the kernel has it in `s_dev`
    pub device: u32,
    /// It is the root of its file system.
    pub is_whole: bool,
}

/// `None` if the table does not have it, as in a chroot.
pub fn root_mount(mounts: &[Mount]) -> Option<RootMount> {
    let root = mounts.iter().rev().find(|mount| mount.mount_point == Path::new("/"))?;
    Some(RootMount { device: device_number(root.device), is_whole: root.subdirectory == b"/" })
}

/// The file system that a directory is in, by the mount table alone: a file system that does not answer is not asked.
pub fn device_at(mounts: &[Mount], directory: &Path) -> Option<DiskId> {
    innermost(mounts, |mount| &mount.mount_point, directory).map(|mount| mount.device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mounts::parse_mountinfo;

    fn mounts() -> Vec<Mount> {
        parse_mountinfo(
            b"1 0 254:0 / / rw - ext4 /dev/vda rw\n2 1 0:22 / /proc rw - proc proc rw\n3 1 0:30 /a /srv/a rw - btrfs /dev/vdb rw\n\
              4 1 0:30 / /srv rw - btrfs /dev/vdb rw\n5 1 0:40 / /srv rw - tmpfs none rw\n6 1 254:0 /var /mnt rw - ext4 /dev/vda rw\n",
        )
    }

    #[test]
    fn a_file_system_is_shown_once_by_the_mount_of_all_of_it() {
        let all = shown_mounts(&mounts(), None);
        let points: Vec<_> = all.iter().map(|mount| mount.mount_point.to_string_lossy()).collect();
        assert_eq!(points, ["/", "/srv", "/srv"]);
        let only = shown_mounts(&mounts(), Some(DiskId { major: 0, minor: 22 }));
        assert_eq!(only.len(), 1);
    }

    #[test]
    fn mount_points_are_without_covered_and_long_ones() {
        let mut mounts = mounts();
        let long = Path::new("/").join("x".repeat(PATH_BYTES));
        mounts.push(Mount { mount_point: long, ..mounts[0].clone() });
        let all = mount_points(&mounts);
        let paths: Vec<_> = all.points.iter().map(|(path, bits, _)| &path[..*bits as usize / 8]).collect();
        assert_eq!((paths, all.too_long), (vec![&b"/"[..], b"/proc/", b"/srv/a/", b"/srv/", b"/mnt/"], 1));
        assert_eq!(root_mount(&mounts), Some(RootMount { device: 254 << 20, is_whole: true }));
        assert_eq!(root_mount(&mounts[1..]), None);
    }

    #[test]
    fn a_directory_is_in_the_last_mount_at_the_longest_path() {
        let at = |path: &str| device_at(&mounts(), Path::new(path)).map(|device| device.minor);
        assert_eq!([at("/srv/x"), at("/srv/a/b"), at("/srvx"), at("/proc/1")], [Some(40), Some(30), Some(0), Some(22)]);
    }

    #[test]
    fn the_layout_is_read_from_its_words() {
        let filter = TaskFilter { pid: Some(7), uid: Some(0) };
        for layout in [FileSystemsLayout::new(6, filter), FileSystemsLayout::new(300, TaskFilter::default())] {
            assert_eq!(FileSystemsLayout::from_words(&layout.to_words()), Some(layout));
        }
        assert_eq!((FileSystemsLayout::new(6, filter).shards, FileSystemsLayout::new(300, filter).is_shared), (8, true));
        for wrong in [["3", "0", "-", "-"], ["32", "0", "-", "-"], ["2", "0", "x", "-"]] {
            assert_eq!(FileSystemsLayout::from_words(&wrong.map(str::to_owned)), None, "{wrong:?}");
        }
    }
}
