//! How full file systems of this host are: statfs, on a thread of its own, since the call may not return where a device does not answer.
//!
//! File systems of servers (NFS, SMB) and of FUSE are not asked.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use nix::sys::statvfs::{Statvfs, statvfs};
use rustc_hash::FxHashSet;

use super::reading::{ReadScope, is_near};
use crate::ids::DiskId;
use crate::kernel::mounts::{Mount, MountTable};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::limits::{Limit, LimitKind};

/// File systems that are asked: a host of containers has hundreds of tmpfs.
const MAX_FILE_SYSTEMS: usize = 256;
/// A smaller one is made for one purpose, and full by design.
const MIN_KILOBYTES: u64 = 1024;
/// What was read is too old to be shown: the thread waits for a file system that does not answer.
const MAX_AGE_NS: u64 = 15_000_000_000;
/// The stack of the thread.
const STACK_BYTES: usize = 128 << 10;

/// The sampler's side of the thread, which is blocked while there is nothing to read, and ends with the sampler. Of one that waits for a
/// file system nothing is asked any more.
#[derive(Debug, Default)]
pub struct FileSystemReader {
    thread: Option<StatfsThread>,
    /// As last read
    rows: Vec<Limit>,
    read_ns: u64,
}

#[derive(Debug)]
struct StatfsThread {
    requests: SyncSender<()>,
    answers: Receiver<Vec<Limit>>,
}

impl FileSystemReader {
    /// `now_ns`: CLOCK_BOOTTIME. What is asked for in one sample is in the next one.
    pub fn sample(&mut self, root: &Root, scope: ReadScope, now_ns: u64, rows: &mut Vec<Limit>) {
        let thread = self.thread.get_or_insert_with(|| StatfsThread::start(root.clone()));
        if let Ok(read) = thread.answers.try_recv() {
            (self.rows, self.read_ns) = (read, now_ns);
        }
        if scope == ReadScope::All {
            // Refused while the last request waits.
            let _ = thread.requests.try_send(());
        }
        if now_ns.saturating_sub(self.read_ns) > MAX_AGE_NS {
            self.rows.clear();
        }
        rows.extend_from_slice(&self.rows);
    }
}

impl StatfsThread {
    /// Without a thread no file system has a limit.
    fn start(root: Root) -> StatfsThread {
        let (requests, work) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let body = move || {
            let mut table = MountTable::default();
            while let Ok(()) = work.recv() {
                // Without the table as it is now no mount point is known.
                let rows = table.refresh(&root).map(|_| read_all(table.mounts())).unwrap_or_default();
                if sender.send(rows).is_err() {
                    return;
                }
            }
        };
        drop(Builder::new().name("file-systems".to_owned()).stack_size(STACK_BYTES).spawn(body));
        StatfsThread { requests, answers }
    }
}

fn read_all(mounts: &[Mount]) -> Vec<Limit> {
    let asked = asked_mounts(mounts).into_iter().take(MAX_FILE_SYSTEMS);
    asked
        .filter_map(|mount| Some((mount, statvfs(&mount.mount_point).ok()?)))
        .flat_map(|(mount, read)| limits(mount, &read))
        .collect()
}

/// One mount of each file system that is asked: the whole one, or else that with the shortest mount point.
fn asked_mounts(mounts: &[Mount]) -> Vec<&Mount> {
    let mut covered = FxHashSet::default();
    let mut found: BTreeMap<(DiskId, &[u8]), &Mount> = BTreeMap::new();
    // Of several mounts at one place the last one covers the others.
    for mount in mounts.iter().rev().filter(|mount| covered.insert(mount.mount_point.as_path())).filter(|mount| is_asked(mount))
    {
        let order = |mount: &Mount| (mount.subdirectory != b"/", mount.mount_point.as_os_str().len());
        let best = found.entry(space_of(mount)).or_insert(mount);
        if order(mount) < order(best) {
            *best = mount;
        }
    }
    found.into_values().collect()
}

/// What has the space of a file system: its device, or of ZFS the pool, which is the first part of the name of a data set.
fn space_of(mount: &Mount) -> (DiskId, &[u8]) {
    match mount.fs_type.as_slice() {
        b"zfs" => (DiskId { major: 0, minor: 0 }, mount.source.split(|byte| *byte == b'/').next().unwrap_or_default()),
        _ => (mount.device, b""),
    }
}

