//! The threads of a process that ran, for a sample: as few of them as explain its clock; and what the kernel would add up over
//! all of them, which takes it milliseconds where there are ten thousand, from what these few have done.

use std::sync::Arc;

use super::{KnownProcess, Watched, update_sums};
use crate::kernel::sweep::Eye;
use crate::kernel::sweep::books::Books;
use crate::kernel::sweep::ran::LARGE;
use crate::kernel::sweep::thread::{Glance, KnownThread, Lent, Look};
use crate::kernel::task::files::ProcessFile;
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Process, TaskState, Thread};
use crate::units::Counter;

/// So often a large process's own stat is read all the same: it has what threads did that no sample has seen.
pub const SUMS_HOLD_NS: u64 = 5_000_000_000;
/// Threads that are likely to have run are asked so often more, before all others are, where there are so many others for
/// each. One of them that was on a CPU when the clock was read is most often off it a moment later.
const MORE_TRIES: u32 = 3;
const FEW_OF: usize = 32;

/// What a look at the threads of a process found.
#[derive(Debug, Default)]
pub struct Found {
    /// Some thread is gone.
    pub lost: bool,
    /// What its clock says beyond its threads moved though none of them was running: some thread has ended.
    pub unexplained: bool,
    /// Who ran, by tid; some twice
    pub ran: Vec<u32>,
    did: Sums,
}

/// What the kernel said of a process when it added up its threads.
#[derive(Debug, Default)]
pub struct Summed {
    at_ns: u64,
    /// User and system
    ticks: (Counter, Counter),
    /// What they had grown by since the time before, at first in its whole life
    grown: (u64, u64),
}

impl Summed {
    fn learn(&mut self, stat: &Stat<'_>, now_ns: u64) {
        let grown = |new: Counter, old: Counter| new.0.saturating_sub(old.0);
        let both = (grown(stat.user_ticks, self.ticks.0), grown(stat.system_ticks, self.ticks.1));
        if both != (0, 0) {
            self.grown = both;
        }
        (self.at_ns, self.ticks) = (now_ns, (stat.user_ticks, stat.system_ticks));
    }
}

/// What threads have done since they were last read.
#[derive(Debug, Default)]
struct Sums {
    user_ticks: u64,
    system_ticks: u64,
    guest_ticks: u64,
    minor_faults: u64,
    major_faults: u64,
}

impl Sums {
    fn add(&mut self, old: &Thread, new: &Thread) {
        let grown = |old: Counter, new: Counter| new.0.saturating_sub(old.0);
        self.user_ticks += grown(old.user_ticks, new.user_ticks);
        self.system_ticks += grown(old.system_ticks, new.system_ticks);
        self.guest_ticks += grown(old.guest_ticks, new.guest_ticks);
        self.minor_faults += grown(old.minor_faults, new.minor_faults);
        self.major_faults += grown(old.major_faults, new.major_faults);
    }

    /// The kernel says of a process in how many ticks it ran, by its clock, and divides them as it was seen at clock ticks: so
    /// do we, with what it saw last, since many threads that run for a moment have no tick of their own.
    fn put(&self, process: &mut Process, all_ticks: u64, last: &Summed) {
        let ran = all_ticks.saturating_sub(process.user_ticks.0.saturating_add(process.system_ticks.0));
        let user = u128::from(self.user_ticks) + u128::from(last.grown.0);
        let both = user + u128::from(self.system_ticks) + u128::from(last.grown.1);
        let (base, since) = (last.ticks.0.0, all_ticks.saturating_sub(last.ticks.0.0.saturating_add(last.ticks.1.0)));
        let user =
            (u128::from(since) * user + both / 2).checked_div(both).and_then(|user| u64::try_from(user).ok()).unwrap_or(since);
        let user = base.saturating_add(user).saturating_sub(process.user_ticks.0).min(ran);
        let add = |counter: &mut Counter, grown: u64| counter.0 = counter.0.saturating_add(grown);
        add(&mut process.user_ticks, user);
        add(&mut process.system_ticks, ran - user);
        add(&mut process.guest_ticks, self.guest_ticks.min(user));
        add(&mut process.minor_faults, self.minor_faults);
        add(&mut process.major_faults, self.major_faults);
    }
}

