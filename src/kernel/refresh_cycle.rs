//! Schedules when the facts of devices are read again: a limited number of devices in each sample, so that no sample is
//! expensive on a machine with thousands of devices.

use std::time::{Duration, Instant};

/// Devices whose facts are read again in one sample: some milliseconds.
pub const BATCH_SIZE: usize = 64;

/// A cycle over all devices, some in each sample.
#[derive(Debug)]
pub struct RefreshCycle<K> {
    period: Duration,
    started: Option<Instant>,
    /// Devices that are still due in this cycle
    pending: Vec<K>,
    /// Whether a device changed since the cycle started
    restart_requested: bool,
}

impl<K> RefreshCycle<K> {
    /// A cycle starts at the latest `period` after the one before.
    pub fn with_period(period: Duration) -> RefreshCycle<K> {
        RefreshCycle { period, started: None, pending: Vec::new(), restart_requested: false }
    }

    /// Whether a cycle is to start: a device changed (`changed`, now or earlier), or the period is over. A running cycle is completed first, so that each
    /// device is read however often devices change.
    pub fn is_due(&mut self, changed: bool) -> bool {
        self.restart_requested |= changed;
        self.pending.is_empty() && (self.restart_requested || self.started.is_none_or(|begun| begun.elapsed() >= self.period))
    }

    /// Starts a cycle over all these.
    pub fn start(&mut self, all: impl Iterator<Item = K>) {
        self.pending.clear();
        self.pending.extend(all);
        self.started = Some(Instant::now());
        self.restart_requested = false;
    }

    /// The devices that are due in this sample.
    pub fn next_batch(&mut self) -> impl Iterator<Item = K> {
        self.pending.drain(self.pending.len().saturating_sub(BATCH_SIZE)..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_is_read_once_before_any_is_read_again() {
        let mut cycle = RefreshCycle::with_period(Duration::MAX);
        assert!(cycle.is_due(false), "there was none yet");
        cycle.start(0..BATCH_SIZE * 2 + 5);
        let mut seen = Vec::new();
        for runs in [BATCH_SIZE, BATCH_SIZE, 5] {
            // Something changes all the time.
            assert!(!cycle.is_due(true));
            let before = seen.len();
            seen.extend(cycle.next_batch());
            assert_eq!(seen.len() - before, runs);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..BATCH_SIZE * 2 + 5));
        assert!(cycle.is_due(false), "something happened meanwhile");
        cycle.start(0..1);
        assert_eq!(cycle.next_batch().count(), 1);
        assert!(!cycle.is_due(false));
    }

    #[test]
    fn a_cycle_starts_after_its_period_without_an_event() {
        let mut cycle = RefreshCycle::with_period(Duration::ZERO);
        cycle.start(0..1);
        assert_eq!(cycle.next_batch().count(), 1);
        assert!(cycle.is_due(false));
    }
}
