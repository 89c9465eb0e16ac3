//! The books of a process: its CPU clock is the sum of its threads' run times (schedstat) and of what ended threads have
//! left. When the threads that were read explain all that the clock has moved, no other thread ran and none need be read:
//! fifty files instead of ten thousand.

use crate::sample::task::Sched;

/// Both sides, in nanoseconds. Wrapping: only changes count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Books {
    /// Σ run time of the threads, each as it was last read
    threads_ns: u64,
    /// The clock less that sum when all had been read; `None` while it is not known.
    ///
    /// A thread on a CPU at that moment may have moved between the two readings. Then nothing balances, and all threads
    /// are read once more: an error costs reads, never a thread.
    rest_ns: Option<u64>,
}

impl Books {
    /// What do not balance.
    pub const UNKNOWN: Books = Books { threads_ns: 0, rest_ns: None };

    /// After all threads were read. A thread without schedstat leaves them open.
    pub fn of(clock_ns: Option<u64>, threads: impl Iterator<Item = Option<Sched>>) -> Books {
        let sum = threads.map(|sched| Some(sched?.run_ns.0)).try_fold(0_u64, |sum, run| Some(sum.wrapping_add(run?)));
        let rest_ns = clock_ns.zip(sum).map(|(clock, sum)| clock.wrapping_sub(sum));
        Books { threads_ns: sum.unwrap_or(0), rest_ns }
    }

    /// One thread was read again.
    pub fn enter(&mut self, before: Option<Sched>, after: Option<Sched>) {
        match (before, after) {
            (Some(before), Some(after)) => {
                let ran = after.run_ns.0.wrapping_sub(before.run_ns.0);
                self.threads_ns = self.threads_ns.wrapping_add(ran);
            }
            _ => self.rest_ns = None,
        }
    }

    /// Whether they can balance at all.
    pub fn are_known(&self) -> bool {
        self.rest_ns.is_some()
    }

    /// Whether nothing has moved in the clock that was not its threads'.
    pub fn have_the_rest_of(&self, other: &Books) -> bool {
        self.rest_ns == other.rest_ns
    }

    /// Whether nothing but what was entered has run.
    pub fn balance(&self, clock_ns: Option<u64>) -> bool {
        self.rest_ns.is_some() && clock_ns.map(|clock| clock.wrapping_sub(self.threads_ns)) == self.rest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Counter;

    fn ran(run_ns: u64) -> Option<Sched> {
        Some(Sched { run_ns: Counter(run_ns), ..Sched::default() })
    }

    #[test]
    fn they_balance_when_every_nanosecond_is_explained() {
        // Threads that ended have left 50.
        let mut books = Books::of(Some(180), [ran(100), ran(30)].into_iter());
        assert!(books.balance(Some(180)));
        assert!(!books.balance(Some(187)));
        books.enter(ran(30), ran(36));
        assert!(!books.balance(Some(187)), "one nanosecond is somebody else's");
        books.enter(ran(100), ran(101));
        assert!(books.balance(Some(187)));
    }

    #[test]
    fn what_is_not_known_does_not_balance() {
        assert!(!Books::default().balance(Some(0)));
        assert!(!Books::default().balance(None));
        assert!(!Books::of(None, [ran(1)].into_iter()).balance(None));
        assert!(!Books::of(Some(1), [ran(1), None].into_iter()).balance(Some(1)));
        let mut books = Books::of(Some(5), [ran(5)].into_iter());
        books.enter(ran(5), None);
        assert!(!books.balance(Some(5)));
    }
}
