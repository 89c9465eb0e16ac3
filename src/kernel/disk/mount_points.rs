//! Mount points by block device, from the mount table.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::sysfs::{parse_device_number, sysfs_directory};
use crate::ids::DiskId;
use crate::kernel::mounts::{Mount, innermost};
use crate::kernel::root::Root;
use crate::sample::Name;

/// Mount points kept for each device: containers can have hundreds of bind mounts.
const MAX_MOUNT_POINTS: usize = 32;

/// The mount table by block device.
#[derive(Debug, Default)]
pub struct MountPoints {
    /// Sorted by device
    points: Vec<(DiskId, MountPoint)>,
    /// All mounts in the order of the table; `None`: without a block device
    all: Vec<(PathBuf, Option<DiskId>)>,
}

/// A mount point. Whole file systems are sorted before their subdirectories.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MountPoint {
    is_subdirectory: bool,
    path: Name,
}

impl MountPoints {
    /// Finds the block device of each mount.
    pub fn read(root: &Root, mounts: &[Mount]) -> MountPoints {
        let all: Vec<(PathBuf, Option<DiskId>)> =
            mounts.iter().map(|mount| (mount.mount_point.clone(), device_of_mount(root, mount))).collect();
        let point = |(mount, (path, device)): (&Mount, &(PathBuf, Option<DiskId>))| {
            let name = Name::from(path.as_os_str().as_bytes());
            Some(((*device)?, MountPoint { is_subdirectory: mount.subdirectory != b"/", path: name }))
        };
        let mut points: Vec<(DiskId, MountPoint)> = mounts.iter().zip(&all).filter_map(point).collect();
        points.sort_unstable();
        MountPoints { points, all }
    }

    /// The block device, or its partition, with the file of this path; `None` if there is none: a server, FUSE, memory.
    pub fn device_of_file(&self, path: &Path) -> Option<DiskId> {
        innermost(&self.all, |(point, _)| point, path).and_then(|(_, device)| *device)
    }

    /// The mount points of these devices.
    pub fn of_devices(&self, devices: impl Iterator<Item = DiskId>) -> Vec<Name> {
        let mut found: Vec<&MountPoint> = Vec::new();
        for device in devices {
            let first = self.points.partition_point(|(other, _)| *other < device);
            let those = self.points.iter().skip(first).take_while(|(other, _)| *other == device);
            found.extend(those.map(|(_, point)| point));
        }
        found.sort_unstable();
        found.dedup_by(|one, other| one.path == other.path);
        found.truncate(MAX_MOUNT_POINTS);
        found.into_iter().map(|point| point.path.clone()).collect()
    }
}

/// The block device of a mount. A file system over several devices (btrfs) has a number of its own: then the source counts.
fn device_of_mount(root: &Root, mount: &Mount) -> Option<DiskId> {
    if mount.device.major != 0 {
        return Some(mount.device);
    }
    let name = mount.source.strip_prefix(b"/dev/")?;
    // The source can be any text (`fsname=` of a FUSE file system): it must not lead out of /dev, into a file system that
    // does not respond.
    let mut parts = name.split(|byte| *byte == b'/');
    let sound = parts.clone().count() <= 2 && parts.all(|part| !matches!(part, b"" | b"." | b".."));
    if !sound {
        return None;
    }
    read_device_number(root, name).or_else(|| resolve_device_node(root, Path::new(OsStr::from_bytes(&mount.source))))
}

/// Resolves /dev/mapper/NAME and /dev/GROUP/NAME, links to /dev/dm-N, which only the running machine has. The link is read
/// and not followed.
fn resolve_device_node(root: &Root, path: &Path) -> Option<DiskId> {
    if !root.is_host() {
        return None;
    }
    if let Ok(target) = root.read_link(path) {
        return read_device_number(root, target.file_name()?.as_bytes());
    }
    let device = std::fs::symlink_metadata(root.path(path)).ok()?.rdev();
    (device != 0).then(|| DiskId { major: libc::major(device), minor: libc::minor(device) })
}

fn read_device_number(root: &Root, name: &[u8]) -> Option<DiskId> {
    parse_device_number(&root.read_once(sysfs_directory(name).join("dev")).ok()?)
}
