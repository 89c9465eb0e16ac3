//! Blocked threads: counts their sightings by wait, selects those that a sample keeps, and reads the file of the system call's
//! descriptor, its mount and its disk.
//!
//! The kernel formats all of this from memory. No path is opened or looked up, since on a hung file system that would hang the monitor.

use std::cmp::Reverse;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustc_hash::FxHashMap;

use super::wait_queues::Waiter;
use super::{IntervalWaits, core_dumps, file_locks, full_pipes, ipc_peers, pipelines, remote_waits, server_sockets, tracers};
use crate::ids::{CgroupId, DiskId};
use crate::kernel::disk::is_partition_name;
use crate::kernel::mounts;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::sample::task::{RawSyscall, Tasks};
use crate::sample::waits::{BlockedWait, MAX_BLOCKED_THREADS, Syscall, WaitClass, Waits};
use crate::units::SmallSort;

/// Waits kept of one thread; a new one replaces the one that was seen least.
const MAX_WAITS_PER_THREAD: usize = 8;
/// Number of threads of each group that are kept first: those seen on storage most often, since the wait chain ends at one of them.
const STORAGE_THREADS_PER_GROUP: usize = 4;

/// A wait of a blocked thread with its class, by which threads are selected.
#[derive(Debug)]
pub(super) struct ClassifiedWait {
    pub class: WaitClass,
    pub wait: BlockedWait,
}

/// Adds one sighting to the waits of a thread.
pub(super) fn record(waits: &mut Vec<ClassifiedWait>, seen: ClassifiedWait) {
    let call = |wait: &BlockedWait| wait.syscall.map(|call| (call.number, call.arguments[0]));
    let is_same = |known: &&mut ClassifiedWait| {
        let (known, seen) = (&known.wait, &seen.wait);
        (known.state, &known.wchan) == (seen.state, &seen.wchan) && call(known) == call(seen)
    };
    if let Some(same) = waits.iter_mut().find(is_same) {
        let seen_count = same.wait.seen_count.saturating_add(1);
        *same = ClassifiedWait { class: seen.class, wait: BlockedWait { seen_count, ..seen.wait } };
        return;
    }
    if waits.len() >= MAX_WAITS_PER_THREAD {
        let least =
            (0..waits.len()).min_by_key(|&at| waits.get(at).map(|known| (known.wait.seen_count, known.wait.last_sub_sample)));
        waits.swap_remove(least.unwrap_or(0));
    }
    waits.push(seen);
}

/// The waits of at most `MAX_BLOCKED_THREADS` threads, sorted by task: of each group some that were seen on storage most often, then
/// those that have been in their wait longest. This decides only whose files are read and what is kept.
pub(super) fn select_threads(mut threads: Vec<Vec<ClassifiedWait>>) -> Vec<BlockedWait> {
    if threads.len() > MAX_BLOCKED_THREADS {
        let on_storage = |waits: &[ClassifiedWait]| {
            let on_storage = waits.iter().filter(|known| known.class == WaitClass::Disk);
            on_storage.map(|known| u32::from(known.wait.seen_count)).sum::<u32>()
        };
        let first = |waits: &[ClassifiedWait]| waits.first().map(|known| (known.wait.group, known.wait.task));
        threads.small_sort_by_key(|waits| (Reverse(on_storage(waits)), first(waits)));
        let mut of_group: FxHashMap<Option<u16>, usize> = FxHashMap::default();
        threads.sort_by_cached_key(|waits| {
            let rank = of_group.entry(first(waits).map(|(group, _)| group)).or_default();
            *rank += 1;
            let since_ns = waits.iter().map(|known| known.wait.blocked_since_ns).max();
            (on_storage(waits) == 0 || *rank > STORAGE_THREADS_PER_GROUP, since_ns, first(waits))
        });
        threads.truncate(MAX_BLOCKED_THREADS);
    }
    let mut waits: Vec<BlockedWait> = threads.into_iter().flatten().map(|known| known.wait).collect();
    waits.small_sort_by_key(|wait| (wait.task, wait.last_sub_sample));
    waits
}

/// What else the sample contains.
#[derive(Clone, Copy)]
pub struct SampleReadings<'a> {
    pub disks: &'a [Disk],
    pub tasks: Option<&'a Tasks>,
    /// Cgroups that their CPU quota throttles
    pub throttled: &'a [&'a CgroupId],
}

