//! Writers that the kernel holds back because too many pages are dirty (balance_dirty_pages): which limit holds, and how fast the
//! device writes back.

use crate::findings::formatting::{bytes, lossy_name};
use crate::interval::Interval;
use crate::interval::idle_blocked::BlockedGroup;
use crate::sample::disk::find_disk;

/// The host's limit holds if its dirty pages reach this share of the level from which writers are held back: they vary around it.
/// docs/metrics.md, "Fixed thresholds".
const MIN_HOST_DIRTY_SHARE: f64 = 0.9;

/// How the limit is known.
pub const KNOWN_BY: &str = "the wait channel; nr_dirty_threshold of /proc/vmstat";

/// `held back by the dirty page limit of the host (1.95 GiB dirty or in writeback, limit 1.99 GiB), sdb writes back 12.0 MiB/s`; `None`
/// if the group's thread on storage waits for something else.
pub fn dirty_limit(interval: &Interval, group: &BlockedGroup) -> Option<String> {
    let holder = group.holder.as_ref()?;
    holder.wait.wchan.as_ref().filter(|channel| channel.as_bytes().starts_with(b"balance_dirty_pages"))?;
    let memory = interval.memory.as_ref();
    let figures = memory.and_then(|memory| Some((memory.dirty_or_writeback?, memory.dirty_throttle?, memory.dirty_limit?)));
    let limit = match figures {
        Some((dirty, throttle, limit)) => {
            let is_of_host = dirty.0 as f64 >= throttle.0 as f64 * MIN_HOST_DIRTY_SHARE;
            let (dirty, limit) = (bytes(dirty.0 as f64), bytes(limit.0 as f64));
            match is_of_host {
                true => format!("dirty page limit of the host ({dirty} dirty or in writeback, limit {limit})"),
                false => format!("dirty page limit of a cgroup or of the device (the host has {dirty} of {limit})"),
            }
        }
        None => "dirty page limit".to_owned(),
    };
    let writeback = || {
        let (device, _) = group.holder_device?;
        let disk = find_disk(interval.newer.disks.as_ref().ok()?, device)?;
        let rate = bytes(interval.disk(device)?.writes.kilobytes.0 * 1024.0);
        Some(format!(", {} writes back {rate}/s", lossy_name(&disk.name)))
    };
    Some(format!("held back by the {limit}{}", writeback().unwrap_or_default()))
}
