//! A process between two samples: its hot threads are looked at, and the others where its clock shows that one of them ran.

use super::{KnownProcess, Watched};
use crate::kernel::sweep::Eye;
use crate::kernel::sweep::thread::{Glance, KnownThread, Look};
use crate::sample::task::TaskState;

/// With so few threads all of them are looked at, else only those known to be hot.
const FEW_THREADS: usize = 64;
/// A process none of whose hot threads was in trouble for so long is calm.
const CALM_NS: u64 = 2_000_000_000;
/// A calm process has its turn in one of so many sub-samples: more than three times a second, or, where many processes are
/// awake, two and a half times: a mean over many needs fewer looks at each.
pub(in crate::kernel::sweep) const TURNS: u32 = 3;
pub(in crate::kernel::sweep) const TURNS_OF_MANY: u32 = 4;
const MANY: usize = 32;

impl KnownProcess {
    /// How many of the sub-samples after this one come before its turn.
    pub fn rests_for(&self, look: u32) -> u32 {
        self.up.due.saturating_sub(look).saturating_sub(1)
    }

    /// Looks at its hot threads between two samples, if it is its turn.
    pub fn glance(&mut self, eye: &mut Eye) {
        if eye.look < self.up.due {
            return;
        }
        let threads = self.shared.threads.len();
        let many = threads > FEW_THREADS;
        // The clock of a process adds up its threads' each time: a few of them are sooner asked themselves.
        let by_threads = many && threads / FEW_THREADS > self.up.hot.len();
        if self.up.is_at_rest() && (by_threads || eye.clocks.cpu_ns(self.pid) == self.clock_ns) {
            return;
        }
        self.get_up(eye);
        self.note_trouble(eye.now_ns);
        self.up.due = self.next_turn(eye);
        if by_threads {
            return self.glance_at_hot(eye, self.permit(eye, false));
        }
        let clock_ns = eye.clocks.cpu_ns(self.pid);
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        let runs = |thread: &KnownThread| thread.state == TaskState::Running;
        if !ran && !self.up.hot.iter().any(|&index| self.up.threads.get(index).is_some_and(runs)) {
            return;
        }
        self.clock_ns = clock_ns;
        if ran {
            self.up.ahead = true;
            self.note_run(eye.now_ns);
        }
        let alone = clock_ns.is_some() && self.up.threads.len() == 1;
        let glance = Glance { ran: alone.then_some(ran), ..self.permit(eye, false) };
        if many {
            return self.glance_at_hot(eye, glance);
        }
        self.glance_at_those(eye, glance, KnownThread::is_likely_to_have_moved);
        if !self.up.books.balance(clock_ns) {
            self.glance_at_those(eye, glance, |thread, now_ns| !thread.is_likely_to_have_moved(now_ns));
        }
        if !self.up.books.balance(clock_ns) {
            for index in 0..self.up.threads.len() {
                if self.up.hot.binary_search(&index).is_err() {
                    self.glance_at(index, eye, glance);
                }
            }
            self.balance_books(clock_ns);
        }
        self.find_hot(eye.now_ns);
    }

    /// Which sub-sample looks at it after this one: the next, or, where all has been calm, one of the next few. What a
    /// thread was seen doing is counted until it is looked at again, and the turn is fixed before it is seen, so that
    /// nothing weighs more or less for being looked at less often. All who are calm have their turn in the same sub-sample,
    /// another one after each sample: those between have nothing to look at, and nobody need wake up for them.
    fn next_turn(&self, eye: &Eye) -> u32 {
        let calm = eye.now_ns.saturating_sub(self.up.troubled_ns) > CALM_NS;
        let turns = match calm {
            true if eye.awake > MANY => TURNS_OF_MANY,
            true => TURNS,
            false => 1,
        };
        eye.look.wrapping_add(turns - eye.look.wrapping_add(eye.sweeps) % turns)
    }

    /// At its hot threads that are of this kind.
    fn glance_at_those(&mut self, eye: &mut Eye, glance: Glance, kind: fn(&KnownThread, u64) -> bool) {
        for place in 0..self.up.hot.len() {
            if let Some(&index) = self.up.hot.get(place)
                && self.up.threads.get(index).is_some_and(|thread| thread.looked_ns != eye.now_ns && kind(thread, eye.now_ns))
            {
                self.glance_at(index, eye, glance);
            }
        }
    }

    fn glance_at_hot(&mut self, eye: &mut Eye, glance: Glance) {
        for place in 0..self.up.hot.len() {
            if let Some(&index) = self.up.hot.get(place) {
                self.glance_at(index, eye, glance);
            }
        }
    }

    fn glance_at(&mut self, index: usize, eye: &mut Eye, glance: Glance) {
        let Watched { threads, books, unsettled, .. } = &mut *self.up;
        let Some(thread) = threads.get_mut(index) else { return };
        let before = thread.sched;
        match thread.look(eye, glance) {
            Look::Same => {}
            Look::Moved(_) | Look::Asleep => eye.tasks_read += 1,
            Look::Gone => thread.state = TaskState::Dead,
        }
        books.enter(before, thread.sched);
        *unsettled |= thread.is_unsettled();
    }

    fn find_hot(&mut self, now_ns: u64) {
        let Watched { threads, hot, .. } = &mut *self.up;
        hot.clear();
        if !self.shared.kernel_thread {
            hot.extend(threads.iter().enumerate().filter(|(_, thread)| thread.is_hot(now_ns)).map(|(index, _)| index));
            self.note_trouble(now_ns);
        }
    }
}
