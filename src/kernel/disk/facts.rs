//! What a block device is, from sysfs and the mount table. Read when it appears and again after a while.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::ids::DiskId;
use crate::kernel::fields::{lines, number, small_number, sole_number, sole_text};
use crate::kernel::mounts::Mount;
use crate::kernel::root::Root;
use crate::sample::Name;
use crate::sample::disk::DiskFacts;

/// Bind mounts of containers can be hundreds: more than these are not named.
const MOST_MOUNTS: usize = 32;

/// Everything that can be found out about a whole device.
pub fn read(root: &Root, id: DiskId, name: &[u8], mounts: &[Mount]) -> DiskFacts {
    let device = directory(name);
    let bytes = |file: &str| root.read_once(device.join(file)).ok();
    let text = |file: &str| bytes(file).as_deref().and_then(sole_text);
    let partitions = partitions(root, &device, name);
    let mut whose = vec![id];
    whose.extend(&partitions);
    DiskFacts {
        rotational: bytes("queue/rotational").as_deref().and_then(sole_number).map(|value| value != 0),
        scheduler: bytes("queue/scheduler").as_deref().and_then(chosen),
        model: text("device/model"),
        serial: ["device/serial", "serial", "wwid", "device/wwid", "dm/uuid", "md/uuid"].into_iter().find_map(text),
        size_bytes: bytes("size").as_deref().and_then(sole_number).and_then(|sectors| sectors.checked_mul(512)),
        backing_file: text("loop/backing_file"),
        path: root.read_link(&device).ok().as_deref().and_then(place),
        slaves: slaves(root, &device),
        mounts: mount_points(root, &whose, mounts),
        partitions,
    }
}

/// Bytes that the device takes in one request; `None` when sysfs does not say. Larger ones come to it as several.
pub fn largest_request(root: &Root, name: &[u8]) -> Option<u64> {
    let bytes = root.read_once(directory(name).join("queue/max_sectors_kb")).ok()?;
    sole_number(&bytes)?.checked_mul(1024)
}

/// Whether the device is a partition; `None` when sysfs does not know it.
pub fn is_partition(root: &Root, name: &[u8]) -> Option<bool> {
    let device = directory(name);
    if root.exists(device.join("partition")) {
        return Some(true);
    }
    root.exists(&device).then_some(false)
}

/// `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`.
pub fn is_named_as_partition_of(name: &[u8], disk: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.last().is_some_and(u8::is_ascii_digit);
    let number = if ends_in_digit { rest.strip_prefix(b"p") } else { Some(rest) };
    number.and_then(self::number).is_some()
}

/// Where sysfs describes it. A `/` in the name (cciss/c0d0) is a `!` there.
fn directory(name: &[u8]) -> PathBuf {
    let name = name.iter().map(|byte| if *byte == b'/' { b'!' } else { *byte }).collect();
    Path::new("sys/class/block").join(OsString::from_vec(name))
}

/// `../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda` is `pci0000:00/0000:00:02.0/virtio1`.
fn place(link: &Path) -> Option<Name> {
    let parts: Vec<&OsStr> = link.iter().collect();
    let begin = parts.iter().position(|part| *part == "devices")? + 1;
    let (_, parts) = parts.get(begin..)?.split_last()?;
    let parts = parts.strip_suffix(&[OsStr::new("block")]).unwrap_or(parts);
    let place = parts.iter().collect::<PathBuf>();
    (parts.first().is_some_and(|first| *first != "virtual")).then(|| Name::from(place.as_os_str().as_bytes()))
}

/// `none [mq-deadline] kyber` is mq-deadline. A single word without brackets is the only choice there is.
fn chosen(bytes: &[u8]) -> Option<Name> {
    let line = lines(bytes).next()?.trim_ascii();
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let marked = words.clone().find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let only = words.next().filter(|_| words.next().is_none());
    marked.or(only).map(Name::from)
}

/// Its subdirectories that are partitions have its name in front.
fn partitions(root: &Root, device: &Path, name: &[u8]) -> Vec<DiskId> {
    let mut found: Vec<DiskId> = root
        .list(device)
        .unwrap_or_default()
        .iter()
        .filter(|entry| is_named_as_partition_of(entry.as_bytes(), directory(name).file_name().unwrap_or_default().as_bytes()))
        .filter(|entry| root.exists(device.join(entry).join("partition")))
        .filter_map(|entry| device_number(root, &device.join(entry)))
        .collect();
    found.sort_unstable();
    found
}

