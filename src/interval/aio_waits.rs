//! Threads that sleep in `io_getevents` or `io_uring_enter`: how many of them may wait for requests. Those of an idle server sleep there,
//! too, whatever is in flight for other processes.

use rustc_hash::FxHashMap;

use super::disk::{DiskSpan, OpSpan, Operation};
use super::wait_counts::WaitCounts;
use crate::sample::Sample;
use crate::sample::task::Tasks;
use crate::sample::waits::WaitClass;
use crate::units::Ratio;

/// No request is smaller: a sector. docs/metrics.md, "Fixed thresholds".
const MIN_REQUEST_BYTES: u64 = 512;

/// How many requests of a process that read and wrote so many bytes may be in flight on average: of the reads and of the writes of each
/// device the share that they can be of those completed; if it wrote, all flushes; and all that have not completed.
fn most_in_flight(read_bytes: u64, write_bytes: u64, disks: &[DiskSpan]) -> f64 {
    let of_disk = |disk: &DiskSpan| {
        let of_operation = |(operation, span): (Operation, &OpSpan)| {
            let bytes = if operation == Operation::Read { read_bytes } else { write_bytes };
            let share =
                if operation == Operation::Flush { request_share(bytes, 1) } else { request_share(bytes, span.completed) };
            span.concurrency * share
        };
        let completed: f64 = disk.operations().map(|(_, span)| span.concurrency).sum();
        disk.operations().map(of_operation).sum::<f64>() + (f64::from(disk.in_flight) - completed).max(0.0)
    };
    if read_bytes == 0 && write_bytes == 0 { 0.0 } else { disks.iter().map(of_disk).sum() }
}

/// How many of the reads of a device may be, on average, those of a process that read so many bytes.
pub fn most_reads_in_flight(read_bytes: u64, disk: &DiskSpan) -> f64 {
    disk.reads.concurrency * request_share(read_bytes, disk.reads.completed)
}

/// The share of completed requests that requests of so many bytes can be.
fn request_share(bytes: u64, completed: u64) -> f64 {
    Ratio::new(bytes.div_ceil(MIN_REQUEST_BYTES) as f64, completed as f64).map_or(1.0, |share| share.0.min(1.0))
}

/// The shares of such threads that may wait for requests: not more than requests of their process may be in flight, so none without I/O in
/// the interval; unless a device completes nothing: then they may wait for an earlier request.
#[derive(Clone, Debug, Default)]
pub struct AioWaits {
    /// By index into `Waits::groups`
    of_groups: FxHashMap<u16, f64>,
    /// By pid
    of_processes: FxHashMap<u32, f64>,
}

impl AioWaits {
    pub fn new(older: &Sample, newer: &Sample, counts: &WaitCounts, disks: &[DiskSpan]) -> AioWaits {
        let (Ok(was), Ok(now)) = (&older.tasks, &newer.tasks) else { return AioWaits::default() };
        if disks.iter().any(|disk| disk.stalled) {
            return AioWaits::default();
        }
        // `None`: unknown
        let moved_bytes = |pid: u32| {
            let io = |tasks: &Tasks| tasks.process(pid)?.io.ok();
            let (was, now) = io(was).zip(io(now))?;
            Some((now.read_bytes.since(was.read_bytes)?, now.write_bytes.since(was.write_bytes)?))
        };
        let mut seen: FxHashMap<(u16, u32), f64> = FxHashMap::default();
        for waits in &counts.threads {
            let seen_count = waits.count(WaitClass::Aio);
            if seen_count > 0 {
                *seen.entry((waits.group, waits.task.pid)).or_default() += f64::from(seen_count);
            }
        }
        let sub_samples = counts.sub_samples.len().max(1) as f64;
        let mut groups: FxHashMap<u16, (f64, f64)> = FxHashMap::default();
        let mut of_processes = FxHashMap::default();
        for ((group, pid), seen) in seen {
            let expecting =
                moved_bytes(pid).map_or(seen, |(read, written)| seen.min(most_in_flight(read, written, disks) * sub_samples));
            let (all, sum) = groups.entry(group).or_default();
            *all += seen;
            *sum += expecting;
            of_processes.insert(pid, expecting / seen);
        }
        let of_groups = groups.into_iter().map(|(group, (all, expecting))| (group, expecting / all)).collect();
        AioWaits { of_groups, of_processes }
    }

    /// The share of a group's threads. `group`: index into `Waits::groups`.
    pub fn share_of_group(&self, group: u16) -> f64 {
        self.of_groups.get(&group).copied().unwrap_or(1.0)
    }

    /// The share of a process's threads.
    pub fn share_of_process(&self, pid: u32) -> f64 {
        self.of_processes.get(&pid).copied().unwrap_or(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::DiskId;

    #[test]
    fn a_process_has_no_more_requests_in_flight_than_its_bytes_allow() {
        let operation = |completed, concurrency| OpSpan { completed, concurrency, ..OpSpan::default() };
        let disk = |reads, in_flight| DiskSpan {
            id: DiskId { major: 8, minor: 0 },
            index: 0,
            seconds: 1.0,
            reads,
            writes: OpSpan::default(),
            discards: None,
            flushes: None,
            aqu_sz: None,
            in_flight,
            busy: None,
            stalled: false,
            latencies: Vec::new(),
        };
        let backup = disk(operation(8000, 8.0), 7);
        let backup = std::slice::from_ref(&backup);
        assert_eq!(most_in_flight(0, 0, backup), 0.0);
        assert_eq!(most_in_flight(0, 1 << 20, backup), 0.0, "all requests are reads");
        assert_eq!(most_in_flight(800 * MIN_REQUEST_BYTES, 0, backup), 0.8, "a tenth of the reads");
        assert_eq!(most_in_flight(100 << 20, 0, &[backup[0].clone(), disk(operation(4, 0.5), 2)]), 10.0, "all of both devices");
        // Slow reads beside fast writes of another process.
        let mixed = DiskSpan { writes: operation(5000, 0.5), ..disk(operation(125, 1.0), 1) };
        assert_eq!(most_in_flight(125 * 4096, 0, &[mixed]), 1.0);
    }
}
