//! Counts attempts, most samples lost and most memory used; prints one line for each kind of damage.

use std::time::{Duration, Instant};

use crate::counting_allocator::most_held;

pub const MIB: usize = 1 << 20;

/// Whether all damage is tried, not a part of it.
pub fn full() -> bool {
    std::env::var_os("STALLTOP_FULL").is_some()
}

/// The results of one kind of trial. A wrong value, a panic or too much memory fails the test at once.
pub struct Trials {
    what: &'static str,
    tried: u64,
    samples: usize,
    lost: usize,
    memory: usize,
    slowest: Duration,
}

impl Trials {
    /// Of recordings of so many samples.
    pub fn new(what: &'static str, samples: usize) -> Trials {
        Trials { what, tried: 0, samples, lost: 0, memory: 0, slowest: Duration::ZERO }
    }

    /// One trial, which may allocate at most `cap` bytes, and returns the number of lost samples.
    pub fn run(&mut self, cap: usize, trial: impl FnOnce() -> usize) {
        let begun = Instant::now();
        let (lost, memory) = most_held(trial);
        assert!(memory <= cap, "{}: {memory} bytes at once, and {cap} are allowed", self.what);
        self.tried += 1;
        self.lost = self.lost.max(lost);
        self.memory = self.memory.max(memory);
        self.slowest = self.slowest.max(begun.elapsed());
    }

    /// Adds the trials of another thread.
    pub fn add(&mut self, other: Trials) {
        self.tried += other.tried;
        self.lost = self.lost.max(other.lost);
        self.memory = self.memory.max(other.memory);
        self.slowest = self.slowest.max(other.slowest);
        // Its trials are in this line.
        std::mem::forget(other);
    }

    /// Most samples lost in one trial.
    pub fn lost(&self) -> usize {
        self.lost
    }
}

/// Prints the line if no trial failed.
impl Drop for Trials {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let Trials { what, tried, samples, lost, memory, slowest } = self;
        let (kib, ms) = (memory.div_ceil(1024), slowest.as_millis());
        println!("\n| {what} | {tried} | {tried} | 0 | {lost} of {samples} | {kib} KiB | {ms} ms |");
    }
}
