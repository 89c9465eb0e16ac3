//! The pids that new processes can have: /proc is not listed if no or few processes started since the last scan.
//!
//! The kernel counts forks (`processes` of /proc/stat) and assigns pids in sequence (the last one is in /proc/loadavg): a new
//! process has a pid between the last one at the previous scan and the last one now. A restored process (CRIU) chooses its pid: it
//! is found when more forks than pids are counted, and at the latest when /proc is listed, every 30 s. In a pid namespace only that
//! listing finds it, since forks are counted for the whole host and pids for the namespace.

use std::ops::RangeInclusive;

use crate::units::Counter;

/// /proc is walked after this time in any case, once a task has started.
const WALK_INTERVAL_NS: u64 = 30_000_000_000;

/// The kernel's counters of new tasks, read before the scan, forks first.
#[derive(Clone, Copy, Debug, Default)]
pub struct ForkCounters {
    /// Processes and threads started since boot: `processes` of /proc/stat
    pub forks: Option<Counter>,
    /// The pid given last: the last word of /proc/loadavg
    pub last_pid: Option<u32>,
}

/// Which pids new processes can have.
#[derive(Debug, PartialEq, Eq)]
pub enum NewPids {
    Nowhere,
    /// One of these, or there is no new process
    InRange(RangeInclusive<u32>),
    /// Any: /proc must be walked
    Anywhere,
}

/// The counters at the last scans.
#[derive(Debug, Default)]
pub struct NewPidTracker {
    /// Pids are those of a pid namespace
    in_pid_namespace: bool,
    last_counters: Option<ForkCounters>,
    /// Pids after this one are tried again: a pid is given before its process can be seen.
    last_checked_pid: Option<u32>,
    last_walk_ns: u64,
}

impl NewPidTracker {
    /// `in_pid_namespace`: /proc shows a pid namespace and not the whole host.
    pub fn new(namespaced: bool) -> NewPidTracker {
        NewPidTracker { in_pid_namespace: namespaced, ..NewPidTracker::default() }
    }

    /// Which pids new processes can have. At most `most` pids are tried one by one; for more a walk is cheaper.
    pub fn update(&mut self, now_ns: u64, now: ForkCounters, most: usize) -> NewPids {
        let (last, from) = (self.last_counters.replace(now), self.last_checked_pid);
        self.last_checked_pid = last.and_then(|last| last.last_pid);
        let new_pids = last.map_or(NewPids::Anywhere, |last| self.compare(now_ns, last, now, from, most));
        if new_pids == NewPids::Anywhere {
            self.last_walk_ns = now_ns;
        }
        new_pids
    }

    fn compare(&self, now_ns: u64, last: ForkCounters, now: ForkCounters, from: Option<u32>, most: usize) -> NewPids {
        let Some(forks) = now.forks.zip(last.forks).and_then(|(now, last)| now.since(last)) else { return NewPids::Anywhere };
        let numbers = now.last_pid.zip(last.last_pid).and_then(|(now, last)| now.checked_sub(last));
        // The kernel counts a process when it appears, later than it gives the pid.
        if forks == 0 {
            return NewPids::Nowhere;
        }
        // Pids wrap around at pid_max.
        let tried = now.last_pid.zip(from.or(last.last_pid)).and_then(|(now, from)| Some((from.checked_add(1)?, now)));
        let Some(((first, end), numbers)) = tried.zip(numbers) else { return NewPids::Anywhere };
        // `end` below `first`: they wrapped around in the second before.
        let given = end.saturating_add(1).checked_sub(first);
        let few = given.is_some_and(|given| usize::try_from(given).is_ok_and(|given| given <= most));
        let explained = self.in_pid_namespace || forks <= u64::from(numbers);
        let due = now_ns.saturating_sub(self.last_walk_ns) >= WALK_INTERVAL_NS;
        if few && explained && !due { NewPids::InRange(first..=end) } else { NewPids::Anywhere }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn count(forks: u64, last_pid: u32) -> ForkCounters {
        ForkCounters { forks: Some(Counter(forks)), last_pid: Some(last_pid) }
    }

    #[test]
    fn a_new_process_has_a_pid_given_since_the_last_scan() {
        let mut new_processes = NewPidTracker::default();
        let mut since = |second: u64, now| new_processes.update(second * SECOND, now, 100);
        assert_eq!(since(1, count(500, 900)), NewPids::Anywhere, "nothing is known");
        assert_eq!(since(2, count(500, 900)), NewPids::Nowhere);
        assert_eq!(since(3, count(502, 903)), NewPids::InRange(901..=903));
        assert_eq!(since(4, count(503, 904)), NewPids::InRange(901..=904), "those of the second before once more");
        assert_eq!(since(5, count(503, 904)), NewPids::Nowhere);
    }

    #[test]
    fn proc_is_walked_where_the_counters_do_not_tell() {
        let after = |now, second, most| {
            let mut new_processes = NewPidTracker::default();
            new_processes.update(SECOND, count(500, 900), most);
            new_processes.update(second * SECOND, now, most)
        };
        assert_eq!(after(count(505, 906), 2, 100), NewPids::InRange(901..=906));
        assert_eq!(after(count(505, 904), 2, 100), NewPids::Anywhere, "one chose its number");
        assert_eq!(after(count(505, 303), 2, 100), NewPids::Anywhere, "they began again from below");
        assert_eq!(after(count(505, 906), 2, 5), NewPids::Anywhere, "a walk is cheaper");
        assert_eq!(after(count(505, 906), 31, 100), NewPids::Anywhere, "now and then");
        assert_eq!(after(ForkCounters::default(), 2, 100), NewPids::Anywhere);
        assert_eq!(after(count(400, 906), 2, 100), NewPids::Anywhere, "it fell");
        let mut new_processes = NewPidTracker::default();
        let mut since = |second: u64, now| new_processes.update(second * SECOND, now, 100);
        since(1, count(500, 32_700));
        assert_eq!(since(2, count(505, 303)), NewPids::Anywhere);
        assert_eq!(since(3, count(507, 305)), NewPids::Anywhere, "the second after they began again from below");
        assert_eq!(since(4, count(508, 306)), NewPids::InRange(304..=306));
        let of_forks = |forks| ForkCounters { last_pid: None, ..count(forks, 0) };
        assert_eq!((after(of_forks(500), 2, 100), after(of_forks(501), 2, 100)), (NewPids::Nowhere, NewPids::Anywhere));
    }

    #[test]
    fn in_a_pid_namespace_its_own_pids_are_tried_however_many_forks_are_counted() {
        let mut new_processes = NewPidTracker::new(true);
        let mut since = |second: u64, now| new_processes.update(second * SECOND, now, 100);
        assert_eq!(since(1, count(500, 40)), NewPids::Anywhere);
        assert_eq!(since(2, count(900, 41)), NewPids::InRange(41..=41));
        assert_eq!(since(3, count(1300, 41)), NewPids::InRange(41..=41));
        assert!(matches!(since(4, count(1700, 41)), NewPids::InRange(numbers) if numbers.is_empty()));
        assert_eq!(since(31, count(1701, 41)), NewPids::Anywhere, "now and then");
        assert_eq!(since(32, count(1702, 7)), NewPids::Anywhere, "they began again from below");
    }
}
