//! Block devices: /proc/diskstats, and what each device is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Name;
use crate::ids::DiskId;
use crate::units::Counter;

/// A whole block device (loop, md, dm, nbd, zram too; partitions are folded into their disk).
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    pub id: DiskId,
    /// /proc/diskstats field 3
    pub name: Name,
    pub facts: Arc<DiskFacts>,
    pub reads: OpCounters,
    pub writes: OpCounters,
    /// Since 4.18
    pub discards: Option<OpCounters>,
    /// Since 5.5: completed flush requests, and milliseconds spent on them
    pub flushes: Option<Counter>,
    pub flush_time_ms: Option<Counter>,
    /// Requests outstanding now; a gauge
    pub in_flight: u32,
    /// Milliseconds in which at least one request was outstanding (what %util is made of)
    pub io_ticks_ms: Counter,
    /// Milliseconds summed over outstanding requests (what aqu-sz is made of)
    pub time_in_queue_ms: Counter,
}

/// The device with this identity, among those of a sample.
pub fn find_disk(disks: &[Disk], id: DiskId) -> Option<&Disk> {
    let at = disks.binary_search_by_key(&id, |disk| disk.id).ok()?;
    disks.get(at)
}

/// The four columns of one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounters {
    /// Requests completed
    pub completed: Counter,
    /// Requests merged into others while queued
    pub merged: Counter,
    /// Sectors of 512 bytes
    pub sectors: Counter,
    /// Milliseconds from entering the queue to completion, summed over requests
    pub time_ms: Counter,
}

/// What a device is; read once when it appears. /sys/block/NAME.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFacts {
    /// queue/rotational
    pub rotational: Option<bool>,
    /// The scheduler in brackets in queue/scheduler
    pub scheduler: Option<Name>,
    /// device/model, trimmed
    pub model: Option<Name>,
    /// device/serial or wwid: what the device stays known by, over reboots
    pub serial: Option<Name>,
    /// size × 512
    pub size_bytes: Option<u64>,
    /// loop/backing_file
    pub backing_file: Option<Name>,
    /// Where it is plugged in: what /sys/class/block/NAME is a link to, below /sys/devices, without its own name; none of a
    /// virtual device
    pub sysfs_path: Option<Name>,
    /// Devices this one stands on: slaves/
    pub slaves: Vec<DiskId>,
    /// Its partitions
    pub partitions: Vec<DiskId>,
    /// Mount points of it and of its partitions, from mountinfo
    pub mount_points: Vec<Name>,
}
