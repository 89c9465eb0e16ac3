//! Facts about devices are read again in cycles, a bounded number of devices a sample: all at once on most hosts, and on one with thousands
//! so few that no sample is expensive.

use std::time::{Duration, Instant};

/// Devices read again in one sample: a few milliseconds.
pub const BATCH_SIZE: usize = 64;

/// Which devices are read next.
#[derive(Debug)]
pub struct RefreshCycle<K> {
    period: Duration,
    started: Option<Instant>,
    /// Devices still to be read in this cycle
    pending: Vec<K>,
    /// Something changed since the cycle began
    restart_requested: bool,
}

impl<K> RefreshCycle<K> {
    /// A cycle begins at the latest so long after the last one.
    pub fn with_period(every: Duration) -> RefreshCycle<K> {
        RefreshCycle { period: every, started: None, pending: Vec::new(), restart_requested: false }
    }

    /// Whether a cycle should begin: something changed, or the last one began long ago. A running cycle is completed first, so that every
    /// device is read however often something changes.
    pub fn is_due(&mut self, happened: bool) -> bool {
        self.restart_requested |= happened;
        self.pending.is_empty() && (self.restart_requested || self.started.is_none_or(|begun| begun.elapsed() >= self.period))
    }

    /// Begins a cycle of these devices.
    pub fn start(&mut self, all: impl Iterator<Item = K>) {
        self.pending.clear();
        self.pending.extend(all);
        self.started = Some(Instant::now());
        self.restart_requested = false;
    }

    /// The devices to be read in this sample.
    pub fn next_batch(&mut self) -> impl Iterator<Item = K> {
        self.pending.drain(self.pending.len().saturating_sub(BATCH_SIZE)..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_before_anybody_has_another() {
        let mut rounds = RefreshCycle::with_period(Duration::MAX);
        assert!(rounds.is_due(false), "there was none yet");
        rounds.start(0..BATCH_SIZE * 2 + 5);
        let mut seen = Vec::new();
        for looks in [BATCH_SIZE, BATCH_SIZE, 5] {
            // Something changes all the time.
            assert!(!rounds.is_due(true));
            let before = seen.len();
            seen.extend(rounds.next_batch());
            assert_eq!(seen.len() - before, looks);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..BATCH_SIZE * 2 + 5));
        assert!(rounds.is_due(false), "something happened meanwhile");
        rounds.start(0..1);
        assert_eq!(rounds.next_batch().count(), 1);
        assert!(!rounds.is_due(false));
    }

    #[test]
    fn a_round_begins_after_a_while_though_nothing_happened() {
        let mut rounds = RefreshCycle::with_period(Duration::ZERO);
        rounds.start(0..1);
        assert_eq!(rounds.next_batch().count(), 1);
        assert!(rounds.is_due(false));
    }
}
