//! A process at rest: as long as its clock stands still, the last sample says all that there is to be known of its threads.
//! So nothing else is kept of them: most threads of most machines sleep, and of each there would be as much again as the
//! sample has. It is made anew from the sample when one of them runs, or is examined.

use super::KnownProcess;
use crate::kernel::sweep::Eye;
use crate::kernel::sweep::thread::KnownThread;
use crate::sample::task::TaskState;

impl KnownProcess {
    /// Its clock, where there is nothing to be done about it for as long as that stands still.
    pub fn rests_at_ns(&self, now_ns: u64) -> Option<u64> {
        self.clock_ns.filter(|_| self.is_quiet(now_ns) && !self.facts.is_due())
    }

    /// Forgets of its threads what the sample has, when nobody looks at them. Of one in D more is known.
    pub fn lie_down(&mut self, now_ns: u64) {
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked;
        if self.clock_ns.is_some() && self.is_quiet(now_ns) && !self.threads.iter().any(blocked) {
            self.threads = Vec::new();
            self.hot = Vec::new();
        }
    }

    /// Before its threads are looked at.
    pub fn get_up(&mut self, eye: &Eye) {
        if self.threads.is_empty() {
            let again = |thread| KnownThread::again(thread, self.first_seen_ns, &eye.machine);
            self.threads = self.shared.threads.iter().map(again).collect();
        }
    }

    /// Whether none of its threads is looked at as long as its clock stands still.
    fn is_quiet(&self, now_ns: u64) -> bool {
        let known = !(self.behind || self.ahead || self.unsettled);
        known && self.hot.is_empty() && self.kept.is_empty() && !self.ran_lately(now_ns)
    }
}
