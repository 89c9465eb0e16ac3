//! Which file systems are asked how full they are, and by which of their mounts.

use std::path::Path;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::DiskId;
use crate::kernel::mounts::Mount;
use crate::units::SmallSort;

/// File systems that are asked: a host of containers has hundreds of tmpfs.
const MAX_FILE_SYSTEMS: usize = 256;

/// The mounts by which file systems are asked: of each one that of its whole, or else that with the shortest mount point. Those with a
/// block device come first.
pub fn asked_mounts(mounts: &[Mount]) -> Vec<&Mount> {
    let tree = MountTree::new(mounts);
    let mut candidates: Vec<&Mount> = mounts.iter().filter(|mount| is_asked(mount)).collect();
    candidates.small_sort_by_key(|mount| {
        (mount.device.major == 0, mount.fs_type == b"tmpfs", mount.subdirectory != b"/", mount.mount_point.as_os_str().len())
    });
    let mut found = FxHashSet::default();
    let mut asked = Vec::new();
    for mount in candidates {
        if asked.len() < MAX_FILE_SYSTEMS && !found.contains(&space_of(mount)) && tree.is_reachable(mount) {
            found.insert(space_of(mount));
            asked.push(mount);
        }
    }
    asked
}

/// What has the space of a file system: its device, or of ZFS the pool, which is the first part of the name of a data set.
fn space_of(mount: &Mount) -> (DiskId, &[u8]) {
    match mount.fs_type.as_slice() {
        b"zfs" => (DiskId { major: 0, minor: 0 }, mount.source.split(|byte| *byte == b'/').next().unwrap_or_default()),
        _ => (mount.device, b""),
    }
}

/// Whether it has room of its own, and is written to.
fn is_asked(mount: &Mount) -> bool {
    let has_room = match mount.fs_type.as_slice() {
        b"tmpfs" | b"btrfs" | b"bcachefs" | b"zfs" => true,
        b"overlay" => mount.mount_point == Path::new("/"),
        _ => is_on_block_device(mount),
    };
    has_room && mount.option(b"ro").is_none()
}

/// Whether it is on a device that this host alone writes to, without a program of its own.
fn is_on_block_device(mount: &Mount) -> bool {
    let is_shared = matches!(mount.fs_type.as_slice(), b"ocfs2" | b"gfs2");
    mount.device.major != 0 && !is_shared && !mount.fs_type.starts_with(b"fuse")
}

/// Whether a path through it needs no other host and no program. autofs is not among them: each access keeps what is mounted on it mounted.
fn answers_by_itself(mount: &Mount) -> bool {
    const IN_MEMORY: [&[u8]; 16] = [
        b"tmpfs",
        b"devtmpfs",
        b"ramfs",
        b"rootfs",
        b"proc",
        b"sysfs",
        b"cgroup",
        b"cgroup2",
        b"securityfs",
        b"debugfs",
        b"tracefs",
        b"overlay",
        b"btrfs",
        b"bcachefs",
        b"zfs",
        b"configfs",
    ];
    is_on_block_device(mount) || IN_MEMORY.contains(&mount.fs_type.as_slice())
}

/// Which mount is on which.
struct MountTree<'m> {
    by_id: FxHashMap<u32, &'m Mount>,
    by_parent: FxHashMap<u32, Vec<&'m Mount>>,
}