fn slaves(root: &Root, device: &Path) -> Vec<DiskId> {
    let slaves = device.join("slaves");
    let entries = root.list(&slaves).unwrap_or_default();
    let mut found: Vec<DiskId> = entries.iter().filter_map(|entry| device_number(root, &slaves.join(entry))).collect();
    found.sort_unstable();
    found
}

/// The file `dev`: `254:0`.
fn device_number(root: &Root, device: &Path) -> Option<DiskId> {
    let bytes = root.read_once(device.join("dev")).ok()?;
    let mut numbers = lines(&bytes).next()?.splitn(2, |byte| *byte == b':').map(small_number);
    Some(DiskId { major: numbers.next()??, minor: numbers.next()?? })
}

/// Where the devices are mounted, whole file systems before single directories of them.
fn mount_points(root: &Root, whose: &[DiskId], mounts: &[Mount]) -> Vec<Name> {
    let mut found: Vec<(bool, Name)> = mounts
        .iter()
        .filter(|mount| device_of(root, mount).is_some_and(|device| whose.contains(&device)))
        .map(|mount| (mount.root != b"/", Name::from(mount.mount_point.as_os_str().as_bytes())))
        .collect();
    found.sort();
    found.dedup_by(|one, other| one.1 == other.1);
    found.truncate(MOST_MOUNTS);
    found.into_iter().map(|(_, point)| point).collect()
}

/// File systems over several devices (btrfs) have a device number of their own, and only the source says where they are.
fn device_of(root: &Root, mount: &Mount) -> Option<DiskId> {
    if mount.device.major != 0 {
        return Some(mount.device);
    }
    let name = mount.source.strip_prefix(b"/dev/")?;
    // The source is whatever the one who mounted wrote there (`fsname=` of a FUSE file system): it must not lead us out of
    // /dev, into a file system that never answers.
    let mut parts = name.split(|byte| *byte == b'/');
    let sound = parts.clone().count() <= 2 && parts.all(|part| !matches!(part, b"" | b"." | b".."));
    if !sound {
        return None;
    }
    device_number(root, &directory(name)).or_else(|| device_node(root, Path::new(OsStr::from_bytes(&mount.source))))
}

/// /dev/mapper/NAME and /dev/GROUP/NAME: links to /dev/dm-N, which only the running machine has. The link is read and not
/// followed.
fn device_node(root: &Root, path: &Path) -> Option<DiskId> {
    if !root.is_host() {
        return None;
    }
    if let Ok(target) = root.read_link(path) {
        return device_number(root, &directory(target.file_name()?.as_bytes()));
    }
    let device = std::fs::symlink_metadata(root.path(path)).ok()?.rdev();
    (device != 0).then(|| DiskId { major: libc::major(device), minor: libc::minor(device) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_where_a_device_is_plugged_in() {
        let place = |link: &str| place(Path::new(link));
        assert_eq!(
            place("../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda"),
            Some("pci0000:00/0000:00:02.0/virtio1".into())
        );
        assert_eq!(
            place("../../devices/pci0000:00/0000:00:1d.0/nvme/nvme0/nvme0n1"),
            Some("pci0000:00/0000:00:1d.0/nvme/nvme0".into())
        );
        assert_eq!(place("../../devices/virtual/block/loop0"), None);
        assert_eq!(place("elsewhere"), None);
    }

    #[test]
    fn partitions_by_name() {
        for (name, disk) in [("sda1", "sda"), ("nvme0n1p2", "nvme0n1"), ("loop0p1", "loop0")] {
            assert!(is_named_as_partition_of(name.as_bytes(), disk.as_bytes()), "{name} of {disk}");
        }
        for (name, disk) in [("sdaa", "sda"), ("loop01", "loop0"), ("sda", "sda")] {
            assert!(!is_named_as_partition_of(name.as_bytes(), disk.as_bytes()), "{name} of {disk}");
        }
    }
}
