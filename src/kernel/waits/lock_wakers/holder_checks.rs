//! Checks whether the thread taken for the holder of a mutex was it: the holder wakes the next one.

use crate::sample::waits::WakerChecks;

/// Then the counts of checks are halved, so that what comes later counts more.
const MAX_CHECKS: u32 = 64;

/// The checks of one mutex. The last dozens of them count, more than one interval has.
#[derive(Clone, Copy, Debug, Default)]
pub struct HolderChecks {
    /// tid of the thread that was last taken for the holder, until it is checked
    holder: Option<u32>,
    counts: WakerChecks,
}

impl HolderChecks {
    /// This thread is taken for the holder: the next check is of it.
    pub fn begin(&mut self, tid: u32) {
        self.holder = Some(tid);
    }

    /// Checks the thread that was taken for the holder, once. `waker`: the first thread that woke another one since.
    pub fn check(&mut self, waker: Option<u32>) {
        let (Some(holder), Some(waker)) = (self.holder.take(), waker) else { return };
        if self.counts.made >= MAX_CHECKS {
            self.counts = WakerChecks { made: self.counts.made / 2, confirmed: self.counts.confirmed / 2 };
        }
        self.counts.made += 1;
        self.counts.confirmed += u32::from(holder == waker);
    }

    pub fn counts(&self) -> WakerChecks {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(u32, u32)]) -> WakerChecks {
        let mut checks = HolderChecks::default();
        for &(holder, waker) in pairs {
            checks.begin(holder);
            checks.check(Some(waker));
        }
        checks.counts()
    }

    #[test]
    fn a_holder_is_checked_by_the_thread_that_wakes_the_next_one() {
        assert_eq!(counts(&[(1, 1), (2, 2), (3, 9)]), WakerChecks { made: 3, confirmed: 2 });
        assert_eq!(counts(&[(1, 1); 100]), WakerChecks { made: 36, confirmed: 36 }, "halved at 64");
    }

    #[test]
    fn a_holder_that_has_woken_no_thread_is_not_checked() {
        let mut checks = HolderChecks::default();
        checks.begin(4);
        checks.check(None);
        assert_eq!(checks.counts(), WakerChecks::default());
        checks.check(Some(4));
        assert_eq!(checks.counts(), WakerChecks::default(), "it may have released the mutex since");
    }
}