/// Fills in file, mount and disk of each wait, file and holder of each queue, as far as this user may see them.
pub fn resolve_files(
    interval_waits: IntervalWaits,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
    known: SampleReadings,
) -> Waits {
    let SampleReadings { disks, tasks, throttled } = known;
    let IntervalWaits { mut waits, waiters, ipc_threads } = interval_waits;
    let mut mounts = MountDisks { disks, has_own_mounts: false, cache: FxHashMap::default() };
    let owners = waits.lock_owners.iter_mut().map(|row| &mut row.owner);
    let kernel_owners = waits.kernel_lock_owners.iter_mut().map(|row| &mut row.owner);
    for thread in waits.blocked.iter_mut().chain(owners).chain(kernel_owners) {
        let pid = thread.task.pid;
        let Some((descriptor, target)) = read_call_file(thread.syscall, pid, files, machine) else { continue };
        let place = match target.strip_prefix(b"/dev/") {
            Some(name) => MountLocation { disk: mounts.disk_by_name(name), ..MountLocation::default() },
            None => read_mount_id(files, pid, descriptor).map(|mount| mounts.locate(root, pid, mount)).unwrap_or_default(),
        };
        (thread.disk, thread.mount, thread.file_system) = (place.disk, place.mount_point, place.file_system);
        thread.file = Some(Name::from(target.as_slice()));
    }
    tracers::read_tracers(&mut waits, files);
    core_dumps::read_core_dumps(&mut waits, files);
    let mut file_locks = None;
    for (queue, waiter) in waits.wait_queues.iter_mut().zip(&waiters) {
        let Some(Waiter { pid, syscall, in_file_lock }) = *waiter else { continue };
        queue.file = read_call_file(syscall, pid, files, machine).map(|(_, target)| Name::from(target.as_slice()));
        if in_file_lock {
            queue.lock_holder = file_locks.get_or_insert_with(|| file_locks::read_lock_holders(root)).get(&pid).copied();
        }
    }
    if !ipc_threads.is_empty() {
        ipc_peers::trace_ipc_peers(&mut waits, &ipc_threads, tasks, root, files, machine);
        pipelines::trace_pipes(&mut waits, &ipc_threads, root, files);
    }
    remote_waits::read_connections(&mut waits, &ipc_threads, root, files, machine);
    full_pipes::trace_full_pipes(&mut waits, tasks, root, files, machine);
    server_sockets::read_server_sockets(&mut waits, (tasks, throttled), root, files, machine);
    waits
}

/// The descriptor of a system call, and the file it leads to (/proc/PID/fd).
fn read_call_file(call: Option<RawSyscall>, pid: u32, files: &mut TaskFiles, machine: &[u8]) -> Option<(u64, Vec<u8>)> {
    let descriptor = Syscall::from_number(machine, call?)?.file_descriptor()?;
    let target = files.read_link(format_args!("{pid}/fd/{descriptor}")).ok()?;
    Some((descriptor, target.into_vec()))
}

/// Where a file system is mounted, its disk and its type.
#[derive(Clone, Debug, Default)]
struct MountLocation {
    disk: Option<DiskId>,
    mount_point: Option<Name>,
    file_system: Option<Name>,
}

/// From mount id to disk. Mount ids are unique across mount namespaces, so that the table of one process serves for others.
struct MountDisks<'a> {
    disks: &'a [Disk],
    /// The mounts of stalltop's own mount namespace were read.
    has_own_mounts: bool,
    cache: FxHashMap<u32, MountLocation>,
}

impl MountDisks<'_> {
    fn locate(&mut self, root: &Root, pid: u32, mount: u32) -> MountLocation {
        if let Some(place) = self.cache.get(&mount) {
            return place.clone();
        }
        // As stalltop sees it, as it does the path of the file; in another mount namespace as that process sees it.
        if !std::mem::replace(&mut self.has_own_mounts, true) {
            self.read_table(root, "proc/self/mountinfo");
        }
        if !self.cache.contains_key(&mount) {
            self.read_table(root, &format!("proc/{pid}/mountinfo"));
        }
        self.cache.entry(mount).or_default().clone()
    }

    fn read_table(&mut self, root: &Root, table: &str) {
        let Ok(text) = root.read_once(table) else { return };
        for found in mounts::parse_mountinfo(&text) {
            let disk = self.whole_disk(found.device).or_else(|| self.disk_by_name(found.source.strip_prefix(b"/dev/")?));
            let point = Some(Name::from(found.mount_point.as_os_str().as_bytes()));
            let file_system = Some(Name::from(found.fs_type.as_slice()));
            self.cache.entry(found.id).or_insert(MountLocation { disk, mount_point: point, file_system });
        }
    }

    fn whole_disk(&self, device: DiskId) -> Option<DiskId> {
        let disk = self.disks.iter().find(|disk| disk.id == device || disk.facts.partitions.contains(&device))?;
        Some(disk.id)
    }

    /// The disk with that name, or with a partition of that name.
    fn disk_by_name(&self, name: &[u8]) -> Option<DiskId> {
        let whole = self.disks.iter().find(|disk| disk.name.as_bytes() == name);
        whole.or_else(|| self.disks.iter().find(|disk| is_partition_name(name, disk.name.as_bytes()))).map(|disk| disk.id)
    }
}

/// The line `mnt_id:` of fdinfo.
fn read_mount_id(files: &mut TaskFiles, pid: u32, descriptor: u64) -> Option<u32> {
    let text = files.read_once(format_args!("{pid}/fdinfo/{descriptor}")).ok()?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}
