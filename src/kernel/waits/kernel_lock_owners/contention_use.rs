//! Decides when the programs that note for which kernel locks threads wait are attached (`kernel/probe/lock_contention.rs`): while threads
//! wait for such locks and do not say themselves for which, unless that would take too much of a CPU.

use crate::kernel::probe::lock_contention::LockContention;
use crate::kernel::waits::cost_limit::CostLimit;
use crate::units::Counter;

/// They are detached when no thread has waited, or all have said for which lock, for this long.
const DETACH_AFTER_NS: u64 = 1_500_000_000;
/// The cost is measured over this time at least.
const MEASURED_NS: u64 = 1_000_000_000;
/// CPU time that they add to one call of contention_begin, its contention_end included: docs/cost.md.
const NS_PER_CONTENTION: u64 = 200;

/// Whether the programs are needed, and may be attached. Times are of CLOCK_BOOTTIME.
#[derive(Debug, Default)]
pub struct ContentionUse {
    cost: CostLimit,
    measured_ns: u64,
    /// When a thread was last seen to wait
    waiting_ns: u64,
    /// When a thread did not say for which lock, and whether one did not in the last reading: the next one may be seconds later
    needed_ns: u64,
    is_needed: bool,
}

impl ContentionUse {
    /// With a share, of one CPU, they are not attached where they would take more.
    pub fn new(max_cpu_share: Option<f64>) -> ContentionUse {
        ContentionUse { cost: CostLimit::new(max_cpu_share), ..ContentionUse::default() }
    }

    /// Threads wait for locks inside the kernel.
    pub fn saw_waiters(&mut self, now_ns: u64) {
        self.waiting_ns = now_ns;
    }

    /// The iterator was read; `is_needed`: a thread that waits does not say for which lock.
    pub fn saw_reading(&mut self, is_needed: bool, now_ns: u64) {
        self.is_needed = is_needed;
        if is_needed {
            self.needed_ns = now_ns;
        }
    }

    /// Attaches or detaches them; in each sub-sample.
    pub fn update(&mut self, programs: &mut LockContention, now_ns: u64) {
        match self.decide(programs.begun(), now_ns) {
            // Where it fails it is tried again while threads wait.
            true => drop(programs.attach()),
            false if programs.is_attached() => programs.detach(),
            false => {}
        }
    }

    /// Whether they are to be attached; `begun`: calls of contention_begin that they have counted so far.
    fn decide(&mut self, begun: u64, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.measured_ns) >= MEASURED_NS {
            self.measured_ns = now_ns;
            self.cost.update(Some(Counter(begun)), NS_PER_CONTENTION, now_ns);
        }
        let is_recent = |since_ns: u64| now_ns.saturating_sub(since_ns) < DETACH_AFTER_NS;
        if !is_recent(self.waiting_ns) {
            (self.is_needed, self.needed_ns) = (false, 0);
        }
        (self.is_needed || is_recent(self.needed_ns)) && self.cost.allows(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn they_are_attached_while_threads_wait_and_detached_soon_after() {
        let mut contention = ContentionUse::new(Some(0.01));
        contention.saw_waiters(100 * SECOND);
        assert!(!contention.decide(0, 100 * SECOND), "nothing was read yet");
        contention.saw_reading(true, 100 * SECOND);
        assert!(contention.decide(0, 100 * SECOND));
        contention.saw_waiters(105 * SECOND);
        assert!(contention.decide(1000, 106 * SECOND), "the next reading is late");
        assert!(!contention.decide(2000, 107 * SECOND));
        contention.saw_waiters(108 * SECOND);
        assert!(!contention.decide(2000, 108 * SECOND), "other threads may say for which lock they wait");
    }

    #[test]
    fn they_are_detached_while_all_threads_say_for_which_lock_they_wait() {
        let mut contention = ContentionUse::new(Some(0.01));
        let mut attached_after = |is_needed: bool, second: u64| {
            contention.saw_waiters(second * SECOND);
            contention.saw_reading(is_needed, second * SECOND);
            contention.decide(0, second * SECOND)
        };
        assert_eq!(
            [(false, 100), (true, 101), (false, 102), (false, 103)]
                .map(|(is_needed, second)| attached_after(is_needed, second)),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_machine_with_much_contention_is_spared() {
        let waits = |contention: &mut ContentionUse, begun: u64, second: u64| {
            contention.saw_waiters(second * SECOND);
            contention.saw_reading(true, second * SECOND);
            contention.decide(begun, second * SECOND)
        };
        let limit = 10_000_000 / NS_PER_CONTENTION;
        let mut limited = ContentionUse::new(Some(0.01));
        assert!(waits(&mut limited, 0, 100) && waits(&mut limited, limit - 1, 101));
        assert!(!waits(&mut limited, 2 * limit + 1, 102) && !waits(&mut limited, 2 * limit + 1, 161));
        assert!(waits(&mut limited, 2 * limit + 1, 163), "it is tried again after a minute");
        let mut unlimited = ContentionUse::new(None);
        assert!(waits(&mut unlimited, 0, 100) && waits(&mut unlimited, 1 << 40, 101));
    }
}
