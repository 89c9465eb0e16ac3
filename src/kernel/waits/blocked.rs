//! What a blocked thread waits for: the file that its call's descriptor names, and the disk that file is on.
//!
//! Everything here is text that the kernel makes up from memory. No path is ever opened or asked about: on a dead file
//! system that would hang the monitor, too.

use std::os::unix::ffi::OsStrExt;

use rustc_hash::FxHashMap;

use crate::ids::DiskId;
use crate::kernel::disk::is_named_as_partition_of;
use crate::kernel::mounts;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::sample::waits::{BlockedThread, Call};

/// Fills in file and disk of each, as far as this user may see them.
pub fn describe(blocked: &mut [BlockedThread], root: &Root, files: &mut TaskFiles, machine: &[u8], disks: &[Disk]) {
    let mut mounts = MountDisks { disks, seen: FxHashMap::default() };
    for thread in blocked {
        let pid = thread.task.pid;
        let call = thread.call.and_then(|call| Call::from_number(machine, call));
        let Some(descriptor) = call.and_then(Call::descriptor) else { continue };
        let Ok(target) = files.link(format_args!("{pid}/fd/{descriptor}")) else { continue };
        let target = target.as_bytes();
        thread.disk = match target.strip_prefix(b"/dev/") {
            Some(name) => mounts.named(name),
            None => mount_id(files, pid, descriptor).and_then(|mount| mounts.below(root, pid, mount)),
        };
        thread.file = Some(Name::from(target));
    }
}

/// From mount id to disk. Ids are unique among all mount namespaces, so that one process's table serves others.
struct MountDisks<'a> {
    disks: &'a [Disk],
    seen: FxHashMap<u32, Option<DiskId>>,
}

impl MountDisks<'_> {
    fn below(&mut self, root: &Root, pid: u32, mount: u32) -> Option<DiskId> {
        if let Some(&disk) = self.seen.get(&mount) {
            return disk;
        }
        if let Ok(text) = root.read_once(format!("proc/{pid}/mountinfo")) {
            for found in mounts::parse(&text) {
                let disk = self.whole(found.device).or_else(|| self.named(found.source.strip_prefix(b"/dev/")?));
                self.seen.insert(found.id, disk);
            }
        }
        *self.seen.entry(mount).or_insert(None)
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
