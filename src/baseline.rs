//! What is normal here: the latency of each device, operation and size class when it has one request at a time.
//!
//! A baseline is learned from intervals in which the device was nearly alone with its requests, never from one that is
//! itself slow. Until there are enough of them it is provisional. Files are touched in `store` only.

pub mod device;
pub mod format;
pub mod gather;
pub mod learned;
pub mod spread;
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

pub use device::{Device, SizeClass};
pub use gather::{Gathering, Load};
pub use learned::{Confidence, Learned};

/// Where one operation of one device stands against its baseline in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub disk: DiskId,
    pub operation: Operation,
    pub size: SizeClass,
    /// What it was judged against
    pub baseline: Millis,
    /// Not learned yet: the class default or the lowest await that 5 intervals reached. Shown with `~`.
    pub provisional: bool,
    /// await ÷ baseline; `None` where nothing completed
    pub multiple: Option<f64>,
    /// Intervals that the baseline was learned from
    pub intervals: u32,
    /// What judgement rests on: this interval, with so many before it, up to a second, as give enough completions; `None`
    /// where even those are too few
    pub judged: Option<Load>,
    /// The load at which it still was at its baseline; `None` while that is not known
    pub usual: Option<Usual>,
}

impl Standing {
    /// How many times its baseline what judgement rests on took.
    pub fn judged_multiple(&self) -> Option<f64> {
        let r#await = self.judged?.r#await(self.operation)?;
        (self.baseline.0 > 0.0).then(|| r#await.0 / self.baseline.0)
    }
}

/// Where one operation of one device stands, among those of one interval.
pub fn standing(standings: &[Standing], disk: DiskId, operation: Operation) -> Option<&Standing> {
    let at = standings.binary_search_by_key(&(disk, operation), |standing| (standing.disk, standing.operation)).ok()?;
    standings.get(at)
}

/// The highest load at which a device still answered within twice its baseline, of all kinds of requests together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usual {
    /// Completions a second
    pub rate: f64,
    /// Mean number of requests outstanding
    pub outstanding: f64,
}

/// A steady change for the worse since the first days on which a device was known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// What it took alone in the first days, and in the last ones
    pub was: Millis,
    pub now: Millis,
    /// The first day, in days after 1970-01-01
    pub since_day: i32,
    /// Days from the first to the last
    pub days: i32,
}

impl Drift {
    pub fn multiple(&self) -> f64 {
        self.now.0 / self.was.0
    }
}

/// What a second (or one longer interval) taught.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    pub key: Key,
    /// Kernel name of the device
    pub name: String,
    pub r#await: Millis,
    /// Time that the kernel counted for these requests, in milliseconds
    pub time_ms: f64,
    /// Whether it had the device nearly to itself
    pub alone: bool,
    /// Of all kinds of requests: completions a second, requests outstanding
    pub rate: f64,
    pub outstanding: f64,
    /// Seconds after 1970
    pub at_s: i64,
}

/// What a baseline is kept by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub device: Device,
    pub operation: Operation,
    pub size: SizeClass,
}

/// All baselines. Cheap to clone: clones share what they know until one of them learns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baselines {
    known: Arc<BTreeMap<Key, Arc<Learned>>>,
}

/// An interval teaches only from so many completions on: the mean of fewer says nothing.
pub const COMPLETIONS: u64 = 5;

/// Up to this mean number of outstanding requests a device has them one at a time.
pub const ALONE: f64 = 1.2;

impl Baselines {
    /// Where every operation that completed anything lately stands, judged by what was known before this interval.
    pub fn standings(&self, interval: &Interval, gathering: &Gathering) -> Arc<[Standing]> {
        let mut standings = Vec::new();
        for (disk, span) in paired(interval) {
            let mut device = None;
            for (operation, op) in span.operations() {
                let judged = gathering.judged(span.id, operation);
                let kib = match (op.request_size_kib, &judged) {
                    _ if op.completed > 0 => op.request_size_kib,
                    (_, Some(judged)) => judged.request_kib(operation),
                    _ => continue,
                };
                let size = SizeClass::of(kib);
                let device = device.get_or_insert_with(|| Device::of(disk)).clone();
                let learned = self.get(&Key { device, operation, size });
                let (baseline, provisional) = judge_by(learned, disk);
                standings.push(Standing {
                    disk: span.id,
                    operation,
                    size,
                    baseline,
                    provisional,
                    multiple: op.r#await.filter(|_| baseline.0 > 0.0).map(|r#await| r#await.0 / baseline.0),
                    intervals: learned.map_or(0, |learned| learned.intervals),
                    judged,
                    usual: learned.and_then(Learned::usual).filter(|_| !provisional),
                });
            }
        }
        standings.into()
    }

