//! Whether threads wait for a device, by the blocked groups and the blocked threads of an interval.

use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::disk::find_disk;
use crate::sample::waits::WaitClass;
use crate::units::reaches_threshold;

/// Whether threads wait for a device: a group has at least `threads` blocked threads on average that wait for it, or may; or at
/// least one sub-sample saw a thread blocked with a file on the device, or a blocked thread of a group with no other device.
pub fn has_waiters(interval: &Interval, device: DiskId, threads: f64) -> bool {
    let Some(blocked) = &interval.idle_blocked else { return true };
    if blocked.lower_bound {
        return true;
    }
    let leads_to_it = |above: DiskId| may_lead_to_device(interval, above, device);
    let may_be_on_it = |group: &BlockedGroup| {
        group.holder_device.map_or(!group.waits_for_no_block_device(), |(of_group, _)| leads_to_it(of_group))
    };
    let stuck = |group: &BlockedGroup| group.storage + group.aio + group.memory + group.hidden;
    if blocked.groups.iter().any(|group| may_be_on_it(group) && reaches_threshold(stuck(group), threads)) {
        return true;
    }
    interval.blocked_threads.iter().any(|thread| match (thread.class, thread.disk) {
        (WaitClass::Disk, Some(disk)) => leads_to_it(disk),
        (WaitClass::Disk | WaitClass::Aio, None) => {
            let id = interval.newer.waits.groups.get(usize::from(thread.group));
            blocked.groups.iter().any(|group| Some(&group.group) == id && may_be_on_it(group))
        }
        _ => false,
    })
}

/// Whether requests to `above` are, or become, requests to `device` (dm, md, loop).
pub fn leads_to_device(interval: &Interval, above: DiskId, device: DiskId) -> bool {
    with_lower_devices(interval, above).contains(&device)
}

/// The same, or may become: the device below a loop device's file is not always known.
pub fn may_lead_to_device(interval: &Interval, above: DiskId, device: DiskId) -> bool {
    let below = with_lower_devices(interval, above);
    let is_of_unknown = |&id: &DiskId| is_loop(interval, id).is_some_and(|is_known| !is_known);
    below.contains(&device) || below.iter().any(is_of_unknown) && is_loop(interval, device).is_none()
}

/// Stacked devices are followed down to this depth.
const MAX_DEVICE_DEPTH: u32 = 8;

/// The device itself and all that it is stacked on.
pub fn with_lower_devices(interval: &Interval, id: DiskId) -> Vec<DiskId> {
    devices_below(interval, id, MAX_DEVICE_DEPTH)
}

fn devices_below(interval: &Interval, id: DiskId, depth: u32) -> Vec<DiskId> {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| find_disk(disks, id)).filter(|_| depth > 0);
    let slaves = disk.iter().flat_map(|disk| &disk.facts.slaves);
    std::iter::once(id).chain(slaves.flat_map(|&slave| devices_below(interval, slave, depth - 1))).collect()
}

/// Of a loop device: whether the device with its file is known.
fn is_loop(interval: &Interval, id: DiskId) -> Option<bool> {
    let disk = interval.newer.disks.as_ref().ok().and_then(|disks| find_disk(disks, id))?;
    disk.facts.backing_file.is_some().then_some(!disk.facts.slaves.is_empty())
}
