//! Whether threads wait for a device, by the blocked groups and the blocked threads of an interval.

use std::sync::Arc;

use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::aio_waits::most_reads_in_flight;
use crate::interval::disk::DiskSpan;
use crate::interval::idle_blocked::BlockedGroup;
use crate::interval::task::wait_class;
use crate::sample::disk::find_disk;
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::{WaitClass, class};
use crate::units::reaches_threshold;

/// Whether threads wait for a device: a group has at least `threads` blocked threads on average that wait for it, or may; or at
/// least one sub-sample saw a thread blocked with a file on the device, or a blocked thread of a group with no other device; or kernel
/// threads that serve requests are on storage, or a process in a poll call may have `threads` reads in flight.
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
    if reaches_threshold(serving_kernel_threads(interval), threads) || has_polling_reader(interval, device, threads) {
        return true;
    }
    interval.blocked_threads.iter().any(|thread| match (thread.class, thread.wait.disk) {
        (WaitClass::Disk, Some(disk)) => leads_to_it(disk),
        (WaitClass::Disk | WaitClass::Aio, None) => {
            let id = interval.newer.waits.groups.get(usize::from(thread.wait.group));
            blocked.groups.iter().any(|group| Some(&group.group) == id && may_be_on_it(group))
        }
        _ => false,
    })
}

/// Kernel threads that serve the requests of clients: NFS, SMB, iSCSI (LIO), DRBD.
const SERVERS_IN_KERNEL: [&[u8]; 5] = [b"nfsd", b"ksmbd", b"iscsi_t", b"lio_", b"drbd"];

/// Kernel threads that serve requests and are on storage at the sample, for each busy device: which one they wait for is not known.
/// Sub-samples do not read kernel threads.
fn serving_kernel_threads(interval: &Interval) -> f64 {
    let (Ok(tasks), Some(spans)) = (&interval.newer.tasks, &interval.tasks) else { return 0.0 };
    let on_storage = spans.threads.iter().filter(|span| (span.state, span.wait_class) == (TaskState::Blocked, WaitClass::Disk));
    let serves = |(process, thread): &(&Arc<Process>, &Thread)| {
        let is_server = SERVERS_IN_KERNEL.iter().any(|name| thread.comm.as_bytes().starts_with(name));
        let is_elsewhere = thread.wait.wchan.as_ref().is_ok_and(|channel| class::is_non_block_storage(channel.as_bytes()));
        process.kernel_thread && is_server && !is_elsewhere
    };
    let threads = on_storage.filter_map(|span| tasks.thread(span.id)).filter(serves).count();
    let has_requests = |span: &&DiskSpan| span.operations().any(|(_, operation)| operation.concurrency > 0.0) || span.stalled;
    threads as f64 / interval.disks.iter().filter(has_requests).count().max(1) as f64
}

/// Whether a process with a thread in a poll call may have so many reads of the device in flight: it does I/O without blocking, as QEMU
/// does. Its writes may be those of the page cache, for which no thread waits.
fn has_polling_reader(interval: &Interval, device: DiskId, threads: f64) -> bool {
    let Some(disk) = interval.disk(device) else { return false };
    let polls = |process: &Process| {
        let mut channels = process.threads.iter().filter(|thread| thread.state == TaskState::Sleeping);
        channels.any(|thread| wait_class(&interval.host, thread) == WaitClass::Poll)
    };
    interval.active_processes().any(|(process, span)| {
        let bytes = span.read_bytes.map_or(0.0, |rate| rate.0 * disk.seconds);
        bytes > 0.0 && reaches_threshold(most_reads_in_flight(bytes as u64, disk), threads) && polls(process)
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
