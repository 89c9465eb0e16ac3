//! Combines short intervals of a device to up to one second: at ten samples per second a disk with 30 requests per second never
//! has five completions in one interval. The evaluated load is that of the fewest latest intervals with enough completions.
//! Each second becomes one observation.

use std::collections::VecDeque;
use std::sync::Arc;

use super::request_latencies::{Quantiles, RequestLatencies, RequestWindow};
use super::{DeviceIdentity, MAX_UNCONTENDED_OUTSTANDING, MIN_COMPLETIONS, SizeClass, disks_with_spans};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::sample::Name;
use crate::sample::disk::{Disk, DiskFacts};
use crate::units::Millis;

/// An observation covers at least this time (a second, with tolerance for late samples): otherwise one second at ten samples per
/// second would count as ten observations.
const MIN_OBSERVATION_S: f64 = 0.95;

/// The evaluated load covers at most this, unless one interval alone is longer.
const MAX_WINDOW_S: f64 = 1.05;

/// A device that is busy for less than this share of the time is under light load. docs/metrics.md, "Baselines".
const MAX_LIGHT_LOAD_BUSY_SHARE: f64 = 0.5;

/// With more requests than this outstanding while it is busy a device serves bursts: it teaches no baseline. docs/metrics.md,
/// "Baselines".
const MAX_OUTSTANDING_WHILE_BUSY: f64 = 4.0;

/// Load of one device over some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceLoad {
    pub seconds: f64,
    /// Time with at least one request in flight
    busy_seconds: f64,
    /// In the order of `Operation`
    operations: [OperationTotals; 4],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct OperationTotals {
    completed: u64,
    time_ms: f64,
    kib: f64,
}

impl DeviceLoad {
    fn from_span(span: &DiskSpan) -> DeviceLoad {
        let seconds = span.seconds;
        let busy_share = span.busy.map(|busy| busy.0);
        let mut load = DeviceLoad { seconds, ..DeviceLoad::default() };
        for (operation, op) in span.operations() {
            if let Some(sum) = load.operations.get_mut(operation as usize) {
                let each = |mean: Option<f64>| mean.map_or(0.0, |mean| mean * op.completed as f64);
                *sum = OperationTotals {
                    completed: op.completed,
                    time_ms: each(op.r#await.map(|ms| ms.0)),
                    kib: each(op.request_size_kib),
                };
            }
        }
        // Without the kernel's busy time the mean number of requests in flight is its upper bound.
        load.busy_seconds = busy_share.unwrap_or_else(|| load.outstanding()).min(1.0) * seconds;
        load
    }

    fn add(&mut self, other: &DeviceLoad) {
        self.seconds += other.seconds;
        self.busy_seconds += other.busy_seconds;
        for (sum, more) in self.operations.iter_mut().zip(&other.operations) {
            sum.completed = sum.completed.saturating_add(more.completed);
            sum.time_ms += more.time_ms;
            sum.kib += more.kib;
        }
    }

    fn totals(&self, operation: Operation) -> OperationTotals {
        self.operations.get(operation as usize).copied().unwrap_or_default()
    }

    /// Completions of this operation.
    pub fn completed(&self, operation: Operation) -> u64 {
        self.totals(operation).completed
    }

    /// Milliseconds that the kernel counted for this operation, all requests together.
    pub fn time_ms(&self, operation: Operation) -> f64 {
        self.totals(operation).time_ms
    }

    /// Mean time of a request; `None` if none completed.
    pub fn r#await(&self, operation: Operation) -> Option<Millis> {
        let sum = self.totals(operation);
        (sum.completed > 0).then(|| Millis(sum.time_ms / sum.completed as f64))
    }

    /// KiB a request.
    pub fn request_kib(&self, operation: Operation) -> Option<f64> {
        let sum = self.totals(operation);
        (sum.completed > 0).then(|| sum.kib / sum.completed as f64)
    }

    /// Completions of this operation per second.
    pub fn rate(&self, operation: Operation) -> f64 {
        if self.seconds > 0.0 { self.totals(operation).completed as f64 / self.seconds } else { 0.0 }
    }

