//! One process as it was last looked at. Its CPU clock tells whether any of its threads ran; as long as none did, nothing
//! of it is read and the samples share one `Process`.

pub(super) mod between;
mod io;
mod lone;
mod threads;
mod up;

use std::sync::Arc;

use self::up::Up;
pub use self::up::Watched;
use super::books::Books;
use super::ran::LARGE;
use super::thread::{Figures, Glance, KnownThread, Lent, Look};
use super::{Eye, facts};
use crate::kernel::task::files::{Kept, ProcessFile, ThreadFile};
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::WaitClass;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// A process that ran within so long is looked at between samples, and its descriptors are kept.
const LATELY_NS: u64 = super::thread::ACTIVE_NS;
/// Descriptors of one that did not run for so long are given back.
const COLD_NS: u64 = 30_000_000_000;
/// Threads that look parked, but belong to a process with a blocked one: so many are examined a sweep.
const EXAMINED_AT_ONCE: usize = 64;

/// What is remembered of a process between two looks.
#[derive(Debug)]
pub struct KnownProcess {
    pub pid: u32,
    /// As it is in the last sample.
    pub shared: Arc<Process>,
    /// Nothing of one at rest
    pub up: Up,
    /// Threads whose wait channel the kernel keeps from us, and those without schedstat.
    pub hidden: (u32, u32),
    pub facts: facts::Due,
    clock_ns: Option<u64>,
    first_seen_ns: u64,
    /// When it was last seen to have run; `None` for one that did not since it was first seen.
    ran_ns: Option<u64>,
    /// It has and had but one thread, whose stat is the process's; see `process/lone.rs`
    lone: bool,
    argument_start: u64,
}

/// What a look at a whole process found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Same,
    Moved,
    /// It ended, and maybe another one has its number.
    Gone,
}

impl KnownProcess {
    /// A process seen for the first time. What is slow to read (command line, executable, cgroup, io) comes later.
    pub fn first(eye: &mut Eye, pid: u32) -> Reading<KnownProcess> {
        let clock_ns = eye.clocks.cpu_ns(pid);
        let uid = eye.files.owner(pid)?;
        eye.owners.insert(uid);
        let text = eye.files.process(pid, ProcessFile::Stat, &mut Kept::default(), false)?;
        let stat = task::stat(text).ok_or(Absent::Malformed)?;
        let process = Process {
            pid,
            start_ticks: stat.start_ticks,
            ppid: stat.ppid,
            uid,
            comm: eye.names.shared(stat.comm),
            kernel_thread: stat.kernel_thread,
            facts: eye.names.unread_facts(),
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            guest_ticks: stat.guest_ticks,
            children: Some(stat.children),
            cpu_ns: clock_ns.map(Counter),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            resident_pages: stat.resident_pages,
            io: Err(Absent::NotRead),
            threads: Arc::default(),
        };
        let alone = (stat.thread_count <= 1).then(|| Lent::of(&stat));
        let thread_count = usize::try_from(stat.thread_count).unwrap_or(0);
        let argument_start = stat.argument_start;
        let mut known = KnownProcess {
            pid,
            shared: Arc::new(process),
            up: Up::since(eye.now_ns),
            hidden: (0, 0),
            facts: facts::Due::default(),
            clock_ns,
            first_seen_ns: eye.now_ns,
            ran_ns: None,
            lone: false,
            argument_start,
        };
        if eye.is_born(known.shared.start_ticks) {
            known.ran_ns = Some(eye.now_ns);
        }
        match alone {
            Some(lent) => known.first_and_only_thread(eye, lent)?,
            None => {
                known.list_threads(eye)?;
                known.up.behind = known.up.threads.len() < thread_count;
            }
        }
        known.examine_parked(eye);
        known.balance_books(clock_ns);
        known.settle(eye);
        known.lie_down(eye.now_ns);
        Ok(known)
    }

