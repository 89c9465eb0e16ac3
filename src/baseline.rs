//! Baselines: the normal latency of each device, operation and request-size class with one request at a time.
//! docs/metrics.md, "Baselines".
//!
//! A baseline is learned from intervals in which the device had about one request at a time, and not from slow intervals. Until
//! there are enough of them it is provisional. Only `store` accesses files.

pub mod device;
pub mod format;
pub mod latency_window;
pub mod learned;
pub mod request_latencies;
pub mod reservoir;
pub mod store;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::sample::disk::Disk;
use crate::units::Millis;

pub use device::{DeviceIdentity, SizeClass};
pub use latency_window::{DeviceLoad, LatencyWindow};
pub use learned::{Confidence, LearnedBaseline};
pub use request_latencies::{ComparedRequests, Quantiles, RequestStatus, RequestWindow};

/// The latency of one operation of one device against its baseline, in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyStatus {
    pub disk: DiskId,
    pub operation: Operation,
    pub size: SizeClass,
    /// The baseline
    pub baseline: Millis,
    /// Not learned yet: the class default, or the lowest await that 5 intervals reached. Shown with `~`.
    pub provisional: bool,
    /// Learned while the device had little to do. Another learned baseline is only the latency since learning began: it does not
    /// show whether the device is fast.
    pub from_light_load: bool,
    /// await ÷ baseline; `None` if nothing completed
    pub multiple: Option<f64>,
    /// Intervals that the baseline was learned from
    pub learned_intervals: u32,
    /// The evaluated load: this interval and, up to a second, as many before it as are needed for enough completions; `None` if
    /// there are too few
    pub window_load: Option<DeviceLoad>,
    /// The highest load at which it was at its baseline; `None` if not known
    pub baseline_load: Option<BaselineLoad>,
    /// p50 and p99 of single requests; `None` if no baseline of them has been learned
    pub requests: Option<RequestStatus>,
}

impl LatencyStatus {
    /// Whether it is learned, but not under light load: the latency since learning began.
    pub fn is_learned_under_load(&self) -> bool {
        !self.provisional && !self.from_light_load
    }

    /// The same status with the await of another interval, a span for instance: without a multiple if its requests are of another size.
    pub fn over(self, interval: &Interval) -> LatencyStatus {
        let span = interval.disk(self.disk);
        let of_operation = span.and_then(|span| span.operations().find(|(operation, _)| *operation == self.operation));
        let same_size = of_operation.filter(|(_, op)| SizeClass::from_mean_kib(op.request_size_kib) == self.size);
        let r#await = same_size.and_then(|(_, op)| op.r#await).filter(|_| self.baseline.0 > 0.0);
        LatencyStatus { multiple: r#await.map(|r#await| r#await.0 / self.baseline.0), ..self }
    }

    /// How the baseline is known: the word in evidence.
    pub fn basis(&self) -> &'static str {
        match self {
            _ if self.provisional => "provisional",
            _ if self.from_light_load => "learned",
            _ => "learned under load",
        }
    }

    /// Await of the evaluated load ÷ baseline.
    pub fn window_multiple(&self) -> Option<f64> {
        let r#await = self.window_load?.r#await(self.operation)?;
        (self.baseline.0 > 0.0).then(|| r#await.0 / self.baseline.0)
    }
}

/// The status of each operation of one device.
pub fn statuses_of(statuses: &[LatencyStatus], disk: DiskId) -> &[LatencyStatus] {
    let from = statuses.partition_point(|status| status.disk < disk);
    let count = statuses.iter().skip(from).take_while(|status| status.disk == disk).count();
    statuses.get(from..from + count).unwrap_or_default()
}

/// The status of one operation of one device.
pub fn find_status(statuses: &[LatencyStatus], disk: DiskId, operation: Operation) -> Option<&LatencyStatus> {
    let at = statuses.binary_search_by_key(&(disk, operation), |status| (status.disk, status.operation)).ok()?;
    statuses.get(at)
}

/// The highest load, of all operations together, at which the latency of a device was within twice its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaselineLoad {
    /// Completions per second
    pub rate: f64,
    /// `None` if no data was moved, and in a file of an earlier version
    pub kib_per_second: Option<f64>,
    /// Mean number of requests outstanding
    pub outstanding: f64,
}

/// A lasting increase of a device's latency since the first days of measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Latency in the first days
    pub reference: Millis,
    /// Latency in the last days
    pub current: Millis,
    /// The first day, in days after 1970-01-01
    pub since_day: i32,
    /// Days from the first to the last
    pub days: i32,
}

