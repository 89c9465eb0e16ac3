//! Looks between two sweeps: who is looked at, and which looks would be at nobody.

use super::process::KnownProcess;
use super::process::between::{TURNS, TURNS_OF_MANY};
use super::{Sweep, at_places};

/// So few processes that sub-samples ask the clocks of all that ran in the last half minute, not only in the last seconds.
const FEW_PROCESSES: usize = 300;

impl Sweep {
    /// Looks between two sweeps at the threads that work, run or are blocked.
    pub fn glance(&mut self, now_ns: u64) {
        self.eye.now_ns = now_ns;
        self.eye.look = self.eye.look.wrapping_add(1);
        let warming_up = self.is_warming_up(now_ns);
        let asks_sleepers = self.asks_sleepers(now_ns);
        let Self { processes, awake, warm, up, eye, .. } = self;
        at_places(processes, awake).for_each(|known| known.glance(eye));
        if asks_sleepers {
            let dozes = |known: &&mut KnownProcess| !known.is_awake(now_ns) && (warming_up || known.is_warm(now_ns));
            at_places(processes, warm).filter(dozes).for_each(|known| known.glance(eye));
            // Also who was at rest may have run.
            up.extend_from_slice(warm);
            up.sort_unstable();
            up.dedup();
            self.find_awake(now_ns);
        }
    }

    /// How many of the next sub-samples would look at nobody: whoever works is calm, and has his turn later. Those that sleep
    /// and are asked for their clocks all the same wait as long.
    pub fn restful_looks(&self, now_ns: u64) -> u32 {
        if !self.eye.clocks.can_tell() || self.is_warming_up(now_ns) {
            return 0;
        }
        let most = if self.asks_sleepers(now_ns) { TURNS } else { TURNS_OF_MANY } - 1;
        let awake = self.awake.iter().filter_map(|&place| self.processes.get(place));
        awake.map(|known| known.rests_for(self.eye.look)).fold(most, u32::min)
    }

    /// A sub-sample that would look at nobody is over.
    pub fn pass(&mut self) {
        self.eye.look = self.eye.look.wrapping_add(1);
    }

    /// Whether sub-samples ask the clocks of those, too, that did not run in the last seconds.
    fn asks_sleepers(&self, now_ns: u64) -> bool {
        self.eye.clocks.can_tell() && (self.processes.len() <= FEW_PROCESSES || self.is_warming_up(now_ns))
    }

    /// Found by sweeps only: to walk through all processes at each sub-sample costs more than to ask these.
    pub(super) fn find_warm(&mut self, now_ns: u64) {
        let (warming_up, asks_sleepers) = (self.is_warming_up(now_ns), self.asks_sleepers(now_ns));
        let Self { processes, warm, own_pid, .. } = self;
        let may_run = |known: &KnownProcess| (warming_up || known.is_warm(now_ns)) && !known.shared.kernel_thread;
        let wanted = |known: &KnownProcess| asks_sleepers && may_run(known) && known.pid != *own_pid;
        warm.clear();
        warm.extend((0..).zip(processes).filter(|(_, known)| wanted(known)).map(|(index, _)| index));
    }

    pub(super) fn find_awake(&mut self, now_ns: u64) {
        let Self { processes, up, awake, own_pid, eye, .. } = self;
        let is_awake = |known: &KnownProcess| known.is_awake(now_ns) && known.pid != *own_pid;
        awake.clear();
        awake.extend(up.iter().copied().filter(|&index| processes.get(index).is_some_and(is_awake)));
        eye.awake = awake.len();
    }
}