    /// Whether it ran in the last seconds.
    pub fn ran_lately(&self, now_ns: u64) -> bool {
        self.ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= LATELY_NS)
    }

    /// Whether it ran in the last half minute.
    pub fn is_warm(&self, now_ns: u64) -> bool {
        self.ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= COLD_NS)
    }

    /// Whether all of it that is left is its number.
    pub fn is_zombie(&self) -> bool {
        self.shared.threads.first().is_some_and(|leader| leader.state == TaskState::Zombie)
    }

    /// Reads who its parent is: the one it had ended.
    pub fn ask_parent(&mut self, eye: &mut Eye) {
        let text = eye.files.process(self.pid, ProcessFile::Stat, &mut Kept::default(), false).ok();
        if let Some(stat) = text.and_then(task::stat).filter(|stat| stat.start_ticks == self.shared.start_ticks)
            && stat.ppid != self.shared.ppid
        {
            Arc::make_mut(&mut self.shared).ppid = stat.ppid;
            self.up.forget_group();
        }
    }

    /// Looks again, for a sample; `clock_ns` is what its clock says now.
    pub fn look(&mut self, eye: &mut Eye, clock_ns: Option<u64>) -> Seen {
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        if ran || self.up.behind || self.up.ahead {
            // One that ran and cannot be read any more (it became another user's behind hidepid) would stand there as if it
            // did nothing: it is gone for us as one that ended is.
            return self.look_at_all(eye, clock_ns, ran).unwrap_or(Seen::Gone);
        }
        if self.up.unsettled {
            return self.look_at_unsettled(eye);
        }
        if !self.up.kept.is_empty() && !self.is_warm(eye.now_ns) {
            self.up.kept.release();
            self.up.threads.iter_mut().for_each(KnownThread::release);
        }
        if !self.up.hot.is_empty() {
            let Watched { hot, threads, .. } = &mut *self.up;
            hot.retain(|&index| threads.get(index).is_some_and(|thread| thread.is_hot(eye.now_ns)));
        }
        Seen::Same
    }

    /// It ran. One that slept till now is watched closely at first.
    fn note_run(&mut self, now_ns: u64) {
        if !self.ran_lately(now_ns) {
            self.up.troubled_ns = now_ns;
        }
        self.ran_ns = Some(now_ns);
    }

    /// After all threads were read.
    fn balance_books(&mut self, clock_ns: Option<u64>) {
        self.up.books = Books::of(clock_ns, self.up.threads.iter().map(|thread| thread.sched));
    }

    /// A thread in D that may hold the lock of its address space: who reads its memory (cmdline) could hang behind it.
    pub fn memory_is_in_doubt(&self) -> bool {
        self.up.threads.iter().any(|thread| {
            let fault = thread.wait.call().is_ok_and(|call| call.number == -1);
            let unclear = !matches!(thread.class, Some(WaitClass::Disk | WaitClass::Memory | WaitClass::Vfork));
            thread.state == TaskState::Blocked && (fault || unclear)
        })
    }

    /// Something of it ran, or a sub-sample saw more than the last sample has.
    fn look_at_all(&mut self, eye: &mut Eye, clock_ns: Option<u64>, ran: bool) -> Reading<Seen> {
        self.get_up(eye);
        let pid = self.pid;
        let keep = self.ran_lately(eye.now_ns);
        let adds_up = self.adds_up(clock_ns, eye.now_ns);
        if ran && eye.clocks.can_tell() {
            self.note_run(eye.now_ns);
        }
        let text = eye.files.process(
            pid,
            if adds_up { ProcessFile::LeaderStat } else { ProcessFile::Stat },
            &mut self.up.kept,
            keep,
        )?;
        let stat = task::stat(text).ok_or(Absent::Malformed)?;
        if stat.start_ticks != self.shared.start_ticks {
            return Ok(Seen::Gone);
        }
        eye.tasks_read += 1;
        self.clock_ns = clock_ns;
        self.up.ahead = false;
        let executed = stat.comm != self.shared.comm.as_bytes() || stat.argument_start != self.argument_start;
        self.argument_start = stat.argument_start;
        let thread_count = usize::try_from(stat.thread_count).unwrap_or(0);
        self.lone &= thread_count == 1;
        let lent = self.lone.then(|| Lent::of(&stat));
        if !adds_up {
            self.learn_sums(&stat, eye.now_ns);
        }
        let process = Arc::make_mut(&mut self.shared);
        process.comm = eye.names.unless_same(&process.comm, stat.comm);
        update(process, &stat);
        if !adds_up {
            update_sums(process, &stat, self.up.threads.len());
        }
        let many = self.up.threads.len() >= LARGE;
        if process.io.is_ok() && !many {
            let text = eye.files.process(pid, ProcessFile::Io, &mut self.up.kept, keep);
            process.io = text.and_then(|text| task::io(text).ok_or(Absent::Malformed));
        }
        self.facts.note_run(executed, eye.now_ns);
        let mut found = self.look_at_threads(eye, clock_ns, ran, lent);
        if found.lost || thread_count != self.up.threads.len() {
            self.list_threads(eye)?;
            self.balance_books(self.clock_ns);
            // Where a thread ends while they are listed the kernel may leave out another one.
            self.up.behind |= self.up.threads.len() < thread_count;
        }
        if adds_up {
            self.add_up(eye, &found);
        }
        if many {
            self.add_up_io(eye, &mut found, keep);
        }
        Arc::make_mut(&mut self.shared).cpu_ns = self.clock_ns.map(Counter);
        self.examine_parked(eye);
        self.settle(eye);
        Ok(Seen::Moved)
    }

    /// Nothing ran, but some threads were running, blocked, or seen by a sub-sample only.
    fn look_at_unsettled(&mut self, eye: &mut Eye) -> Seen {
        let glance = self.permit(eye, true);
        let mut seen = Seen::Same;
        let Self { up, shared, .. } = self;
        for (index, known) in up.threads.iter_mut().enumerate().filter(|(_, known)| known.is_unsettled()) {
            let Look::Moved(figures) = known.look(eye, glance) else { continue };
            eye.tasks_read += 1;
            let new = known.thread(&figures);
            if shared.threads.get(index).is_some_and(|old| *old != new) {
                seen = Seen::Moved;
                if let Some(old) = Arc::make_mut(shared).threads_mut().get_mut(index) {
                    *old = new;
                }
            }
        }
        if self.examine_parked(eye) {
            seen = Seen::Moved;
        }
        self.settle(eye);
        seen
    }

    /// Whether one of its threads is in D, as far as that may matter to others.
    pub fn is_stuck(&self) -> bool {
        self.up.hot.iter().filter_map(|&index| self.up.threads.get(index)).any(KnownThread::is_stuck)
    }

    /// Whether one of its threads is in D, or asleep for asynchronous completions, for memory or for a file system in user space.
    pub fn has_blocked(&self) -> bool {
        let asleep_for = |class| matches!(class, WaitClass::Aio | WaitClass::Memory | WaitClass::Disk);
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked || thread.class.is_some_and(asleep_for);
        self.up.hot.iter().filter_map(|&index| self.up.threads.get(index)).any(blocked)
    }

    /// Where its parked threads sleep, when one of its siblings is stuck: see `examine_parked`.
    pub fn examine_sibling(&mut self, eye: &mut Eye) -> bool {
        let examined = self.examine(eye);
        if examined {
            self.settle(eye);
        }
        examined
    }

    /// Threads that wait for a lock whose holder is stuck do not work, so nobody would ever look at them.
    fn examine_parked(&mut self, eye: &mut Eye) -> bool {
        self.up.threads.len() > 1 && self.up.threads.iter().any(KnownThread::is_stuck) && self.examine(eye)
    }

    fn examine(&mut self, eye: &mut Eye) -> bool {
        let glance = self.permit(eye, true);
        let parked = |thread: &Thread| thread.state == TaskState::Sleeping && thread.wait.channel == Err(Absent::NotRead);
        if glance.kernel_thread || !glance.permitted || !self.shared.threads.iter().any(parked) {
            return false;
        }
        self.get_up(eye);
        let mut left = EXAMINED_AT_ONCE;
        for (index, known) in self.up.threads.iter_mut().enumerate() {
            if left > 0 && known.examine_parked(eye, glance) {
                left -= 1;
                if let Some(thread) = Arc::make_mut(&mut self.shared).threads_mut().get_mut(index) {
                    thread.wait = known.wait.clone();
                }
            }
        }
        left < EXAMINED_AT_ONCE
    }

    /// Brings `threads` and `shared.threads` in line with the directory: some thread began or ended. Fails where none is left.
    fn list_threads(&mut self, eye: &mut Eye) -> Reading<()> {
        let glance = self.permit(eye, true);
        let mut tids = std::mem::take(&mut eye.tids);
        let mut listed = eye.files.list_threads(glance.pid, &mut tids);
        if listed.is_ok() {
            let process = Arc::make_mut(&mut self.shared);
            let (old_known, old_threads) = (std::mem::take(&mut self.up.threads), std::mem::take(&mut process.threads));
            let mut old = old_known.into_iter().zip(old_threads.iter()).peekable();
            self.up.threads.reserve_exact(tids.len());
            let mut threads = Vec::with_capacity(tids.len());
            for &tid in &tids {
                while old.next_if(|(known, _)| known.tid < tid).is_some() {}
                let same = old.next_if(|(known, _)| known.tid == tid);
                let still = same.filter(|(known, thread)| is_still_there(eye, glance, known, thread));
                let still = still.map(|(known, thread)| (known, thread.clone()));
                let Some((known, thread)) = still.or_else(|| first_thread(eye, glance, tid).ok()) else { continue };
                self.up.threads.push(known);
                threads.push(thread);
            }
            // All of them have ended since.
            if threads.is_empty() {
                listed = Err(Absent::Vanished);
            }
            process.threads = threads.into();
        }
        eye.tids = tids;
        listed
    }

    fn permit(&self, eye: &Eye, full: bool) -> Glance {
        Glance {
            pid: self.pid,
            keep: eye.clocks.can_tell() && self.ran_lately(eye.now_ns),
            full,
            kernel_thread: self.shared.kernel_thread,
            permitted: eye.sees(self.shared.uid),
            ran: None,
            lone: self.lone,
            lent: None,
        }
    }

    fn note_trouble(&mut self, now_ns: u64) {
        let Watched { threads, hot, .. } = &*self.up;
        if !hot.iter().filter_map(|&index| threads.get(index)).all(KnownThread::is_calm) {
            self.up.troubled_ns = now_ns;
        }
    }

    /// After a full look: what the next one need not find out again. One pass: there may be ten thousand threads.
    fn settle(&mut self, eye: &Eye) {
        let Self { up, shared, .. } = self;
        let Watched { threads, hot, .. } = &mut **up;
        let (user, sees) = (!shared.kernel_thread, eye.sees(shared.uid));
        let (mut unsettled, mut hidden, mut no_schedstat) = (false, 0, 0);
        hot.clear();
        for (index, thread) in threads.iter().enumerate() {
            unsettled |= thread.is_unsettled();
            no_schedstat += u32::from(thread.sched.is_none());
            if user && thread.is_hot(eye.now_ns) {
                hot.push(index);
            }
            let waits = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
            hidden += u32::from(user && waits && (!sees || thread.wait.channel == Err(Absent::Hidden)));
        }
        (self.up.unsettled, self.hidden) = (unsettled, (hidden, no_schedstat));
        self.note_trouble(eye.now_ns);
    }

    /// Whether sub-samples look at it: one of its threads is hot, or something of it ran lately.
    pub fn is_awake(&self, now_ns: u64) -> bool {
        !self.up.hot.is_empty() || (self.ran_lately(now_ns) && !self.shared.kernel_thread)
    }
}

