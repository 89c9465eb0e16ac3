//! What is known of devices is looked at again in rounds, some devices a sample: all of a usual machine's at once, and of one
//! that has thousands so few that no sample is dear.

use std::time::{Duration, Instant};

/// So many devices are looked at again in one sample: some milliseconds' worth.
pub const BATCH_SIZE: usize = 64;

/// Whose turn it is.
#[derive(Debug)]
pub struct RefreshCycle<K> {
    period: Duration,
    started: Option<Instant>,
    /// Those whose turn comes in this round
    pending: Vec<K>,
    /// Something happened since it began
    restart_requested: bool,
}

impl<K> RefreshCycle<K> {
    /// A round begins so long after the one before at the latest.
    pub fn with_period(every: Duration) -> RefreshCycle<K> {
        RefreshCycle { period: every, started: None, pending: Vec::new(), restart_requested: false }
    }

    /// Whether a round is to begin: because something happened, or the last one began long ago. One that is not over yet is
    /// gone through first, so that everybody has a turn however often something happens.
    pub fn is_due(&mut self, happened: bool) -> bool {
        self.restart_requested |= happened;
        self.pending.is_empty() && (self.restart_requested || self.started.is_none_or(|begun| begun.elapsed() >= self.period))
    }

    /// Begins a round of all these.
    pub fn start(&mut self, all: impl Iterator<Item = K>) {
        self.pending.clear();
        self.pending.extend(all);
        self.started = Some(Instant::now());
        self.restart_requested = false;
    }

    /// Those whose turn it is now.
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
            // Something happens all the time.
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
