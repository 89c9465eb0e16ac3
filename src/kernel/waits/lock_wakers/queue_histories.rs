//! Which queues at mutexes exist for so long that they are watched, and which threads were seen in them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Place;

/// Threads that wait at one address from which a queue is watched.
const MIN_MUTEX_WAITERS: usize = 4;
/// It is watched when it has stood for so long.
const STANDING_NS: u64 = 1_000_000_000;
/// No thread, or only one, has waited there for so long: it is not watched any longer.
const FORGET_NS: u64 = 900_000_000;
/// Threads that were seen to wait at one address are forgotten above this number, so that threads that come and go do not fill memory.
const MAX_MEMBERS: usize = 4096;

/// The addresses at which threads have waited for a while. Times are of CLOCK_BOOTTIME.
#[derive(Debug, Default)]
pub struct QueueHistories {
    histories: FxHashMap<Place, QueueHistory>,
}

/// An address at which threads have waited for a while.
#[derive(Debug, Default)]
pub struct QueueHistory {
    /// When `MIN_MUTEX_WAITERS` threads were first seen there
    since_ns: Option<u64>,
    /// When a holder of another such mutex was last seen to wait there
    chained_at_ns: Option<u64>,
    /// When two threads were last seen there
    last_ns: u64,
    /// tids of the threads that were seen to wait there
    members: FxHashSet<u32>,
}

impl QueueHistories {
    /// Adds the queues of a sub-sample, with the tids of the threads in each.
    pub fn update<'a>(&mut self, queues: impl Iterator<Item = (Place, &'a [u32])>, now_ns: u64) {
        for (place, tids) in queues {
            if tids.len() >= MIN_MUTEX_WAITERS {
                self.histories.entry(place).or_default().since_ns.get_or_insert(now_ns);
            }
            let Some(history) = self.histories.get_mut(&place) else { continue };
            if history.members.len() > MAX_MEMBERS.max(2 * tids.len()) {
                history.members.clear();
            }
            history.members.extend(tids);
            if tids.len() > 1 {
                history.last_ns = now_ns;
            }
        }
        self.histories.retain(|_, queue| now_ns.saturating_sub(queue.last_ns) < FORGET_NS);
    }

    /// A holder of another such mutex waits there: the chain goes on, however few threads wait.
    pub fn chain(&mut self, place: Place, now_ns: u64) {
        let history = self.histories.entry(place).or_default();
        history.chained_at_ns = Some(now_ns);
        history.last_ns = now_ns;
    }

    /// Those that are to be watched.
    pub fn standing(&self, now_ns: u64) -> Vec<Place> {
        self.histories.iter().filter(|(_, queue)| queue.stands(now_ns)).map(|(&place, _)| place).collect()
    }

    pub fn get(&self, place: Place) -> Option<&QueueHistory> {
        self.histories.get(&place)
    }
}

impl QueueHistory {
    /// Whether a thread that woke another one there may hold the mutex. The mutex for which the holder of another one waits may be held
    /// by a thread that is never seen to wait for it.
    pub fn may_hold(&self, tid: u32, now_ns: u64) -> bool {
        self.is_chained(now_ns) || self.members.contains(&tid)
    }

    /// Whether a holder of another such mutex waits there.
    pub fn is_chained(&self, now_ns: u64) -> bool {
        self.chained_at_ns.is_some_and(|at_ns| now_ns.saturating_sub(at_ns) < FORGET_NS)
    }

    /// Whether it is to be watched: one for which the holder of another mutex waits at once.
    fn stands(&self, now_ns: u64) -> bool {
        self.is_chained(now_ns) || self.since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= STANDING_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: Place = (7, 0x1000);

    fn ms(ms: u64) -> u64 {
        ms * 1_000_000
    }

    /// Whether the queue is to be watched after so many threads were seen in it.
    fn stands(histories: &mut QueueHistories, at_ms: u64, waiters: u32) -> bool {
        let tids: Vec<u32> = (1..=waiters).collect();
        histories.update([(LOCK, tids.as_slice())].into_iter().filter(|(_, tids)| !tids.is_empty()), ms(at_ms));
        histories.standing(ms(at_ms)) == [LOCK]
    }

    #[test]
    fn a_queue_stands_after_a_second_and_is_forgotten_when_it_is_gone() {
        let mut histories = QueueHistories::default();
        let mut standing = |seen: [(u64, u32); 4]| seen.map(|(at_ms, waiters)| stands(&mut histories, at_ms, waiters));
        assert_eq!(standing([(100, 3), (200, 4), (300, 2), (1100, 1)]), [false; 4]);
        assert_eq!(standing([(1150, 5), (1200, 1), (2000, 0), (2050, 0)]), [false, true, true, false]);
        assert_eq!(standing([(2100, 5), (2900, 2), (3050, 2), (3100, 2)]), [false, false, false, true], "it began anew");
    }

    #[test]
    fn a_queue_that_leads_on_stands_at_once_and_only_while_it_does() {
        let mut histories = QueueHistories::default();
        assert!(!stands(&mut histories, 5000, 4));
        histories.chain(LOCK, ms(5500));
        assert!(stands(&mut histories, 5600, 1), "few threads wait there");
        let may_hold = |histories: &QueueHistories, tid, at_ms| histories.get(LOCK).unwrap().may_hold(tid, ms(at_ms));
        assert!(may_hold(&histories, 9, 5600));
        let after = 6400;
        assert_eq!(histories.standing(ms(after)), [LOCK], "it has stood for a second since it was first seen");
        assert!(
            may_hold(&histories, 1, after) && !may_hold(&histories, 9, after),
            "one that never waited there hands out work"
        );
        let mut other = QueueHistories::default();
        other.chain(LOCK, ms(5500));
        assert_eq!((other.standing(ms(5600)), other.standing(ms(after))), (vec![LOCK], vec![]));
    }
}
