//! Checks whether unread threads of a process ran: its CPU clock is the sum of the run times of its threads (schedstat field 1),
//! exited ones included. If the threads that were read account for the whole increase of the clock, no other thread ran, and none
//! need be read: fifty files instead of ten thousand.

use crate::sample::task::Schedstat;

/// The sum of the threads and its difference to the clock, ns. Arithmetic wraps, since only differences matter.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimeCheck {
    /// Sum of the run times of the threads, each as last read
    threads_ns: u64,
    /// The clock minus that sum after all threads were read; `None` while it is unknown.
    ///
    /// A thread on a CPU may run between the two readings. Then the sums disagree at the next check and all threads are read once more:
    /// an error costs reads, never a thread.
    remainder_ns: Option<u64>,
}

impl CpuTimeCheck {
    /// After all threads were read. With a thread without schedstat nothing can be checked.
    pub fn new(clock_ns: Option<u64>, threads: impl Iterator<Item = Option<Schedstat>>) -> CpuTimeCheck {
        let sum = threads.map(|sched| Some(sched?.run_ns.0)).try_fold(0_u64, |sum, run| Some(sum.wrapping_add(run?)));
        let rest_ns = clock_ns.zip(sum).map(|(clock, sum)| clock.wrapping_sub(sum));
        CpuTimeCheck { threads_ns: sum.unwrap_or(0), remainder_ns: rest_ns }
    }

    /// A thread was read again.
    pub fn update_thread(&mut self, before: Option<Schedstat>, after: Option<Schedstat>) {
        match (before, after) {
            (Some(before), Some(after)) => {
                let ran = after.run_ns.0.wrapping_sub(before.run_ns.0);
                self.threads_ns = self.threads_ns.wrapping_add(ran);
            }
            _ => self.remainder_ns = None,
        }
    }

    /// Whether anything can be checked.
    pub fn is_known(&self) -> bool {
        self.remainder_ns.is_some()
    }

    /// Whether the threads, as last read, account for this clock, so that no other thread ran.
    pub fn accounts_for(&self, clock_ns: Option<u64>) -> bool {
        self.remainder_ns.is_some() && clock_ns.map(|clock| clock.wrapping_sub(self.threads_ns)) == self.remainder_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Counter;

    fn ran(run_ns: u64) -> Option<Schedstat> {
        Some(Schedstat { run_ns: Counter(run_ns), ..Schedstat::default() })
    }

    #[test]
    fn it_accounts_for_the_clock_if_no_nanosecond_is_missing() {
        // Ended threads ran for 50 ns.
        let mut check = CpuTimeCheck::new(Some(180), [ran(100), ran(30)].into_iter());
        assert!(check.accounts_for(Some(180)));
        assert!(!check.accounts_for(Some(187)));
        check.update_thread(ran(30), ran(36));
        assert!(!check.accounts_for(Some(187)), "one nanosecond belongs to another thread");
        check.update_thread(ran(100), ran(101));
        assert!(check.accounts_for(Some(187)));
    }

    #[test]
    fn it_accounts_for_nothing_that_is_unknown() {
        assert!(!CpuTimeCheck::default().accounts_for(Some(0)));
        assert!(!CpuTimeCheck::default().accounts_for(None));
        assert!(!CpuTimeCheck::new(None, [ran(1)].into_iter()).accounts_for(None));
        assert!(!CpuTimeCheck::new(Some(1), [ran(1), None].into_iter()).accounts_for(Some(1)));
        let mut check = CpuTimeCheck::new(Some(5), [ran(5)].into_iter());
        check.update_thread(ran(5), None);
        assert!(!check.accounts_for(Some(5)));
    }
}
