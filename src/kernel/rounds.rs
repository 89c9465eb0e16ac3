//! What is known of devices is looked at again in rounds, some devices a sample: all of a usual machine's at once, and of one
//! that has thousands so few that no sample is dear.

use std::time::{Duration, Instant};

/// So many devices are looked at again in one sample: some milliseconds' worth.
pub const AT_ONCE: usize = 64;

/// Whose turn it is.
#[derive(Debug)]
pub struct Rounds<K> {
    every: Duration,
    begun: Option<Instant>,
    /// Those whose turn comes in this round
    left: Vec<K>,
    /// Something happened since it began
    again: bool,
}

impl<K> Rounds<K> {
    /// A round begins so long after the one before at the latest.
    pub fn every(every: Duration) -> Rounds<K> {
        Rounds { every, begun: None, left: Vec::new(), again: false }
    }

    /// Whether a round is to begin: because something happened, or the last one began long ago. One that is not over yet is
    /// gone through first, so that everybody has a turn however often something happens.
    pub fn is_due(&mut self, happened: bool) -> bool {
        self.again |= happened;
        self.left.is_empty() && (self.again || self.begun.is_none_or(|begun| begun.elapsed() >= self.every))
    }

    /// Begins a round of all these.
    pub fn begin(&mut self, all: impl Iterator<Item = K>) {
        self.left.clear();
        self.left.extend(all);
        self.begun = Some(Instant::now());
        self.again = false;
    }

    /// Those whose turn it is now.
    pub fn turn(&mut self) -> impl Iterator<Item = K> {
        self.left.drain(self.left.len().saturating_sub(AT_ONCE)..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_before_anybody_has_another() {
        let mut rounds = Rounds::every(Duration::MAX);
        assert!(rounds.is_due(false), "there was none yet");
        rounds.begin(0..AT_ONCE * 2 + 5);
        let mut seen = Vec::new();
        for looks in [AT_ONCE, AT_ONCE, 5] {
            // Something happens all the time.
            assert!(!rounds.is_due(true));
            let before = seen.len();
            seen.extend(rounds.turn());
            assert_eq!(seen.len() - before, looks);
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..AT_ONCE * 2 + 5));
        assert!(rounds.is_due(false), "something happened meanwhile");
        rounds.begin(0..1);
        assert_eq!(rounds.turn().count(), 1);
        assert!(!rounds.is_due(false));
    }

    #[test]
    fn a_round_begins_after_a_while_though_nothing_happened() {
        let mut rounds = Rounds::every(Duration::ZERO);
        rounds.begin(0..1);
        assert_eq!(rounds.turn().count(), 1);
        assert!(rounds.is_due(false));
    }
}
