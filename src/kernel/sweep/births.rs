//! Whether processes were born since the last walk through /proc, and which numbers they can have: where nothing was born, or
//! little, nobody need walk.
//!
//! The kernel counts forks (/proc/stat) and gives away numbers one after the other (the last one stands in /proc/loadavg), so
//! that whoever is new has a number between then and now. Who restores a process (CRIU) chooses its number himself: that shows
//! where more were born than numbers were given, and at the latest in the walk that is made now and then all the same. In a pid
//! namespace it shows in that walk only: forks are counted for the whole machine, numbers for the namespace.

use std::ops::RangeInclusive;

use crate::units::Counter;

/// A walk is made after so long in any case, once anything was born.
const WALK_NS: u64 = 30_000_000_000;

/// What the kernel says of births, read before the sweep: the forks first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    /// Processes and threads begun since boot: `processes` of /proc/stat
    pub forks: Option<Counter>,
    /// The number that was given last: the last word of /proc/loadavg
    pub last_pid: Option<u32>,
}

/// Where to look for new processes.
#[derive(Debug, PartialEq, Eq)]
pub enum Newcomers {
    Nobody,
    /// Among these numbers, if anywhere
    Among(RangeInclusive<u32>),
    /// They can have any number: walk.
    Anywhere,
}

/// What was known at the last sweeps.
#[derive(Debug, Default)]
pub struct Births {
    /// The numbers are those of a pid namespace
    namespaced: bool,
    last: Option<Count>,
    /// Numbers after this one are asked again: a number is given before its process can be seen.
    from: Option<u32>,
    walked_ns: u64,
}

impl Births {
    /// Of the processes of a pid namespace, or of the whole machine.
    pub fn new(namespaced: bool) -> Births {
        Births { namespaced, ..Births::default() }
    }

    /// Where new processes can be. So many numbers may be tried, one by one, before a walk is cheaper.
    pub fn since(&mut self, now_ns: u64, now: Count, most: usize) -> Newcomers {
        let (last, from) = (self.last.replace(now), self.from);
        self.from = last.and_then(|last| last.last_pid);
        let newcomers = last.map_or(Newcomers::Anywhere, |last| self.between(now_ns, last, now, from, most));
        if newcomers == Newcomers::Anywhere {
            self.walked_ns = now_ns;
        }
        newcomers
    }

    fn between(&self, now_ns: u64, last: Count, now: Count, from: Option<u32>, most: usize) -> Newcomers {
        let Some(born) = now.forks.zip(last.forks).and_then(|(now, last)| now.since(last)) else { return Newcomers::Anywhere };
        let numbers = now.last_pid.zip(last.last_pid).and_then(|(now, last)| now.checked_sub(last));
        // A process is counted as it appears, later than its number is given.
        if born == 0 {
            return Newcomers::Nobody;
        }
        // Numbers begin again from below when the highest was given.
        let tried = now.last_pid.zip(from.or(last.last_pid)).and_then(|(now, from)| Some((from.checked_add(1)?, now)));
        let Some(((first, end), numbers)) = tried.zip(numbers) else { return Newcomers::Anywhere };
        // Below that they began again in the second before.
        let given = end.saturating_add(1).checked_sub(first);
        let few = given.is_some_and(|given| usize::try_from(given).is_ok_and(|given| given <= most));
        let explained = self.namespaced || born <= u64::from(numbers);
        let due = now_ns.saturating_sub(self.walked_ns) >= WALK_NS;
        if few && explained && !due { Newcomers::Among(first..=end) } else { Newcomers::Anywhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn count(forks: u64, last_pid: u32) -> Count {
        Count { forks: Some(Counter(forks)), last_pid: Some(last_pid) }
    }

    #[test]
    fn who_is_new_has_a_number_that_was_given_since() {
        let mut births = Births::default();
        let mut since = |second: u64, now| births.since(second * SECOND, now, 100);
        assert_eq!(since(1, count(500, 900)), Newcomers::Anywhere, "nothing is known");
        assert_eq!(since(2, count(500, 900)), Newcomers::Nobody);
        assert_eq!(since(3, count(502, 903)), Newcomers::Among(901..=903));
        assert_eq!(since(4, count(503, 904)), Newcomers::Among(901..=904), "those of the second before once more");
        assert_eq!(since(5, count(503, 904)), Newcomers::Nobody);
    }

    #[test]
    fn where_it_cannot_be_told_all_are_walked_through() {
        let after = |now, second, most| {
            let mut births = Births::default();
            births.since(SECOND, count(500, 900), most);
            births.since(second * SECOND, now, most)
        };
        assert_eq!(after(count(505, 906), 2, 100), Newcomers::Among(901..=906));
        assert_eq!(after(count(505, 904), 2, 100), Newcomers::Anywhere, "one chose its number");
        assert_eq!(after(count(505, 303), 2, 100), Newcomers::Anywhere, "they began again from below");
        assert_eq!(after(count(505, 906), 2, 5), Newcomers::Anywhere, "a walk is cheaper");
        assert_eq!(after(count(505, 906), 31, 100), Newcomers::Anywhere, "now and then");
        assert_eq!(after(Count::default(), 2, 100), Newcomers::Anywhere);
        assert_eq!(after(count(400, 906), 2, 100), Newcomers::Anywhere, "it fell");
        let mut births = Births::default();
        let mut since = |second: u64, now| births.since(second * SECOND, now, 100);
        since(1, count(500, 32_700));
        assert_eq!(since(2, count(505, 303)), Newcomers::Anywhere);
        assert_eq!(since(3, count(507, 305)), Newcomers::Anywhere, "the second after they began again from below");
        assert_eq!(since(4, count(508, 306)), Newcomers::Among(304..=306));
        let of_forks = |forks| Count { last_pid: None, ..count(forks, 0) };
        assert_eq!((after(of_forks(500), 2, 100), after(of_forks(501), 2, 100)), (Newcomers::Nobody, Newcomers::Anywhere));
    }

    #[test]
    fn in_a_pid_namespace_those_are_tried_that_it_has_given_however_many_were_born_outside() {
        let mut births = Births::new(true);
        let mut since = |second: u64, now| births.since(second * SECOND, now, 100);
        assert_eq!(since(1, count(500, 40)), Newcomers::Anywhere);
        assert_eq!(since(2, count(900, 41)), Newcomers::Among(41..=41));
        assert_eq!(since(3, count(1300, 41)), Newcomers::Among(41..=41));
        assert!(matches!(since(4, count(1700, 41)), Newcomers::Among(numbers) if numbers.is_empty()));
        assert_eq!(since(31, count(1701, 41)), Newcomers::Anywhere, "now and then");
        assert_eq!(since(32, count(1702, 7)), Newcomers::Anywhere, "they began again from below");
    }
}
