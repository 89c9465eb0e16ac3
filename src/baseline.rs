//! What is normal here: the latency of each device, operation and size class when it has one request at a time.
//!
//! A baseline is learned from intervals in which the device was nearly alone with its requests, never from one that is
//! itself slow. Until there are enough of them it is provisional. Files are touched in `store` only.

pub mod device;
pub mod learned;
pub mod store;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, OpSpan, Operation};
use crate::sample::disk::Disk;
use crate::units::Millis;

pub use device::{Device, SizeClass};
pub use learned::Learned;

/// Where one operation of one device stands against its baseline in one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    pub disk: DiskId,
    pub operation: Operation,
    /// What it was judged against
    pub baseline: Millis,
    /// Not learned yet: the class default or the lowest await that 5 intervals reached. Shown with `~`.
    pub provisional: bool,
    /// await ÷ baseline; `None` where nothing completed
    pub multiple: Option<f64>,
    /// Intervals that the baseline was learned from
    pub intervals: u32,
    /// What it took when nearly alone, from however few intervals, while the baseline is provisional
    pub alone: Option<Millis>,
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
    known: Arc<BTreeMap<Key, Learned>>,
}

/// An interval teaches only from so many completions on: the mean of fewer says nothing.
pub const COMPLETIONS: u64 = 5;

/// Up to this mean number of outstanding requests a device has them one at a time.
pub const ALONE: f64 = 1.2;

impl Baselines {
    /// Where every operation that completed anything stands, judged by what was known before this interval.
    pub fn standings(&self, interval: &Interval) -> Arc<[Standing]> {
        let mut standings = Vec::new();
        for (disk, span) in paired(interval) {
            let device = Device::of(disk);
            for (operation, op) in span.operations() {
                let Some(r#await) = op.r#await else { continue };
                let learned = self.known.get(&Key { device: device.clone(), operation, size: SizeClass::of(op) });
                let default = device::class_default(disk);
                let (baseline, provisional) = match learned.and_then(Learned::baseline) {
                    Some(baseline) => (baseline, false),
                    None => (provisional(learned, default), true),
                };
                standings.push(Standing {
                    disk: span.id,
                    operation,
                    baseline,
                    provisional,
                    multiple: (baseline.0 > 0.0).then(|| r#await.0 / baseline.0),
                    intervals: learned.map_or(0, |learned| learned.intervals),
                    alone: learned.and_then(Learned::alone),
                });
            }
        }
        standings.into()
    }

    /// Take in what one interval teaches.
    pub fn learn(&mut self, interval: &Interval) {
        let now_s = interval.at().realtime_ns.div_euclid(1_000_000_000);
        for (disk, span) in paired(interval) {
            for (operation, op) in span.operations() {
                let Some(r#await) = op.r#await.filter(|_| op.completed >= COMPLETIONS) else { continue };
                let key = Key { device: Device::of(disk), operation, size: SizeClass::of(op) };
                let alone = alone(span, operation, op);
                if self.known.get(&key).is_some_and(|learned| !learned.would_change(r#await, alone)) {
                    continue;
                }
                Arc::make_mut(&mut self.known).entry(key).or_default().add(r#await, alone, now_s, disk);
            }
        }
    }

    /// Set one by hand. It holds until it is forgotten.
    pub fn set(&mut self, key: Key, baseline: Millis) {
        Arc::make_mut(&mut self.known).entry(key).or_default().by_hand_ms = Some(baseline.0);
    }

    /// Forget all about a device; how many baselines that were.
    pub fn forget(&mut self, device: &Device) -> usize {
        let before = self.known.len();
        Arc::make_mut(&mut self.known).retain(|key, _| key.device != *device);
        before - self.known.len()
    }

    /// Everything that is known, in order of device, operation and size.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Learned)> {
        self.known.iter()
    }

    /// Keep what another run has learned meanwhile wherever it rests on more intervals, or was set by hand there alone.
    pub fn merge(&mut self, other: &Baselines) {
        for (key, theirs) in other.iter() {
            let ours = self.known.get(key);
            if ours.is_none_or(|ours| {
                ours.by_hand_ms.is_none() && (theirs.by_hand_ms.is_some() || theirs.intervals > ours.intervals)
            }) {
                Arc::make_mut(&mut self.known).insert(key.clone(), theirs.clone());
            }
        }
    }
}

/// The lowest await that 5 intervals reached, or, if it is lower, the class default.
fn provisional(learned: Option<&Learned>, default: Millis) -> Millis {
    match learned.and_then(Learned::lowest) {
        Some(lowest) if lowest.0 < default.0 => lowest,
        _ => default,
    }
}

/// Whether an operation had the device nearly to itself. Reads and writes delay each other, so all of them count.
/// A commit's writes wait for the flush before and behind them, which the kernel adds to the writes: a flush is alone
/// beside one such writer.
fn alone(span: &DiskSpan, operation: Operation, op: &OpSpan) -> bool {
    let data = span.reads.concurrency + span.writes.concurrency + span.discards.map_or(0.0, |op| op.concurrency);
    match operation {
        Operation::Flush => op.concurrency <= ALONE && data <= 2.0 * ALONE,
        _ => data <= ALONE,
    }
}

fn paired(interval: &Interval) -> impl Iterator<Item = (&Disk, &DiskSpan)> {
    let disks = interval.newer.disks.as_deref().unwrap_or_default();
    interval.disks.iter().filter_map(|span| Some((disks.get(span.index)?, span)))
}
