//! Which locks are read in one sub-sample, if there are more than may be read.

use std::cmp::Reverse;
use std::hash::Hash;

use rustc_hash::FxHashSet;

use crate::units::SmallSort;

/// Locks whose owner is read in one sub-sample: each takes about 25 µs. If there are more, the locks of a chain are among them, and
/// otherwise half of them are the locks with the most waiters. The others take turns in the rest.
pub const MAX_LOCKS: usize = 8;
/// Locks of longer chains take turns, too.
const MAX_FIXED: usize = 6;

/// Chooses locks by their place `P`.
#[derive(Debug)]
pub struct ReadingTurns<P> {
    /// Those of which the last reading named an owner that waits for another lock, and that lock, and those whose owner has ended: a deadlock
    /// of locks with few waiters is seen only if all of its locks are read in most sub-samples.
    pub chained: FxHashSet<P>,
    /// The lock that was read last in its turn
    last_in_turn: Option<P>,
}

impl<P> Default for ReadingTurns<P> {
    fn default() -> ReadingTurns<P> {
        ReadingTurns { chained: FxHashSet::default(), last_in_turn: None }
    }
}

impl<P: Copy + Eq + Ord + Hash> ReadingTurns<P> {
    /// The locks that are read in this sub-sample, of these with their numbers of waiters.
    pub fn select(&mut self, mut places: Vec<(P, u32)>) -> Vec<P> {
        places.small_sort_by_key(|&(place, waiters)| (!self.chained.contains(&place), Reverse(waiters), place));
        let mut places: Vec<P> = places.into_iter().map(|(place, _)| place).collect();
        if places.len() <= MAX_LOCKS {
            return places;
        }
        let fixed = self.chained.len().clamp(MAX_LOCKS / 2, MAX_FIXED);
        let mut others = places.split_off(fixed);
        others.sort_unstable();
        let next = others.partition_point(|&place| self.last_in_turn.is_some_and(|last| place <= last));
        let next = if next == others.len() { 0 } else { next };
        others.rotate_left(next);
        others.truncate(MAX_LOCKS - fixed);
        self.last_in_turn = others.last().copied();
        places.extend(others);
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_a_chain_and_those_with_most_waiters_are_always_read_and_the_others_in_turn() {
        let mut turns: ReadingTurns<u32> = ReadingTurns::default();
        turns.chained.insert(20);
        let all: Vec<(u32, u32)> = (1..=20).map(|place| (place, if place == 7 { 9 } else { 1 })).collect();
        let mut seen: FxHashSet<u32> = FxHashSet::default();
        for _ in 0..5 {
            let selected = turns.select(all.clone());
            assert_eq!(selected.len(), MAX_LOCKS);
            assert!(selected.contains(&20) && selected.contains(&7), "{selected:?}");
            seen.extend(selected);
        }
        assert_eq!(seen.len(), 20);
        assert_eq!(turns.select(vec![(3, 1)]), [3]);
    }
}