impl Drift {
    pub fn multiple(&self) -> f64 {
        self.current.0 / self.reference.0
    }
}

/// One measurement to learn from: the load of one second, or of one longer interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    pub key: BaselineKey,
    /// Kernel name of the device
    pub name: String,
    pub r#await: Millis,
    /// Time that the kernel counted for these requests, in milliseconds
    pub time_ms: f64,
    /// Whether the device had about one request at a time
    pub uncontended: bool,
    /// Whether the device had nothing to do for most of the time
    pub light_load: bool,
    /// Completions per second of all operations
    pub rate: f64,
    /// KiB per second of all operations
    pub kib_per_second: f64,
    /// Mean number of requests in flight, of all operations
    pub outstanding: f64,
    /// Of the single requests of this second, and of those before it that were too few; `None` if they are too few yet, or not
    /// measured
    pub quantiles: Option<Quantiles>,
    /// Seconds after 1970
    pub at_s: i64,
}

/// Key of a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaselineKey {
    pub device: DeviceIdentity,
    pub operation: Operation,
    pub size: SizeClass,
}

/// All baselines. Cheap to clone: clones share entries until one of them changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baselines {
    entries: Arc<BTreeMap<BaselineKey, Arc<LearnedBaseline>>>,
}

/// Fewest completions of an observation.
pub const MIN_COMPLETIONS: u64 = 5;

/// Up to this mean number of outstanding requests the device is uncontended.
pub const MAX_UNCONTENDED_OUTSTANDING: f64 = 1.2;

impl Baselines {
    /// The status of every operation with recent completions, against the baselines before this interval.
    pub fn latency_statuses(&self, interval: &Interval, window: &LatencyWindow) -> Arc<[LatencyStatus]> {
        let mut statuses = Vec::new();
        for (disk, span) in disks_with_spans(interval).filter(|(_, span)| span.completed() > 0 || window.has(span.id)) {
            let mut device = None;
            for (operation, op) in span.operations() {
                let load = window.window_load(span.id, operation);
                let kib = match (op.request_size_kib, &load) {
                    _ if op.completed > 0 => op.request_size_kib,
                    (_, Some(load)) => load.request_kib(operation),
                    _ => continue,
                };
                let size = SizeClass::from_mean_kib(kib);
                let device = device.get_or_insert_with(|| window.identity(disk)).clone();
                let learned = self.get(&BaselineKey { device, operation, size });
                let (baseline, provisional) = effective_baseline(learned, disk);
                statuses.push(LatencyStatus {
                    disk: span.id,
                    operation,
                    size,
                    baseline,
                    provisional,
                    from_light_load: learned.is_some_and(LearnedBaseline::is_from_light_load),
                    multiple: op.r#await.filter(|_| baseline.0 > 0.0).map(|r#await| r#await.0 / baseline.0),
                    learned_intervals: learned.map_or(0, |learned| learned.intervals),
                    window_load: load,
                    baseline_load: learned.and_then(LearnedBaseline::baseline_load).filter(|_| !provisional),
                    requests: learned.and_then(LearnedBaseline::quantiles).map(|baseline| RequestStatus {
                        baseline,
                        window: window.request_window(span.id, operation, &baseline),
                    }),
                });
            }
        }
        statuses.into()
    }

    /// Devices that were active in this interval and have become slower since they were first measured: the worst operation
    /// of each.
    pub fn drifts(&self, interval: &Interval, window: &LatencyWindow) -> Vec<(DiskId, Operation, SizeClass, Drift)> {
        let active = disks_with_spans(interval).filter(|(_, span)| span.completed() > 0);
        let worst = active.filter_map(|(disk, span)| {
            let device = window.identity(disk);
            let drifts =
                self.for_device(&device).filter_map(|(key, learned)| Some((key.operation, key.size, learned.drift()?)));
            let (operation, size, drift) = drifts.max_by(|a, b| a.2.multiple().total_cmp(&b.2.multiple()))?;
            Some((span.id, operation, size, drift))
        });
        worst.collect()
    }

