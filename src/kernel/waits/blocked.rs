//! What a blocked thread waits for: the file that its call's descriptor names, and the disk that file is on.
//!
//! Everything here is text that the kernel makes up from memory. No path is ever opened or asked about: on a dead file
//! system that would hang the monitor, too.

use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustc_hash::FxHashMap;

use super::{Drained, locks, peers, remote};
use crate::ids::DiskId;
use crate::kernel::disk::is_named_as_partition_of;
use crate::kernel::mounts;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::sample::task::{SystemCall, Tasks};
use crate::sample::waits::{Call, QueueKind, Waits};

/// Fills in file, mount and disk of each thread, file and holder of each queue, as far as this user may see them.
pub fn describe(
    drained: Drained,
    root: &Root,
    files: &mut TaskFiles,
    machine: &[u8],
    (disks, tasks): (&[Disk], Option<&Tasks>),
) -> Waits {
    let Drained { mut waits, waiters, peers } = drained;
    let mut mounts = MountDisks { disks, seen: FxHashMap::default() };
    for thread in &mut waits.blocked {
        let pid = thread.task.pid;
        let Some((descriptor, target)) = file_of(thread.call, pid, files, machine) else { continue };
        let place = match target.strip_prefix(b"/dev/") {
            Some(name) => MountPlace { disk: mounts.named(name), point: None },
            None => mount_id(files, pid, descriptor).map(|mount| mounts.below(root, pid, mount)).unwrap_or_default(),
        };
        (thread.disk, thread.mount) = (place.disk, place.point);
        thread.file = Some(Name::from(target.as_slice()));
    }
    let mut file_locks = None;
    for (queue, waiter) in waits.queues.iter_mut().zip(&waiters) {
        if !matches!(queue.kind, QueueKind::FileLock | QueueKind::KernelLock) {
            continue;
        }
        let pid = waiter.task.pid;
        queue.file = file_of(waiter.call, pid, files, machine).map(|(_, target)| Name::from(target.as_slice()));
        if queue.kind == QueueKind::FileLock {
            queue.holder = file_locks.get_or_insert_with(|| locks::holders(root)).get(&pid).copied();
        }
    }
    if !peers.is_empty() {
        peers::trace(&mut waits, &peers, tasks, root, files, machine);
        remote::trace(&mut waits, &peers, root, files, machine);
    }
    waits
}

/// The descriptor that a call is about, and where it leads.
fn file_of(call: Option<SystemCall>, pid: u32, files: &mut TaskFiles, machine: &[u8]) -> Option<(u64, Vec<u8>)> {
    let descriptor = Call::from_number(machine, call?)?.descriptor()?;
    let target = files.link(format_args!("{pid}/fd/{descriptor}")).ok()?;
    Some((descriptor, target.into_vec()))
}

/// Where a mount is and what it stands on.
#[derive(Clone, Debug, Default)]
struct MountPlace {
    disk: Option<DiskId>,
    point: Option<Name>,
}

/// From mount id to disk. Ids are unique among all mount namespaces, so that one process's table serves others.
struct MountDisks<'a> {
    disks: &'a [Disk],
    seen: FxHashMap<u32, MountPlace>,
}

impl MountDisks<'_> {
    fn below(&mut self, root: &Root, pid: u32, mount: u32) -> MountPlace {
        if let Some(place) = self.seen.get(&mount) {
            return place.clone();
        }
        if let Ok(text) = root.read_once(format!("proc/{pid}/mountinfo")) {
            for found in mounts::parse(&text) {
                let disk = self.whole(found.device).or_else(|| self.named(found.source.strip_prefix(b"/dev/")?));
                let point = Some(Name::from(found.mount_point.as_os_str().as_bytes()));
                self.seen.insert(found.id, MountPlace { disk, point });
            }
        }
        self.seen.entry(mount).or_default().clone()
    }

    fn whole(&self, device: DiskId) -> Option<DiskId> {
        let disk = self.disks.iter().find(|disk| disk.id == device || disk.facts.partitions.contains(&device))?;
        Some(disk.id)
    }

    /// The disk or the partition of that name; a partition's is its disk's with a number, and a `p` between digits.
    fn named(&self, name: &[u8]) -> Option<DiskId> {
        let whole = self.disks.iter().find(|disk| disk.name.as_bytes() == name);
        whole
            .or_else(|| self.disks.iter().find(|disk| is_named_as_partition_of(name, disk.name.as_bytes())))
            .map(|disk| disk.id)
    }
}

/// The line `mnt_id:` of fdinfo.
fn mount_id(files: &mut TaskFiles, pid: u32, descriptor: u64) -> Option<u32> {
    let text = files.once(format_args!("{pid}/fdinfo/{descriptor}")).ok()?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}
