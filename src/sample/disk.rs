//! Block devices: the counters of /proc/diskstats (numbered as in Documentation/admin-guide/iostats.rst, after the device
//! name), and facts from /sys/block. `kernel/disk` reads them; `interval/disk` computes rates and latencies.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Name;
use crate::ids::DiskId;
use crate::units::Counter;

/// A whole block device, loop, md, dm, nbd and zram included. Partitions have no entry: their I/O is in that of their disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    pub id: DiskId,
    /// The device name, such as `sda`
    pub name: Name,
    pub facts: Arc<DiskFacts>,
    /// Fields 1 to 4
    pub reads: OpCounters,
    /// Fields 5 to 8
    pub writes: OpCounters,
    /// Fields 12 to 15; since Linux 4.18
    pub discards: Option<OpCounters>,
    /// Field 16: completed flush requests; since 5.5
    pub flushes: Option<Counter>,
    /// Field 17: milliseconds spent on flush requests; since 5.5
    pub flush_time_ms: Option<Counter>,
    /// Field 9: requests in flight now; a gauge
    pub in_flight: u32,
    /// Field 10: milliseconds with at least one request in flight; `%util` is computed from it
    pub io_ticks_ms: Counter,
    /// Field 11: milliseconds summed over the requests in flight; `aqu-sz` is computed from it
    pub time_in_queue_ms: Counter,
}

/// The device with this identity among those of a sample, which are sorted by id.
pub fn find_disk(disks: &[Disk], id: DiskId) -> Option<&Disk> {
    let at = disks.binary_search_by_key(&id, |disk| disk.id).ok()?;
    disks.get(at)
}

/// The four fields of one kind of operation, in the order of /proc/diskstats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounters {
    /// Requests completed
    pub completed: Counter,
    /// Requests merged into others while queued
    pub merged: Counter,
    /// Sectors of 512 bytes
    pub sectors: Counter,
    /// Milliseconds from queueing to completion, summed over requests: `read_time_ms` is `reads.time_ms`
    pub time_ms: Counter,
}

/// Facts about a device, from /sys/block/NAME. Read when the device appears, after a uevent, and every 30 s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFacts {
    /// queue/rotational
    pub rotational: Option<bool>,
    /// The scheduler in brackets in queue/scheduler
    pub scheduler: Option<Name>,
    /// device/model, trimmed
    pub model: Option<Name>,
    /// device/serial or wwid: identifies the device across reboots
    pub serial: Option<Name>,
    /// size × 512
    pub size_bytes: Option<u64>,
    /// loop/backing_file
    pub backing_file: Option<Name>,
    /// Its position in the hardware tree: the target of the link /sys/class/block/NAME, below /sys/devices, without the
    /// device's own name. `None` for a virtual device
    pub sysfs_path: Option<Name>,
    /// The whole devices below this one: slaves/ (dm, md); of a loop device the one with its backing file, by mountinfo
    pub slaves: Vec<DiskId>,
    pub partitions: Vec<DiskId>,
    /// Mount points of the device and of its partitions, from mountinfo
    pub mount_points: Vec<Name>,
    /// dm/suspended: requests wait until the device is resumed, and are not in flight; `None` for other devices
    #[serde(default)]
    pub suspended: Option<bool>,
    /// device/timeout: seconds after which the SCSI layer aborts a request; `None` for other devices
    #[serde(default)]
    pub timeout_s: Option<u64>,
    /// md/sync_action: idle, check, resync, recover, repair, reshape; `None` for other devices
    #[serde(default)]
    pub sync_action: Option<Name>,
}

/// Kind of request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    Read,
    Write,
    Flush,
    Discard,
}

impl Operation {
    /// `read`, as on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        }
    }

    /// `reads`, for sentences.
    pub fn plural(self) -> &'static str {
        match self {
            Operation::Read => "reads",
            Operation::Write => "writes",
            Operation::Flush => "flushes",
            Operation::Discard => "discards",
        }
    }
}
