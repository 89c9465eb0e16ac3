//! The operation of a device that limits the threads which wait for it.

use crate::baseline::{LatencyStatus, MAX_UNCONTENDED_OUTSTANDING, find_status};
use crate::findings::formatting::{latency, multiple, significant_digits};
use crate::findings::wait_chain::holder::syscall_name;
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::blocked_threads::BlockedThread;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};

/// The operation that limits the threads which wait for a device.
#[derive(Clone, Copy, Debug)]
pub struct Bottleneck<'a> {
    pub operation: Operation,
    pub span: &'a OpSpan,
    pub status: Option<&'a LatencyStatus>,
}

impl Bottleneck<'_> {
    /// `f_await 10.3 ms = 1.00× its baseline`
    pub fn with_iostat_column(&self) -> String {
        let column = match self.operation {
            Operation::Read => "r_await",
            Operation::Write => "w_await",
            Operation::Flush => "f_await",
            Operation::Discard => "d_await",
        };
        self.versus_baseline(column)
    }

    /// `flushes 10.3 ms = 1.00× its baseline; one flush at a time: at most 97.1/s`
    pub fn sentence(&self) -> String {
        let limit = self
            .serial_limit()
            .map(|limit| format!("; one {} at a time: at most {}/s", self.operation.as_str(), significant_digits(limit)));
        self.answers() + &limit.unwrap_or_default()
    }

    /// Requests per second of a device that is as fast as usual and always has one request of this operation: the threads that
    /// wait for it get no more, whatever their number.
    fn serial_limit(&self) -> Option<f64> {
        let as_usual = self.multiple().is_none_or(|times| times < MAX_USUAL_MULTIPLE);
        let one = (MIN_SERIAL_CONCURRENCY..=MAX_UNCONTENDED_OUTSTANDING).contains(&self.span.concurrency);
        let time = self.span.r#await.filter(|time| as_usual && one && time.0 > 0.0)?;
        Some(1000.0 / time.0)
    }

    /// Await ÷ baseline; `None` without a baseline that can be exceeded.
    pub fn multiple(&self) -> Option<f64> {
        // A provisional baseline is not exceeded with one request at a time.
        let listed = |status: &&LatencyStatus| !status.provisional || self.span.concurrency > MAX_UNCONTENDED_OUTSTANDING;
        self.status.filter(listed)?.multiple
    }

    /// `flushes 10.3 ms = 1.00× its baseline`
    pub fn answers(&self) -> String {
        self.versus_baseline(self.operation.plural())
    }

    fn versus_baseline(&self, word: &str) -> String {
        let time = self.span.r#await.map_or_else(|| "-".into(), latency);
        let Some((status, times)) = self.status.zip(self.multiple()) else { return format!("{word} {time}") };
        match only_since_start(status, times) {
            Some(since_start) => format!("{word} {time}, {since_start}"),
            None if status.provisional => format!("{word} {time} = {} a provisional baseline", multiple(times)),
            None => format!("{word} {time} = {} its baseline", multiple(times)),
        }
    }
}

/// Words for a latency without a baseline under light load; `None` with one, or if it exceeds the usual.
pub fn only_since_start(status: &LatencyStatus, times: f64) -> Option<&'static str> {
    match times {
        _ if !status.is_learned_under_load() || times >= MAX_USUAL_MULTIPLE => None,
        _ if times < 1.0 / MAX_USUAL_MULTIPLE => Some("not slower than since the start (no baseline under light load)"),
        _ => Some("always so since the start (no baseline under light load)"),
    }
}

/// Mean requests in flight from which an operation has a request nearly all the time.
const MIN_SERIAL_CONCURRENCY: f64 = 0.7;

/// Below this multiple of its baseline a device is as fast as usual.
pub const MAX_USUAL_MULTIPLE: f64 = 1.5;

/// What the system call of a thread needs from the device.
enum RequiredIo {
    Reads,
    Writes,
    /// All of it on the medium: a flush, and the writes before it
    Durability,
    Unknown,
}

fn required_io(interval: &Interval, holder: &BlockedThread) -> RequiredIo {
    const JOURNALS: [&str; 8] = [
        "jbd2_",
        "wait_transaction",
        "start_this_handle",
        "add_transaction_credits",
        "do_get_write_access",
        "xlog_",
        "xfs_log",
        "btrfs_wait_log",
    ];
    let channel = holder.wait.wchan.as_ref().map(|channel| channel.as_bytes()).unwrap_or_default();
    if JOURNALS.iter().any(|prefix| channel.starts_with(prefix.as_bytes())) {
        return RequiredIo::Durability;
    }
    match syscall_name(interval, holder) {
        Some("read" | "pread64" | "readv" | "preadv" | "preadv2" | "a page fault") => RequiredIo::Reads,
        Some("write" | "pwrite64" | "writev" | "pwritev" | "pwritev2") => RequiredIo::Writes,
        Some("fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync") => RequiredIo::Durability,
        _ => RequiredIo::Unknown,
    }
}

/// The operation of a device that limits the threads which wait for it: the one that the holder's system call needs,
/// otherwise the one that takes most of the device's time. `None` if nothing completed.
pub fn bottleneck<'a>(
    interval: &'a Interval,
    statuses: &'a [LatencyStatus],
    device: DiskId,
    holder: Option<&BlockedThread>,
) -> Option<Bottleneck<'a>> {
    let span = interval.disk(device)?;
    let done = || span.operations().filter(|(_, op)| op.completed > 0 && op.r#await.is_some());
    let only = |wanted: Operation| done().find(|(operation, _)| *operation == wanted);
    let wanted = match holder.map(|holder| required_io(interval, holder)) {
        Some(RequiredIo::Reads) => only(Operation::Read),
        Some(RequiredIo::Writes) => only(Operation::Write),
        Some(RequiredIo::Durability) => durability_operation(span).and_then(only),
        Some(RequiredIo::Unknown) | None => None,
    };
    let (operation, op) = wanted.or_else(|| done().max_by(|a, b| a.1.concurrency.total_cmp(&b.1.concurrency)))?;
    let status = find_status(statuses, device, operation);
    Some(Bottleneck { operation, span: op, status })
}

/// Writes that take longer than this multiple of a flush are the bottleneck themselves. docs/metrics.md, "Fixed thresholds".
const MAX_FLUSH_MULTIPLE: f64 = 2.0;

/// The await of a write includes the flush that it waits for or carries. So the flush is the bottleneck, unless writes take
/// much longer.
fn durability_operation(span: &DiskSpan) -> Option<Operation> {
    let flush = span.flushes.filter(|op| op.completed > 0).and_then(|op| op.r#await);
    match (flush, span.writes.r#await) {
        (Some(flush), Some(write)) if write.0 > flush.0 * MAX_FLUSH_MULTIPLE => Some(Operation::Write),
        (Some(_), _) => Some(Operation::Flush),
        (None, Some(_)) => Some(Operation::Write),
        (None, None) => None,
    }
}
