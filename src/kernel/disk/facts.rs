//! Reads the facts of a block device from sysfs and the mount table: when it appears, and again from time to time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::mount_points::MountPoints;
use super::sysfs::{parse_device_number, sysfs_directory};
use crate::ids::DiskId;
use crate::kernel::fields::{lines, parse_single_line, parse_single_u64, parse_u64};
use crate::kernel::root::{OpenDirectory, Root};
use crate::sample::Name;
use crate::sample::disk::DiskFacts;

/// Reads all facts of a whole device.
pub fn read(root: &Root, id: DiskId, name: &[u8], mounted: &MountPoints) -> DiskFacts {
    let directory = sysfs_directory(name);
    let Ok(mut device) = root.open_directory(&directory) else {
        return DiskFacts { mount_points: mounted.of_devices([id].into_iter()), ..DiskFacts::default() };
    };
    let mut text = |file: &str| device.read(file).ok().and_then(parse_single_line);
    let model = text("device/model");
    let sync_action = text("md/sync_action");
    let serial = ["device/serial", "serial", "wwid", "device/wwid", "dm/uuid", "md/uuid"].into_iter().find_map(&mut text);
    let backing_file = text("loop/backing_file");
    let mut slaves = list_slaves(&mut device);
    // sysfs has no link from a loop device to the one with its file.
    let file = backing_file.as_ref().map(|file| Path::new(OsStr::from_bytes(file.as_bytes())));
    slaves.extend(
        file.and_then(|file| mounted.device_of_file(file)).map(|below| whole_device(root, below)).filter(|&below| below != id),
    );
    let partitions = list_partitions(&mut device, directory.file_name().unwrap_or_default().as_bytes());
    DiskFacts {
        rotational: device.read("queue/rotational").ok().and_then(parse_single_u64).map(|value| value != 0),
        scheduler: device.read("queue/scheduler").ok().and_then(active_scheduler),
        model,
        serial,
        size_bytes: device.read("size").ok().and_then(parse_single_u64).and_then(|sectors| sectors.checked_mul(512)),
        backing_file,
        sysfs_path: root.read_link(&directory).ok().as_deref().and_then(hardware_path),
        slaves,
        mount_points: mounted.of_devices([id].into_iter().chain(partitions.iter().copied())),
        partitions,
        suspended: device.read("dm/suspended").ok().and_then(parse_single_u64).map(|value| value != 0),
        timeout_s: device.read("device/timeout").ok().and_then(parse_single_u64),
        sync_action,
    }
}

/// queue/max_sectors_kb in bytes: larger requests are split. `None` when sysfs does not have it.
pub fn max_request_bytes(root: &Root, name: &[u8]) -> Option<u64> {
    let bytes = root.read_once(sysfs_directory(name).join("queue/max_sectors_kb")).ok()?;
    parse_single_u64(&bytes)?.checked_mul(1024)
}

/// Whether the device is a partition; `None` when it is not in sysfs.
pub fn is_partition(root: &Root, name: &[u8]) -> Option<bool> {
    let device = sysfs_directory(name);
    if root.exists(device.join("partition")) {
        return Some(true);
    }
    root.exists(&device).then_some(false)
}

/// Whether `name` is a partition of `disk`: `sda1` of `sda`, `nvme0n1p1` of `nvme0n1`.
pub fn is_partition_name(name: &[u8], disk: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let ends_in_digit = disk.last().is_some_and(u8::is_ascii_digit);
    let number = if ends_in_digit { rest.strip_prefix(b"p") } else { Some(rest) };
    number.and_then(self::parse_u64).is_some()
}

/// The device's path in the hardware tree: `../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda` gives
/// `pci0000:00/0000:00:02.0/virtio1`.
fn hardware_path(link: &Path) -> Option<Name> {
    let parts: Vec<&OsStr> = link.iter().collect();
    let begin = parts.iter().position(|part| *part == "devices")? + 1;
    let (_, parts) = parts.get(begin..)?.split_last()?;
    let parts = parts.strip_suffix(&[OsStr::new("block")]).unwrap_or(parts);
    let place = parts.iter().collect::<PathBuf>();
    (parts.first().is_some_and(|first| *first != "virtual")).then(|| Name::from(place.as_os_str().as_bytes()))
}

/// The active scheduler of queue/scheduler: `none [mq-deadline] kyber` gives mq-deadline. A single word has no brackets.
fn active_scheduler(bytes: &[u8]) -> Option<Name> {
    let line = lines(bytes).next()?.trim_ascii();
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let marked = words.clone().find_map(|word| word.strip_prefix(b"[")?.strip_suffix(b"]"));
    let only = words.next().filter(|_| words.next().is_none());
    marked.or(only).map(Name::from)
}

/// The device numbers of its partitions: subdirectories whose name begins with its own.
fn list_partitions(device: &mut OpenDirectory, name: &[u8]) -> Vec<DiskId> {
    let mut entries = Vec::new();
    let _ = device.for_each_entry(".", |entry| {
        if is_partition_name(entry, name) {
            entries.push(PathBuf::from(OsStr::from_bytes(entry)));
        }
    });
    entries.retain(|entry| device.exists(entry.join("partition")));
    read_device_numbers(device, &entries)
}

/// The device of which this one is a partition, or the device itself.
fn whole_device(root: &Root, id: DiskId) -> DiskId {
    let directory = PathBuf::from(format!("sys/dev/block/{}:{}", id.major, id.minor));
    let parent = || parse_device_number(&root.read_once(directory.join("../dev")).ok()?);
    let is_partition = root.exists(directory.join("partition"));
    is_partition.then(parent).flatten().unwrap_or(id)
}

/// The whole devices that it is stacked on, also where that is a partition of them.
fn list_slaves(device: &mut OpenDirectory) -> Vec<DiskId> {
    let mut entries = Vec::new();
    let _ = device.for_each_entry("slaves", |entry| entries.push(Path::new("slaves").join(OsStr::from_bytes(entry))));
    for entry in &mut entries {
        // slaves/sda3 is a link to the directory of sda3 in that of sda.
        if device.exists(entry.join("partition")) {
            entry.push("..");
        }
    }
    let mut slaves = read_device_numbers(device, &entries);
    slaves.dedup();
    slaves
}

/// The device numbers in the file `dev` of these directories.
fn read_device_numbers(device: &mut OpenDirectory, entries: &[PathBuf]) -> Vec<DiskId> {
    let number = |entry: &PathBuf| parse_device_number(device.read(entry.join("dev")).ok()?);
    let mut found: Vec<DiskId> = entries.iter().filter_map(number).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hardware_path_is_the_directory_above_the_device() {
        let place = |link: &str| hardware_path(Path::new(link));
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
            assert!(is_partition_name(name.as_bytes(), disk.as_bytes()), "{name} of {disk}");
        }
        for (name, disk) in [("sdaa", "sda"), ("loop01", "loop0"), ("sda", "sda")] {
            assert!(!is_partition_name(name.as_bytes(), disk.as_bytes()), "{name} of {disk}");
        }
    }
}