    /// Completions of all kinds per second.
    pub fn total_rate(&self) -> f64 {
        let completed = self.operations.iter().map(|sum| sum.completed).fold(0, u64::saturating_add);
        if self.seconds > 0.0 { completed as f64 / self.seconds } else { 0.0 }
    }

    /// KiB of all kinds per second.
    pub fn kib_per_second(&self) -> f64 {
        let kib: f64 = self.operations.iter().map(|sum| sum.kib).sum();
        if self.seconds > 0.0 { kib / self.seconds } else { 0.0 }
    }

    /// Mean number of requests of this kind outstanding.
    pub fn concurrency(&self, operation: Operation) -> f64 {
        if self.seconds > 0.0 { self.totals(operation).time_ms / 1000.0 / self.seconds } else { 0.0 }
    }

    /// Mean number of requests outstanding that carry data: reads, writes, discards.
    fn data_concurrency(&self) -> f64 {
        [Operation::Read, Operation::Write, Operation::Discard].into_iter().map(|operation| self.concurrency(operation)).sum()
    }

    /// Mean number of requests outstanding, of all kinds.
    pub fn outstanding(&self) -> f64 {
        self.data_concurrency() + self.concurrency(Operation::Flush)
    }

    /// Mean number of requests outstanding while there are any; 0 if the device was idle.
    fn outstanding_while_busy(&self) -> f64 {
        if self.busy_seconds > 0.0 { self.outstanding() * self.seconds / self.busy_seconds } else { 0.0 }
    }

    /// Whether the operation was uncontended (about one request at a time). Reads and writes delay each other, so both count. The
    /// writes of a commit wait for the flushes before and after them, and the kernel adds that time to the writes: a flush beside
    /// one such write is uncontended. Requests that come many at once, with pauses, wait for each other.
    pub fn is_uncontended(&self, operation: Operation) -> bool {
        if self.outstanding_while_busy() > MAX_OUTSTANDING_WHILE_BUSY {
            return false;
        }
        match operation {
            Operation::Flush => {
                self.concurrency(operation) <= MAX_UNCONTENDED_OUTSTANDING
                    && self.data_concurrency() <= 2.0 * MAX_UNCONTENDED_OUTSTANDING
            }
            _ => self.data_concurrency() <= MAX_UNCONTENDED_OUTSTANDING,
        }
    }

    /// Whether the device was busy for less than `MAX_LIGHT_LOAD_BUSY_SHARE` of the time.
    pub fn is_lightly_loaded(&self) -> bool {
        self.busy_seconds < self.seconds * MAX_LIGHT_LOAD_BUSY_SHARE
    }

    /// Whether nothing completed.
    fn is_idle(&self) -> bool {
        self.operations.iter().all(|sum| sum.completed == 0)
    }
}

/// Loads of the last second, by device; idle devices have none.
#[derive(Clone, Debug, Default)]
pub struct LatencyWindow {
    /// Sorted by id, as an interval's devices are
    windows: Vec<DiskWindow>,
}

#[derive(Clone, Debug)]
struct DiskWindow {
    id: DiskId,
    device: KnownDevice,
    /// The latest intervals, oldest first
    recent: VecDeque<DeviceLoad>,
    /// Load that is not an observation yet
    accumulating: DeviceLoad,
    /// Load that becomes an observation now
    finished: Option<DeviceLoad>,
    requests: RequestLatencies,
}

/// The identity of a device, with what it was made from: it is made again only if that changes.
#[derive(Clone, Debug)]
struct KnownDevice {
    name: Name,
    facts: Arc<DiskFacts>,
    identity: DeviceIdentity,
}

impl KnownDevice {
    fn from_disk(disk: &Disk) -> KnownDevice {
        let identity = DeviceIdentity::from_disk(disk);
        KnownDevice { name: disk.name.clone(), facts: Arc::clone(&disk.facts), identity }
    }

    fn is_same(&self, disk: &Disk) -> bool {
        Arc::ptr_eq(&self.facts, &disk.facts) && self.name == disk.name
    }
}

