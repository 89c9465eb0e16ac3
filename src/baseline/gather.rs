//! Completions of each device over up to a second of intervals: at ten samples a second a disk that answers 30 requests a
//! second never has five in one of them.
//!
//! What is judged is the shortest run of the latest intervals with enough completions; what teaches is each second once.

use std::collections::VecDeque;

use super::{ALONE, COMPLETIONS};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::{DiskSpan, Operation};
use crate::units::Millis;

/// What teaches is no shorter than this (a second, with room for late samples): else a second at ten samples a second
/// would teach as much as ten at one.
const QUANTUM_S: f64 = 0.95;

/// What is judged reaches no further back than this, unless one interval alone does.
const REACH_S: f64 = 1.05;

/// What one device did for some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    pub seconds: f64,
    /// In the order of `Operation`
    sums: [Sum; 4],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    completed: u64,
    time_ms: f64,
    kib: f64,
}

impl Load {
    fn of(span: &DiskSpan, seconds: f64) -> Load {
        let mut load = Load { seconds, ..Load::default() };
        for (operation, op) in span.operations() {
            if let Some(sum) = load.sums.get_mut(operation as usize) {
                let each = |mean: Option<f64>| mean.map_or(0.0, |mean| mean * op.completed as f64);
                *sum =
                    Sum { completed: op.completed, time_ms: each(op.r#await.map(|ms| ms.0)), kib: each(op.request_size_kib) };
            }
        }
        load
    }

    fn add(&mut self, other: &Load) {
        self.seconds += other.seconds;
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            sum.completed = sum.completed.saturating_add(more.completed);
            sum.time_ms += more.time_ms;
            sum.kib += more.kib;
        }
    }

    fn sum(&self, operation: Operation) -> Sum {
        self.sums.get(operation as usize).copied().unwrap_or_default()
    }

    pub fn completed(&self, operation: Operation) -> u64 {
        self.sum(operation).completed
    }

    /// Milliseconds that the kernel counted for this operation, all requests together.
    pub fn time_ms(&self, operation: Operation) -> f64 {
        self.sum(operation).time_ms
    }

    /// Mean time a request; `None` where none completed.
    pub fn r#await(&self, operation: Operation) -> Option<Millis> {
        let sum = self.sum(operation);
        (sum.completed > 0).then(|| Millis(sum.time_ms / sum.completed as f64))
    }

    /// KiB a request.
    pub fn request_kib(&self, operation: Operation) -> Option<f64> {
        let sum = self.sum(operation);
        (sum.completed > 0).then(|| sum.kib / sum.completed as f64)
    }

    /// Completions of this operation a second.
    pub fn rate(&self, operation: Operation) -> f64 {
        if self.seconds > 0.0 { self.sum(operation).completed as f64 / self.seconds } else { 0.0 }
    }

    /// Completions of all kinds a second.
    pub fn rate_of_all(&self) -> f64 {
        let completed = self.sums.iter().map(|sum| sum.completed).fold(0, u64::saturating_add);
        if self.seconds > 0.0 { completed as f64 / self.seconds } else { 0.0 }
    }

    /// Mean number of requests of this kind outstanding.
    pub fn concurrency(&self, operation: Operation) -> f64 {
        if self.seconds > 0.0 { self.sum(operation).time_ms / 1000.0 / self.seconds } else { 0.0 }
    }

    /// Mean number of requests outstanding that carry data: reads, writes, discards.
    fn data(&self) -> f64 {
        [Operation::Read, Operation::Write, Operation::Discard].into_iter().map(|operation| self.concurrency(operation)).sum()
    }

    /// Mean number of requests outstanding, of all kinds.
    pub fn outstanding(&self) -> f64 {
        self.data() + self.concurrency(Operation::Flush)
    }

    /// Whether an operation had the device nearly to itself. Reads and writes delay each other, so all of them count.
    /// A commit's writes wait for the flush before and behind them, which the kernel adds to the writes: a flush is alone
    /// beside one such writer.
    pub fn is_alone(&self, operation: Operation) -> bool {
        match operation {
            Operation::Flush => self.concurrency(operation) <= ALONE && self.data() <= 2.0 * ALONE,
            _ => self.data() <= ALONE,
        }
    }

    /// Whether nothing completed.
    fn is_idle(&self) -> bool {
        self.sums.iter().all(|sum| sum.completed == 0)
    }
}

/// What the judge remembers of the last second: nothing at all of devices that did nothing in it.
#[derive(Clone, Debug, Default)]
pub struct Gathering {
    /// Sorted by id, as an interval's devices are
    disks: Vec<Gathered>,
}

#[derive(Clone, Debug)]
struct Gathered {
    id: DiskId,
    /// The latest intervals, oldest first
    recent: VecDeque<Load>,
    /// What has not taught yet
    growing: Load,
    /// What teaches now
    ripe: Option<Load>,
}

impl Gathering {
    /// Takes in the interval that follows those before.
    pub fn take(&mut self, interval: &Interval) {
        let mut disks = Vec::with_capacity(self.disks.len());
        let mut known = std::mem::take(&mut self.disks).into_iter().peekable();
        for span in &interval.disks {
            let load = Load::of(span, interval.seconds);
            while known.next_if(|gathered| gathered.id < span.id).is_some() {}
            let mut gathered = match known.next_if(|gathered| gathered.id == span.id) {
                Some(gathered) => gathered,
                None if load.is_idle() => continue,
                None => Gathered { id: span.id, recent: VecDeque::new(), growing: Load::default(), ripe: None },
            };
            gathered.take(load);
            if !gathered.is_idle() {
                disks.push(gathered);
            }
        }
        // A device that was not there at both ends of the interval is another one when it comes back.
        self.disks = disks;
    }

    /// What one operation of one device is judged by; `None` where a second had too few completions.
    pub fn judged(&self, disk: DiskId, operation: Operation) -> Option<Load> {
        let gathered = self.disks.get(self.disks.binary_search_by_key(&disk, |gathered| gathered.id).ok()?)?;
        let mut sum = Load::default();
        gathered.recent.iter().rev().find_map(|load| {
            sum.add(load);
            (sum.completed(operation) >= COMPLETIONS).then_some(sum)
        })
    }

    /// What teaches now, each second once.
    pub fn ripe(&self) -> impl Iterator<Item = (DiskId, &Load)> {
        self.disks.iter().filter_map(|gathered| Some((gathered.id, gathered.ripe.as_ref()?)))
    }
}

impl Gathered {
    fn take(&mut self, load: Load) {
        self.recent.push_back(load);
        while self.recent.len() > 1 && self.recent.iter().map(|load| load.seconds).sum::<f64>() > REACH_S {
            self.recent.pop_front();
        }
        self.growing.add(&load);
        self.ripe = (self.growing.seconds >= QUANTUM_S).then(|| std::mem::take(&mut self.growing));
    }

    fn is_idle(&self) -> bool {
        self.recent.iter().all(Load::is_idle) && self.growing.is_idle() && self.ripe.is_none()
    }
}