    /// Observations of an interval that would change a baseline.
    pub fn observations(&self, interval: &Interval, window: &LatencyWindow) -> Vec<Observation> {
        let at_s = interval.at().realtime_ns.div_euclid(1_000_000_000);
        let mut observations = Vec::new();
        for (id, load) in window.finished_loads() {
            let disks = interval.newer.disks.as_deref().unwrap_or_default();
            let Some(span) = interval.disk(id) else { continue };
            let Some(disk) = disks.get(span.index) else { continue };
            let device = window.identity(disk);
            for (operation, _) in span.operations() {
                let Some(r#await) = load.r#await(operation).filter(|_| load.completed(operation) >= MIN_COMPLETIONS) else {
                    continue;
                };
                let size = SizeClass::from_mean_kib(load.request_kib(operation));
                let observation = Observation {
                    key: BaselineKey { device: device.clone(), operation, size },
                    name: String::from_utf8_lossy(disk.name.as_bytes()).into_owned(),
                    r#await,
                    time_ms: load.time_ms(operation),
                    uncontended: load.is_uncontended(operation),
                    light_load: load.is_lightly_loaded(),
                    rate: load.total_rate(),
                    kib_per_second: load.kib_per_second(),
                    outstanding: load.outstanding(),
                    quantiles: window.finished_quantiles(id, operation, size),
                    at_s,
                };
                if self.get(&observation.key).is_none_or(|learned| learned.would_change(&observation)) {
                    observations.push(observation);
                }
            }
        }
        observations
    }

    /// Adds observations, of this or of another run.
    pub fn learn(&mut self, observations: &[Observation]) {
        if observations.is_empty() {
            return;
        }
        let known = Arc::make_mut(&mut self.entries);
        for observation in observations {
            Arc::make_mut(known.entry(observation.key.clone()).or_default()).add(observation);
        }
    }

    /// Sets a baseline by hand. It does not change until it is forgotten.
    pub fn set(&mut self, key: BaselineKey, baseline: Millis) {
        let known = Arc::make_mut(&mut self.entries);
        Arc::make_mut(known.entry(key).or_default()).by_hand_ms = Some(baseline.0);
    }

    /// Removes all baselines of a device and returns their number.
    pub fn forget(&mut self, device: &DeviceIdentity) -> usize {
        let before = self.entries.len();
        Arc::make_mut(&mut self.entries).retain(|key, _| key.device != *device);
        before - self.entries.len()
    }

    /// Removes the half of the learned baselines with the oldest observations; returns whether there were any.
    fn forget_stalest(&mut self) -> bool {
        let mut confirmed: Vec<i64> =
            self.entries.values().filter(|learned| learned.by_hand_ms.is_none()).map(|learned| learned.last_s).collect();
        let middle = confirmed.len() / 2;
        if confirmed.is_empty() {
            return false;
        }
        let (_, &mut median, _) = confirmed.select_nth_unstable(middle);
        Arc::make_mut(&mut self.entries).retain(|_, learned| learned.by_hand_ms.is_some() || learned.last_s > median);
        true
    }

    /// All baselines, in the order of device, operation and size.
    pub fn iter(&self) -> impl Iterator<Item = (&BaselineKey, &LearnedBaseline)> {
        self.entries.iter().map(|(key, learned)| (key, &**learned))
    }

    /// The baselines of one device.
    pub fn for_device(&self, device: &DeviceIdentity) -> impl Iterator<Item = (&BaselineKey, &LearnedBaseline)> {
        let first = BaselineKey { device: device.clone(), operation: Operation::Read, size: SizeClass::Small };
        let device = device.clone();
        let from = self.entries.range(first..).map(|(key, learned)| (key, &**learned));
        from.take_while(move |(key, _)| key.device == device)
    }

    pub fn get(&self, key: &BaselineKey) -> Option<&LearnedBaseline> {
        self.entries.get(key).map(|learned| &**learned)
    }
}

impl FromIterator<(BaselineKey, LearnedBaseline)> for Baselines {
    fn from_iter<T: IntoIterator<Item = (BaselineKey, LearnedBaseline)>>(known: T) -> Baselines {
        Baselines { entries: Arc::new(known.into_iter().map(|(key, learned)| (key, Arc::new(learned))).collect()) }
    }
}

/// The baseline of a device, and whether it is provisional: the lowest await that 5 observations reached or, if it is
/// lower, the class default.
pub fn effective_baseline(learned: Option<&LearnedBaseline>, disk: &Disk) -> (Millis, bool) {
    if let Some(baseline) = learned.and_then(LearnedBaseline::latency) {
        return (baseline, false);
    }
    let default = device::class_default(disk);
    match learned.and_then(LearnedBaseline::lowest) {
        Some(lowest) if lowest.0 < default.0 => (lowest, true),
        _ => (default, true),
    }
}

fn disks_with_spans(interval: &Interval) -> impl Iterator<Item = (&Disk, &DiskSpan)> {
    let disks = interval.newer.disks.as_deref().unwrap_or_default();
    interval.disks.iter().filter_map(|span| Some((disks.get(span.index)?, span)))
}
