//! What a blocked thread waits for: the file that its call's descriptor names, and the disk that file is on.
//!
//! Everything here is text that the kernel makes up from memory. No path is ever opened or asked about: on a dead file
//! system that would hang the monitor, too.

use std::os::unix::ffi::OsStrExt;

use rustc_hash::FxHashMap;

use crate::ids::DiskId;
use crate::kernel::root::Root;
use crate::kernel::task::files::TaskFiles;
use crate::sample::Name;
use crate::sample::disk::Disk;
use crate::sample::waits::{BlockedThread, Call};

/// Fills in file and disk of each, as far as this user may see them.
pub fn describe(blocked: &mut [BlockedThread], root: &Root, files: &mut TaskFiles, machine: &[u8], disks: &[Disk]) {
    let mut mounts = Mounts { disks, seen: FxHashMap::default() };
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
struct Mounts<'a> {
    disks: &'a [Disk],
    seen: FxHashMap<u64, Option<DiskId>>,
}

impl Mounts<'_> {
    fn below(&mut self, root: &Root, pid: u32, mount: u64) -> Option<DiskId> {
        if let Some(&disk) = self.seen.get(&mount) {
            return disk;
        }
        if let Ok(text) = root.read_once(format!("proc/{pid}/mountinfo")) {
            for (id, device, source) in text.split(|&byte| byte == b'\n').filter_map(mount_line) {
                let disk = self.whole(device).or_else(|| self.named(source.strip_prefix(b"/dev/")?));
                self.seen.insert(id, disk);
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
        whole.or_else(|| self.disks.iter().find(|disk| is_partition(name, disk.name.as_bytes()))).map(|disk| disk.id)
    }
}

fn is_partition(name: &[u8], disk: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = if disk.last().is_some_and(u8::is_ascii_digit) { rest.strip_prefix(b"p") } else { Some(rest) };
    number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

/// The line `mnt_id:` of fdinfo.
fn mount_id(files: &mut TaskFiles, pid: u32, descriptor: u64) -> Option<u64> {
    let text = files.once(format_args!("{pid}/fdinfo/{descriptor}")).ok()?;
    let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"mnt_id:"))?;
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// Mount id, device and source of a line of mountinfo.
fn mount_line(line: &[u8]) -> Option<(u64, DiskId, &[u8])> {
    let mut words = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(words.nth(1)?).ok()?.split_once(':')?;
    let device = DiskId { major: major.parse().ok()?, minor: minor.parse().ok()? };
    // Optional fields end with a lone `-`; then kind and source.
    words.find(|&word| word == b"-")?;
    Some((id, device, words.nth(1)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        assert_eq!(mount_line(line), Some((36, DiskId { major: 98, minor: 0 }, &b"/dev/root"[..])));
        let bare = b"22 27 0:20 / /proc rw,relatime - proc proc rw";
        assert_eq!(mount_line(bare), Some((22, DiskId { major: 0, minor: 20 }, &b"proc"[..])));
        assert_eq!(mount_line(b""), None);
        assert_eq!(mount_line(b"36 35 98:0 /mnt1 /mnt2 rw"), None);
    }

    #[test]
    fn partitions_by_name() {
        assert!(is_partition(b"sda1", b"sda") && is_partition(b"nvme0n1p2", b"nvme0n1") && is_partition(b"loop0p1", b"loop0"));
        assert!(!is_partition(b"sdaa", b"sda") && !is_partition(b"loop01", b"loop0") && !is_partition(b"sda", b"sda"));
    }
}