impl LatencyWindow {
    /// Adds the next interval.
    pub fn push(&mut self, interval: &Interval) {
        // A device that is missing in an interval starts anew when it comes back.
        self.windows.retain(|window| interval.disk(window.id).is_some());
        for (disk, span) in disks_with_spans(interval) {
            let at = match self.windows.binary_search_by_key(&span.id, |window| window.id) {
                Ok(at) => at,
                Err(_) if span.completed() == 0 => continue,
                Err(at) => {
                    self.windows.insert(at, DiskWindow::new(disk));
                    at
                }
            };
            if let Some(window) = self.windows.get_mut(at) {
                if !window.device.is_same(disk) {
                    window.device = KnownDevice::from_disk(disk);
                }
                window.push(DeviceLoad::from_span(span), span);
            }
        }
        self.windows.retain(|window| !window.is_idle());
    }

    /// The identity of a device, which is known if it was active in the last second.
    pub(super) fn identity(&self, disk: &Disk) -> DeviceIdentity {
        let known = self.window(disk.id).map(|window| &window.device).filter(|device| device.is_same(disk));
        known.map_or_else(|| DeviceIdentity::from_disk(disk), |device| device.identity.clone())
    }

    /// Whether the device was active in the last second.
    pub(super) fn has(&self, disk: DiskId) -> bool {
        self.window(disk).is_some()
    }

    /// The load by which an operation of a device is evaluated; `None` if a second had too few completions.
    pub fn window_load(&self, disk: DiskId, operation: Operation) -> Option<DeviceLoad> {
        let window = self.window(disk)?;
        let mut sum = DeviceLoad::default();
        window.recent.iter().rev().find_map(|load| {
            sum.add(load);
            (sum.completed(operation) >= MIN_COMPLETIONS).then_some(sum)
        })
    }

    /// The single requests by which an operation of a device is evaluated against that baseline; `None` if a second had too few.
    pub(super) fn request_window(&self, disk: DiskId, operation: Operation, baseline: &Quantiles) -> Option<RequestWindow> {
        self.window(disk)?.requests.window(operation, baseline)
    }

    /// Single-request quantiles of the observation of this operation and size that a device completes now; `None` if requests are
    /// too few yet.
    pub(super) fn finished_quantiles(&self, disk: DiskId, operation: Operation, size: SizeClass) -> Option<Quantiles> {
        self.window(disk)?.requests.finished(operation, size)
    }

    fn window(&self, disk: DiskId) -> Option<&DiskWindow> {
        self.windows.get(self.windows.binary_search_by_key(&disk, |window| window.id).ok()?)
    }

    /// Loads that become observations now, each second once.
    pub fn finished_loads(&self) -> impl Iterator<Item = (DiskId, &DeviceLoad)> {
        self.windows.iter().filter_map(|window| Some((window.id, window.finished.as_ref()?)))
    }
}

impl DiskWindow {
    fn new(disk: &Disk) -> DiskWindow {
        let (recent, requests) = (VecDeque::new(), RequestLatencies::default());
        let device = KnownDevice::from_disk(disk);
        DiskWindow { id: disk.id, device, recent, accumulating: DeviceLoad::default(), finished: None, requests }
    }

    fn push(&mut self, load: DeviceLoad, span: &DiskSpan) {
        self.recent.push_back(load);
        while self.recent.len() > 1 && self.recent.iter().map(|load| load.seconds).sum::<f64>() > MAX_WINDOW_S {
            self.recent.pop_front();
        }
        self.requests.push(span, load.seconds, self.recent.len());
        self.accumulating.add(&load);
        self.finished = (self.accumulating.seconds >= MIN_OBSERVATION_S).then(|| std::mem::take(&mut self.accumulating));
        if let Some(load) = &self.finished {
            self.requests.finish_second(load);
        }
    }

    fn is_idle(&self) -> bool {
        let has_load = self.recent.iter().any(|load| !load.is_idle()) || !self.accumulating.is_idle();
        !has_load && self.finished.is_none() && !self.requests.is_learning()
    }
}