impl KnownProcess {
    /// Whether its sums are added up here this time.
    pub(super) fn adds_up(&self, clock_ns: Option<u64>, now_ns: u64) -> bool {
        let fresh = |summed: &Summed| now_ns.saturating_sub(summed.at_ns) < SUMS_HOLD_NS;
        let summed = self.up.summed.as_deref().is_some_and(fresh);
        self.up.threads.len() >= LARGE && clock_ns.is_some() && self.up.books.are_known() && summed
    }

    /// The kernel was asked. What few threads did need not be remembered: it is asked each time.
    pub(super) fn learn_sums(&mut self, stat: &Stat<'_>, now_ns: u64) {
        if self.up.threads.len() >= LARGE {
            self.up.summed.get_or_insert_default().learn(stat, now_ns);
        }
    }

    /// Adds up what its threads did; asks the kernel after all where threads began or ended.
    pub(super) fn add_up(&mut self, eye: &mut Eye, found: &Found) {
        if found.lost || found.unexplained || self.shared.threads.len() != self.up.threads.len() {
            let text = eye.files.process(self.pid, ProcessFile::Stat, &mut self.up.kept, true).ok();
            if let Some(stat) = text.and_then(task::stat) {
                update_sums(Arc::make_mut(&mut self.shared), &stat, self.up.threads.len());
                self.learn_sums(&stat, eye.now_ns);
            }
        } else if let Some((clock_ns, summed)) = self.clock_ns.zip(self.up.summed.as_deref()) {
            found.did.put(Arc::make_mut(&mut self.shared), eye.ticks(clock_ns), summed);
        }
    }

    /// First those that are likely to have run or changed; the others only when that does not explain the clock.
    pub(super) fn look_at_threads(&mut self, eye: &mut Eye, clock_ns: Option<u64>, ran: bool, lent: Option<Lent>) -> Found {
        let alone = clock_ns.is_some() && self.up.threads.len() == 1;
        let glance = Glance { ran: alone.then_some(ran), lent, ..self.permit(eye, true) };
        if let Some(known) = self.up.threads.first_mut().filter(|_| lent.is_some()) {
            known.comm = self.shared.comm.clone();
        }
        let (before, now_ns) = (self.up.books, eye.now_ns);
        let mut found = Found::default();
        self.up.behind = false;
        let likely = |known: &KnownThread| known.is_hot(now_ns) || known.is_unsettled();
        self.look_at_those(eye, glance, likely, &mut found);
        let few = !self.up.hot.is_empty() && self.up.hot.len() * FEW_OF <= self.up.threads.len();
        for _ in 0..if few { MORE_TRIES } else { 0 } {
            if self.up.books.balance(self.clock_ns) || !self.up.books.are_known() {
                break;
            }
            self.clock_ns = eye.clocks.cpu_ns(self.pid);
            self.look_at_those(eye, glance, likely, &mut found);
        }
        if self.up.books.balance(self.clock_ns) {
            return found;
        }
        self.up.behind = eye.ran.prepare(self.up.threads.len());
        self.look_at_those(eye, glance, |known| known.looked_ns != now_ns, &mut found);
        self.balance_books(self.clock_ns);
        let runs = |known: &KnownThread| known.state == TaskState::Running;
        found.unexplained = !self.up.books.have_the_rest_of(&before) && !self.up.threads.iter().any(runs);
        if self.up.behind {
            self.up.books = Books::default();
        }
        self.lone &= lent.is_none_or(|lent| lent.state == TaskState::Running || self.is_all_of(self.clock_ns));
        found
    }

    fn look_at_those(&mut self, eye: &mut Eye, glance: Glance, wanted: impl Fn(&KnownThread) -> bool, found: &mut Found) {
        let Self { up, shared, .. } = self;
        let Watched { threads, books, .. } = &mut **up;
        let many = threads.len() >= LARGE;
        let pairs = threads.iter_mut().zip(Arc::make_mut(shared).threads_mut());
        for (known, thread) in pairs.filter(|(known, _)| wanted(known)) {
            let before = known.sched;
            match known.look(eye, glance) {
                Look::Same => {}
                Look::Moved(figures) if figures.start_ticks == thread.start_ticks => {
                    eye.tasks_read += 1;
                    let new = known.thread(&figures);
                    found.did.add(thread, &new);
                    found.ran.extend(many.then_some(known.tid));
                    *thread = new;
                }
                // Only a glance is content with less than the figures.
                Look::Asleep => {}
                Look::Moved(_) | Look::Gone => found.lost = true,
            }
            books.enter(before, known.sched);
        }
    }
}
