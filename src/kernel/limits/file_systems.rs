//! Space and inodes of mounted file systems (statvfs). A thread of its own reads them: a lookup of a mount point may wait for a device
//! or for another host.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use nix::sys::statvfs::statvfs;

use super::reading::{Extent, is_near};
use crate::kernel::mounts::{Mount, MountTable};
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::limits::{Limit, LimitKind};

/// File systems of one device or memory. Others ask a server, or are read-only.
const FS_TYPES: [&[u8]; 8] = [b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"f2fs", b"zfs", b"tmpfs"];
/// File systems that are read.
const MAX_FILE_SYSTEMS: usize = 64;
/// What is older is not reported: the thread does not answer.
const MAX_AGE_NS: u64 = 60_000_000_000;
const STACK_BYTES: usize = 128 << 10;

/// Keeps the table of mounts, the thread and what it read.
#[derive(Debug, Default)]
pub struct FileSystemReader {
    mounts: MountTable,
    mount_points: Vec<PathBuf>,
    thread: Option<StatThread>,
    rows: Vec<Limit>,
    received_ns: u64,
}

impl FileSystemReader {
    /// Adds the limits that are near as the thread last read them, and asks for new ones.
    pub fn sample(&mut self, root: &Root, extent: Extent, now_ns: u64, rows: &mut Vec<Limit>) {
        if extent == Extent::All {
            if self.mounts.refresh(root).unwrap_or(false) {
                self.mount_points = local_mount_points(self.mounts.mounts());
            }
            self.thread.get_or_insert_with(StatThread::start).request(&self.mount_points);
        }
        if let Some(answer) = self.thread.as_ref().and_then(StatThread::receive) {
            (self.rows, self.received_ns) = (answer, now_ns);
        }
        if now_ns.saturating_sub(self.received_ns) <= MAX_AGE_NS {
            rows.extend_from_slice(&self.rows);
        }
    }
}

/// Where local file systems that can be written to are mounted, each one once, at its shortest mount point.
fn local_mount_points(mounts: &[Mount]) -> Vec<PathBuf> {
    let mut local: Vec<&Mount> = mounts
        .iter()
        .filter(|mount| {
            let is_root_overlay = mount.fs_type == b"overlay" && mount.mount_point.as_os_str() == "/";
            let is_local = FS_TYPES.contains(&mount.fs_type.as_slice()) || is_root_overlay;
            is_local && mount.option(b"ro").is_none()
        })
        .collect();
    local.sort_by_key(|mount| (mount.mount_point.as_os_str().len(), mount.id));
    let mut found: Vec<&Mount> = Vec::new();
    for mount in local {
        // Each subvolume of btrfs has a device number of its own.
        let is_same = |other: &&Mount| {
            other.device == mount.device || (other.source == mount.source && mount.source.starts_with(b"/dev/"))
        };
        if found.len() < MAX_FILE_SYSTEMS && !found.iter().any(is_same) {
            found.push(mount);
        }
    }
    found.into_iter().map(|mount| mount.mount_point.clone()).collect()
}

/// The sampler's side of the thread. It ends with the sampler.
#[derive(Debug)]
struct StatThread {
    requests: SyncSender<Vec<PathBuf>>,
    answers: Receiver<Vec<Limit>>,
}

impl StatThread {
    /// Starts it. Without a thread nothing is known.
    fn start() -> StatThread {
        let (requests, work) = sync_channel::<Vec<PathBuf>>(1);
        let (sender, answers) = sync_channel(1);
        let body = move || {
            while let Ok(mount_points) = work.recv() {
                let rows = mount_points.iter().flat_map(read_limits).filter(is_near).collect();
                if sender.send(rows).is_err() {
                    return;
                }
            }
        };
        // The receiver of the requests is dropped with the closure: then each request is refused.
        drop(Builder::new().name("statvfs".to_owned()).stack_size(STACK_BYTES).spawn(body));
        StatThread { requests, answers }
    }

    /// Not accepted while the thread is blocked.
    fn request(&self, mount_points: &[PathBuf]) {
        let _ = self.requests.try_send(mount_points.to_vec());
    }

    fn receive(&self) -> Option<Vec<Limit>> {
        self.answers.try_recv().ok()
    }
}

/// The space of a file system, as df(1) computes it: without the blocks that are reserved for root, and its inodes.
fn read_limits(mount_point: &PathBuf) -> Vec<Limit> {
    let Ok(stat) = statvfs(mount_point) else { return Vec::new() };
    let bytes = |blocks: u64| blocks.saturating_mul(stat.fragment_size());
    let used_blocks = stat.blocks().saturating_sub(stat.blocks_free());
    let (used, available) = (bytes(used_blocks), bytes(stat.blocks_available()));
    let used_inodes = stat.files().saturating_sub(stat.files_free());
    let place = Name::from(mount_point.as_os_str().as_bytes());
    // A limit of 0 is none: tmpfs without a size, btrfs without a table of inodes.
    let space = (stat.blocks() > 0).then(|| Limit::new(LimitKind::FileSystemSpace, used, used.saturating_add(available)));
    let inodes = (stat.files() > 0).then(|| Limit::new(LimitKind::FileSystemInodes, used_inodes, stat.files()));
    let at = |limit: Limit| Limit { mount_point: Some(place.clone()), ..limit };
    space.into_iter().chain(inodes).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mounts::parse_mountinfo;

    #[test]
    fn local_file_systems_are_read_once_each() {
        let mounts = parse_mountinfo(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 8:1 /home/a /srv/a rw - ext4 /dev/sda1 rw\n\
            3 1 0:40 / /data rw - btrfs /dev/sdb rw,space_cache\n\
            4 1 0:41 /sub /data/sub rw - btrfs /dev/sdb rw,space_cache\n\
            5 1 0:50 / /mnt/nfs rw - nfs4 host:/ rw\n\
            6 1 0:51 / /mnt/fuse rw - fuse.sshfs host: rw\n\
            7 1 7:0 / /snap/x ro - squashfs /dev/loop0 ro\n\
            8 1 8:2 / /old rw - xfs /dev/sda2 ro\n\
            9 1 0:60 / /dev/shm rw - tmpfs tmpfs rw\n\
            10 1 0:61 / /tmp rw - tmpfs tmpfs rw\n\
            11 1 0:62 / /var/lib/docker/overlay2/a/merged rw - overlay overlay rw\n",
        );
        let found: Vec<String> = local_mount_points(&mounts).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(found, ["/", "/tmp", "/data", "/dev/shm"]);
    }

    #[test]
    fn space_and_inodes_of_a_directory_are_those_of_its_file_system() {
        let folder = tempfile::tempdir().unwrap();
        let rows = read_limits(&folder.path().to_owned());
        let space = rows.iter().find(|limit| limit.kind == LimitKind::FileSystemSpace).unwrap();
        assert!(space.used <= space.max && space.max > 0);
        assert_eq!(space.mount_point, Some(Name::from(folder.path().as_os_str().as_bytes())));
        assert_eq!(read_limits(&folder.path().join("none")), []);
    }
}