    /// Devices that did something in this interval and have become slower since they were first known: the worst of what
    /// is known of each.
    pub fn drifts(&self, interval: &Interval) -> Vec<(DiskId, Operation, SizeClass, Drift)> {
        let active = paired(interval).filter(|(_, span)| span.completed() > 0);
        let worst = active.filter_map(|(disk, span)| {
            let device = Device::of(disk);
            let drifts = self.of(&device).filter_map(|(key, learned)| Some((key.operation, key.size, learned.drift()?)));
            let (operation, size, drift) = drifts.max_by(|a, b| a.2.multiple().total_cmp(&b.2.multiple()))?;
            Some((span.id, operation, size, drift))
        });
        worst.collect()
    }

    /// What an interval teaches that would change anything here.
    pub fn lessons(&self, interval: &Interval, gathering: &Gathering) -> Vec<Lesson> {
        let at_s = interval.at().realtime_ns.div_euclid(1_000_000_000);
        let mut lessons = Vec::new();
        for (id, load) in gathering.ripe() {
            let disks = interval.newer.disks.as_deref().unwrap_or_default();
            let Some(span) = interval.disk(id) else { continue };
            let Some(disk) = disks.get(span.index) else { continue };
            let device = Device::of(disk);
            for (operation, _) in span.operations() {
                let Some(r#await) = load.r#await(operation).filter(|_| load.completed(operation) >= COMPLETIONS) else {
                    continue;
                };
                let size = SizeClass::of(load.request_kib(operation));
                let lesson = Lesson {
                    key: Key { device: device.clone(), operation, size },
                    name: String::from_utf8_lossy(disk.name.as_bytes()).into_owned(),
                    r#await,
                    time_ms: load.time_ms(operation),
                    alone: load.is_alone(operation),
                    rate: load.rate_of_all(),
                    outstanding: load.outstanding(),
                    at_s,
                };
                if self.get(&lesson.key).is_none_or(|learned| learned.would_change(&lesson)) {
                    lessons.push(lesson);
                }
            }
        }
        lessons
    }

    /// Takes in what was taught, here or by another run.
    pub fn learn(&mut self, lessons: &[Lesson]) {
        if lessons.is_empty() {
            return;
        }
        let known = Arc::make_mut(&mut self.known);
        for lesson in lessons {
            Arc::make_mut(known.entry(lesson.key.clone()).or_default()).take(lesson);
        }
    }

    /// Set one by hand. It holds until it is forgotten.
    pub fn set(&mut self, key: Key, baseline: Millis) {
        let known = Arc::make_mut(&mut self.known);
        Arc::make_mut(known.entry(key).or_default()).by_hand_ms = Some(baseline.0);
    }

    /// Forget all about a device; how many baselines that were.
    pub fn forget(&mut self, device: &Device) -> usize {
        let before = self.known.len();
        Arc::make_mut(&mut self.known).retain(|key, _| key.device != *device);
        before - self.known.len()
    }

    /// Forgets that half of what was learned which was confirmed longest ago; whether there was anything.
    fn forget_stalest(&mut self) -> bool {
        let mut confirmed: Vec<i64> =
            self.known.values().filter(|learned| learned.by_hand_ms.is_none()).map(|learned| learned.last_s).collect();
        let middle = confirmed.len() / 2;
        if confirmed.is_empty() {
            return false;
        }
        let (_, &mut median, _) = confirmed.select_nth_unstable(middle);
        Arc::make_mut(&mut self.known).retain(|_, learned| learned.by_hand_ms.is_some() || learned.last_s > median);
        true
    }

    /// Everything that is known, in order of device, operation and size.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Learned)> {
        self.known.iter().map(|(key, learned)| (key, &**learned))
    }

    /// What is known of one device.
    pub fn of(&self, device: &Device) -> impl Iterator<Item = (&Key, &Learned)> {
        let first = Key { device: device.clone(), operation: Operation::Read, size: SizeClass::Small };
        let device = device.clone();
        let from = self.known.range(first..).map(|(key, learned)| (key, &**learned));
        from.take_while(move |(key, _)| key.device == device)
    }

    pub fn get(&self, key: &Key) -> Option<&Learned> {
        self.known.get(key).map(|learned| &**learned)
    }
}

impl FromIterator<(Key, Learned)> for Baselines {
    fn from_iter<T: IntoIterator<Item = (Key, Learned)>>(known: T) -> Baselines {
        Baselines { known: Arc::new(known.into_iter().map(|(key, learned)| (key, Arc::new(learned))).collect()) }
    }
}

/// What a device is judged by, and whether that is provisional: the lowest await that 5 intervals reached, or, if it is
/// lower, the class default.
pub fn judge_by(learned: Option<&Learned>, disk: &Disk) -> (Millis, bool) {
    if let Some(baseline) = learned.and_then(Learned::baseline) {
        return (baseline, false);
    }
    let default = device::class_default(disk);
    match learned.and_then(Learned::lowest) {
        Some(lowest) if lowest.0 < default.0 => (lowest, true),
        _ => (default, true),
    }
}

fn paired(interval: &Interval) -> impl Iterator<Item = (&Disk, &DiskSpan)> {
    let disks = interval.newer.disks.as_deref().unwrap_or_default();
    interval.disks.iter().filter_map(|span| Some((disks.get(span.index)?, span)))
}