/// Whether it is on a device of this host or in its memory, and is written to.
fn is_asked(mount: &Mount) -> bool {
    let is_local = match mount.fs_type.as_slice() {
        b"tmpfs" | b"btrfs" | b"bcachefs" | b"zfs" => true,
        // That of a container.
        b"overlay" => mount.mount_point == Path::new("/"),
        kind => mount.device.major != 0 && !kind.starts_with(b"fuse"),
    };
    is_local && mount.option(b"ro").is_none()
}

/// Its limits of which a sample keeps the use.
fn limits(mount: &Mount, read: &Statvfs) -> Vec<Limit> {
    let name = Name::from(mount.mount_point.as_os_str().as_encoded_bytes());
    let [blocks, free, available] = [read.blocks(), read.blocks_free(), read.blocks_available()].map(u128::from);
    let [files, free_files] = [read.files(), read.files_free()].map(u128::from);
    let limit = |kind, used: u128, max: u128| {
        let [used, max] = [used, max].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        Limit { mount_point: Some(name.clone()), ..Limit::new(kind, used, max) }
    };
    let kilobytes = |blocks: u128| blocks * u128::from(read.fragment_size()) / 1024;
    let used = blocks.saturating_sub(free);
    let space = limit(LimitKind::FileSystemSpace, kilobytes(used), kilobytes(used + available));
    // A file system that makes inodes as it needs them has 0.
    let inodes = limit(LimitKind::FileSystemInodes, files.saturating_sub(free_files), files);
    let is_kept = |limit: &Limit| limit.max > 0 && is_near(limit);
    let is_large = space.max >= MIN_KILOBYTES;
    [space, inodes].into_iter().filter(|limit| is_large && is_kept(limit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mounts::parse_mountinfo;

    #[test]
    fn file_systems_on_devices_of_this_host_are_asked_once() {
        let mounts = parse_mountinfo(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 8:1 /srv /srv rw - ext4 /dev/sda1 rw\n\
              3 1 8:2 / /data rw - xfs /dev/sda2 rw\n\
              4 1 8:2 / /data/again rw - xfs /dev/sda2 rw\n\
              5 1 0:30 /sub /home rw - btrfs /dev/sda3 rw\n\
              6 1 0:31 / /run rw - tmpfs tmpfs rw,size=1024k\n\
              7 1 7:0 / /snap/core rw - squashfs /dev/loop0 ro\n\
              8 1 0:40 / /mnt/nfs rw - nfs4 host:/x rw\n\
              9 1 8:9 / /mnt/ntfs rw - fuseblk /dev/sda9 rw\n\
              10 1 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n\
              11 1 0:5 / /proc rw - proc proc rw\n\
              12 1 8:3 / /covered rw - ext4 /dev/sda4 rw\n\
              13 1 0:32 / /covered rw - tmpfs tmpfs rw\n\
              14 1 0:60 / /tank rw - zfs tank rw\n\
              15 1 0:61 / /tank/db rw - zfs tank/db rw\n",
        );
        let asked: Vec<&str> = asked_mounts(&mounts).iter().map(|mount| mount.mount_point.to_str().unwrap()).collect();
        assert_eq!(asked, ["/tank", "/home", "/run", "/covered", "/", "/data"]);
        let container =
            parse_mountinfo(b"1 0 0:50 / / rw - overlay overlay rw\n2 1 8:1 /var/x/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n");
        assert_eq!(asked_mounts(&container).len(), 2);
    }

    #[test]
    fn what_is_read_is_in_the_next_sample_and_goes_when_nothing_is_read_any_more() {
        let (requests, work) = sync_channel(1);
        let (sender, answers) = sync_channel(1);
        let mut reader = FileSystemReader { thread: Some(StatfsThread { requests, answers }), ..FileSystemReader::default() };
        let mut rows_at = |seconds: u64, scope| {
            let mut rows = Vec::new();
            reader.sample(&Root::host(), scope, seconds * 1_000_000_000, &mut rows);
            rows.len()
        };
        assert_eq!(rows_at(1000, ReadScope::All), 0);
        work.recv().unwrap();
        sender.send(vec![Limit::new(LimitKind::FileSystemSpace, 1, 1)]).unwrap();
        assert_eq!([rows_at(1001, ReadScope::Near), rows_at(1002, ReadScope::Near)], [1, 1]);
        assert_eq!([rows_at(1005, ReadScope::All), rows_at(1010, ReadScope::All), rows_at(1016, ReadScope::Near)], [1, 1, 1]);
        assert_eq!(work.try_iter().count(), 1, "a request waits");
        assert_eq!(rows_at(1017, ReadScope::Near), 0, "no answer for 15 s");
    }
}