/// The figures of the process that each of its threads' stat has.
fn update(process: &mut Process, stat: &Stat<'_>) {
    process.ppid = stat.ppid;
    process.children = Some(stat.children);
    process.resident_pages = stat.resident_pages;
}

/// Those that the kernel adds up over its threads, in its own stat. Of many threads they may have been added up here in
/// between, and ticks rounded: they do not fall for that.
fn update_sums(process: &mut Process, stat: &Stat<'_>, threads: usize) {
    let never_less = |old: Counter, new: Counter| if threads >= LARGE { old.max(new) } else { new };
    process.user_ticks = never_less(process.user_ticks, stat.user_ticks);
    process.system_ticks = never_less(process.system_ticks, stat.system_ticks);
    process.guest_ticks = never_less(process.guest_ticks, stat.guest_ticks);
    process.minor_faults = never_less(process.minor_faults, stat.minor_faults);
    process.major_faults = never_less(process.major_faults, stat.major_faults);
}

/// A listed number that we know may by now be another thread's.
fn is_still_there(eye: &mut Eye, glance: Glance, known: &KnownThread, thread: &Thread) -> bool {
    if known.state == TaskState::Dead {
        return false;
    }
    let text = eye.files.thread(glance.pid, known.tid, ThreadFile::Stat, &mut Kept::default(), false);
    text.ok().and_then(task::stat).is_some_and(|stat| stat.start_ticks == thread.start_ticks)
}

fn first_thread(eye: &mut Eye, glance: Glance, tid: u32) -> Reading<(KnownThread, Thread)> {
    let kept = &mut Kept::default();
    let sched = eye.files.thread(glance.pid, tid, ThreadFile::Schedstat, kept, false);
    let sched = sched.ok().and_then(task::schedstat).filter(|_| eye.has_schedstat);
    let text = eye.files.thread(glance.pid, tid, ThreadFile::Stat, kept, false)?;
    let stat = task::stat(text).ok_or(Absent::Malformed)?;
    eye.tasks_read += 1;
    let (figures, state, comm) = (Figures::of(&stat), stat.state, eye.names.shared(stat.comm));
    let born = eye.is_born(figures.start_ticks);
    let mut known = KnownThread::new(tid, comm, state, figures.ticks(), sched, eye.now_ns, born);
    known.examine_first(eye, glance);
    let thread = known.thread(&figures);
    Ok((known, thread))
}