impl<'m> MountTree<'m> {
    fn new(mounts: &'m [Mount]) -> MountTree<'m> {
        let mut by_parent: FxHashMap<u32, Vec<&Mount>> = FxHashMap::default();
        mounts.iter().for_each(|mount| by_parent.entry(mount.parent).or_default().push(mount));
        MountTree { by_id: mounts.iter().map(|mount| (mount.id, mount)).collect(), by_parent }
    }

    /// Whether its mount point leads to it, and through no file system that may not answer.
    fn is_reachable(&self, mount: &Mount) -> bool {
        let mut chain = vec![mount.id];
        let mut next = self.by_id.get(&mount.parent);
        while let Some(parent) = next.filter(|parent| !chain.contains(&parent.id)) {
            if !answers_by_itself(parent) {
                return false;
            }
            chain.push(parent.id);
            next = self.by_id.get(&parent.parent);
        }
        let is_above = |other: &&Mount| !chain.contains(&other.id) && mount.mount_point.starts_with(&other.mount_point);
        let on_chain = chain.iter().filter_map(|id| self.by_parent.get(id)).flatten();
        !on_chain.copied().any(|other| is_above(&other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::mounts::parse_mountinfo;

    fn asked(table: &str) -> Vec<String> {
        let mounts = parse_mountinfo(table.as_bytes());
        asked_mounts(&mounts).iter().map(|mount| mount.mount_point.display().to_string()).collect()
    }

    #[test]
    fn file_systems_on_devices_of_this_host_are_asked_once() {
        let host = asked(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
             2 1 8:1 /srv /srv rw - ext4 /dev/sda1 rw\n\
             3 1 8:2 / /data rw - xfs /dev/sda2 rw\n\
             4 3 8:2 / /data/again rw - xfs /dev/sda2 rw\n\
             5 1 0:30 /sub /home rw - btrfs /dev/sda3 rw\n\
             6 1 0:31 / /run rw - tmpfs tmpfs rw,size=1024k\n\
             7 1 7:0 / /snap/core rw - squashfs /dev/loop0 ro\n\
             8 1 0:40 / /mnt/nfs rw - nfs4 host:/x rw\n\
             9 1 8:9 / /mnt/ntfs rw - fuseblk /dev/sda9 rw\n\
             10 1 0:50 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw\n\
             11 1 0:5 / /proc rw - proc proc rw\n\
             14 1 0:60 / /tank rw - zfs tank rw\n\
             15 14 0:61 / /tank/db rw - zfs tank/db rw\n\
             16 1 8:10 / /cluster rw - ocfs2 /dev/sdb rw\n",
        );
        assert_eq!(host, ["/", "/data", "/tank", "/home", "/run"]);
        assert_eq!(asked("1 0 0:50 / / rw - overlay overlay rw\n"), ["/"], "a container");
    }

    #[test]
    fn those_to_which_no_path_leads_or_only_one_that_may_not_return_are_not_asked() {
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
        let with = |rest: &str| asked(&format!("{root}{rest}"));
        assert_eq!(with("2 1 0:40 / /n rw - nfs4 host:/x rw\n3 2 8:2 / /n/disk rw - ext4 /dev/sdb rw\n"), ["/"]);
        assert_eq!(with("2 1 0:41 / /boot rw - autofs systemd-1 rw\n3 2 8:2 / /boot rw - vfat /dev/sdb rw\n"), ["/"]);
        let (disk, above) = ("2 1 8:2 / /m/a rw - ext4 /dev/sdb rw\n", "3 1 0:42 / /m rw - tmpfs tmpfs rw\n");
        assert_eq!(
            (with(disk), with(&format!("{disk}{above}"))),
            (vec!["/".into(), "/m/a".into()], vec!["/".into(), "/m".into()])
        );
        let covered = "2 1 8:2 / /m rw - ext4 /dev/sdb rw\n3 2 0:42 / /m rw - tmpfs tmpfs rw\n";
        assert_eq!(with(covered), ["/", "/m"]);
        let mounts = parse_mountinfo(format!("{root}{covered}").as_bytes());
        assert_eq!(asked_mounts(&mounts).iter().map(|mount| mount.id).collect::<Vec<_>>(), [1, 3]);
        let many: String = (10..400).map(|id| format!("{id} 1 0:{id} / /run/{id} rw - tmpfs tmpfs rw\n")).collect();
        let asked = asked(&format!("{many}{root}"));
        assert_eq!((asked.len(), asked[0].as_str()), (MAX_FILE_SYSTEMS, "/"));
    }
}
