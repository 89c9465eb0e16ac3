//! One process as it was last looked at. Its CPU clock tells whether any of its threads ran; as long as none did, nothing
//! of it is read and the samples share one `Process`.

mod active;
mod io;
mod single_thread;
pub(super) mod sub_sample;
mod threads;

use std::sync::Arc;

pub use self::active::ActiveState;
use self::active::MaybeActive;
use super::cpu_time_check::CpuTimeCheck;
use super::thread::{KnownThread, ProcessStat, ReadOptions, StatCounters, ThreadChange};
use super::thread_activity::LARGE_PROCESS_THREADS;
use super::{ScanContext, facts};
use crate::kernel::task::files::{ProcessFile, TaskDescriptors, ThreadFile};
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::WaitClass;
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// A process that ran within so long is looked at between samples, and its descriptors are kept.
const RECENT_NS: u64 = super::thread::ACTIVE_NS;
/// Descriptors of one that did not run for so long are given back.
const CLOSE_AFTER_NS: u64 = 30_000_000_000;
/// Threads that look parked, but belong to a process with a blocked one: so many are examined a sweep.
const MAX_THREADS_EXAMINED: usize = 64;

/// What is remembered of a process between two looks.
#[derive(Debug)]
pub struct KnownProcess {
    pub pid: u32,
    /// As it is in the last sample.
    pub sampled: Arc<Process>,
    /// Nothing of one at rest
    pub active: MaybeActive,
    /// Threads whose wait channel the kernel keeps from us, and those without schedstat.
    pub hidden: (u32, u32),
    pub facts: facts::FactsState,
    clock_ns: Option<u64>,
    first_seen_ns: u64,
    /// When it was last seen to have run; `None` for one that did not since it was first seen.
    last_ran_ns: Option<u64>,
    /// It has and had but one thread, whose stat is the process's; see `process/lone.rs`
    single_threaded: bool,
    arg_start: u64,
}

/// What a look at a whole process found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessChange {
    Unchanged,
    Changed,
    /// It ended, and maybe another one has its number.
    Gone,
}

impl KnownProcess {
    /// A process seen for the first time. What is slow to read (command line, executable, cgroup, io) comes later.
    pub fn discover(eye: &mut ScanContext, pid: u32) -> Reading<KnownProcess> {
        let clock_ns = eye.clocks.cpu_ns(pid);
        let uid = eye.files.owner_uid(pid)?;
        eye.owner_uids.insert(uid);
        let text = eye.files.read_process_file(pid, ProcessFile::Stat, &mut TaskDescriptors::default(), false)?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        let process = Process {
            pid,
            start_ticks: stat.start_ticks,
            ppid: stat.ppid,
            uid,
            comm: eye.interner.intern(stat.comm),
            kernel_thread: stat.kernel_thread,
            facts: eye.interner.unread_facts(),
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            guest_ticks: stat.guest_ticks,
            children_cpu: Some(stat.children_cpu),
            cpu_ns: clock_ns.map(Counter),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            resident_pages: stat.resident_pages,
            io: Err(Absent::NotRead),
            threads: Arc::default(),
        };
        let alone = (stat.thread_count <= 1).then(|| ProcessStat::from_stat(&stat));
        let thread_count = usize::try_from(stat.thread_count).unwrap_or(0);
        let argument_start = stat.arg_start;
        let mut known = KnownProcess {
            pid,
            sampled: Arc::new(process),
            active: MaybeActive::new(eye.now_ns),
            hidden: (0, 0),
            facts: facts::FactsState::default(),
            clock_ns,
            first_seen_ns: eye.now_ns,
            last_ran_ns: None,
            single_threaded: false,
            arg_start: argument_start,
        };
        if eye.started_since_last_scan(known.sampled.start_ticks) {
            known.last_ran_ns = Some(eye.now_ns);
        }
        match alone {
            Some(lent) => known.discover_single_thread(eye, lent)?,
            None => {
                known.list_threads(eye)?;
                known.active.older_than_clock = known.active.threads.len() < thread_count;
            }
        }
        known.examine_parked(eye);
        known.reset_cpu_time_check(clock_ns);
        known.update_thread_sets(eye);
        known.park(eye.now_ns);
        Ok(known)
    }

    /// Whether it ran in the last seconds.
    pub fn ran_recently(&self, now_ns: u64) -> bool {
        self.last_ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= RECENT_NS)
    }

    /// Whether it ran in the last half minute.
    pub fn ran_in_last_half_minute(&self, now_ns: u64) -> bool {
        self.last_ran_ns.is_some_and(|ran| now_ns.saturating_sub(ran) <= CLOSE_AFTER_NS)
    }

    /// Whether all of it that is left is its number.
    pub fn is_zombie(&self) -> bool {
        self.sampled.threads.first().is_some_and(|leader| leader.state == TaskState::Zombie)
    }

    /// Reads who its parent is: the one it had ended.
    pub fn refresh_parent(&mut self, eye: &mut ScanContext) {
        let text = eye.files.read_process_file(self.pid, ProcessFile::Stat, &mut TaskDescriptors::default(), false).ok();
        if let Some(stat) = text.and_then(task::parse_stat).filter(|stat| stat.start_ticks == self.sampled.start_ticks)
            && stat.ppid != self.sampled.ppid
        {
            Arc::make_mut(&mut self.sampled).ppid = stat.ppid;
            self.active.clear_group();
        }
    }

    /// Looks again, for a sample; `clock_ns` is what its clock says now.
    pub fn rescan(&mut self, eye: &mut ScanContext, clock_ns: Option<u64>) -> ProcessChange {
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        if ran || self.active.older_than_clock || self.active.newer_than_sample {
            // One that ran and cannot be read any more (it became another user's behind hidepid) would stand there as if it
            // did nothing: it is gone for us as one that ended is.
            return self.rescan_all(eye, clock_ns, ran).unwrap_or(ProcessChange::Gone);
        }
        if self.active.unsettled {
            return self.rescan_unsettled(eye);
        }
        if !self.active.descriptors.is_empty() && !self.ran_in_last_half_minute(eye.now_ns) {
            self.active.descriptors.close_all();
            self.active.threads.iter_mut().for_each(KnownThread::close_descriptors);
        }
        if !self.active.hot.is_empty() {
            let ActiveState { hot, threads, .. } = &mut *self.active;
            hot.retain(|&index| threads.get(index).is_some_and(|thread| thread.is_hot(eye.now_ns)));
        }
        ProcessChange::Unchanged
    }

    /// It ran. One that slept till now is watched closely at first.
    fn record_run(&mut self, now_ns: u64) {
        if !self.ran_recently(now_ns) {
            self.active.last_trouble_ns = now_ns;
        }
        self.last_ran_ns = Some(now_ns);
    }

    /// After all threads were read.
    fn reset_cpu_time_check(&mut self, clock_ns: Option<u64>) {
        self.active.cpu_time_check = CpuTimeCheck::new(clock_ns, self.active.threads.iter().map(|thread| thread.schedstat));
    }

    /// A thread in D that may hold the lock of its address space: who reads its memory (cmdline) could hang behind it.
    pub fn memory_read_may_hang(&self) -> bool {
        self.active.threads.iter().any(|thread| {
            let fault = thread.wait.syscall().is_ok_and(|call| call.number == -1);
            let unclear = !matches!(thread.wait_class, Some(WaitClass::Disk | WaitClass::Memory | WaitClass::Vfork));
            thread.state == TaskState::Blocked && (fault || unclear)
        })
    }

    /// Something of it ran, or a sub-sample saw more than the last sample has.
    fn rescan_all(&mut self, eye: &mut ScanContext, clock_ns: Option<u64>, ran: bool) -> Reading<ProcessChange> {
        self.activate(eye);
        let pid = self.pid;
        let keep = self.ran_recently(eye.now_ns);
        let adds_up = self.sums_threads_itself(clock_ns, eye.now_ns);
        if ran && eye.clocks.are_available() {
            self.record_run(eye.now_ns);
        }
        let text = eye.files.read_process_file(
            pid,
            if adds_up { ProcessFile::LeaderStat } else { ProcessFile::Stat },
            &mut self.active.descriptors,
            keep,
        )?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        if stat.start_ticks != self.sampled.start_ticks {
            return Ok(ProcessChange::Gone);
        }
        eye.tasks_read += 1;
        self.clock_ns = clock_ns;
        self.active.newer_than_sample = false;
        let executed = stat.comm != self.sampled.comm.as_bytes() || stat.arg_start != self.arg_start;
        self.arg_start = stat.arg_start;
        let thread_count = usize::try_from(stat.thread_count).unwrap_or(0);
        self.single_threaded &= thread_count == 1;
        let lent = self.single_threaded.then(|| ProcessStat::from_stat(&stat));
        if !adds_up {
            self.record_kernel_sums(&stat, eye.now_ns);
        }
        let process = Arc::make_mut(&mut self.sampled);
        process.comm = eye.interner.reuse_or_intern(&process.comm, stat.comm);
        update_from_stat(process, &stat);
        if !adds_up {
            update_sums_from_stat(process, &stat, self.active.threads.len());
        }
        let many = self.active.threads.len() >= LARGE_PROCESS_THREADS;
        if process.io.is_ok() && !many {
            let text = eye.files.read_process_file(pid, ProcessFile::Io, &mut self.active.descriptors, keep);
            process.io = text.and_then(|text| task::parse_io(text).ok_or(Absent::Malformed));
        }
        self.facts.record_run(executed, eye.now_ns);
        let mut found = self.rescan_threads(eye, clock_ns, ran, lent);
        if found.thread_gone || thread_count != self.active.threads.len() {
            self.list_threads(eye)?;
            self.reset_cpu_time_check(self.clock_ns);
            // Where a thread ends while they are listed the kernel may leave out another one.
            self.active.older_than_clock |= self.active.threads.len() < thread_count;
        }
        if adds_up {
            self.apply_thread_growth(eye, &found);
        }
        if many {
            self.update_io_from_threads(eye, &mut found, keep);
        }
        Arc::make_mut(&mut self.sampled).cpu_ns = self.clock_ns.map(Counter);
        self.examine_parked(eye);
        self.update_thread_sets(eye);
        Ok(ProcessChange::Changed)
    }

    /// Nothing ran, but some threads were running, blocked, or seen by a sub-sample only.
    fn rescan_unsettled(&mut self, eye: &mut ScanContext) -> ProcessChange {
        let glance = self.read_options(eye, true);
        let mut seen = ProcessChange::Unchanged;
        let Self { active: up, sampled: shared, .. } = self;
        for (index, known) in up.threads.iter_mut().enumerate().filter(|(_, known)| known.is_unsettled()) {
            let ThreadChange::Changed(figures) = known.rescan(eye, glance) else { continue };
            eye.tasks_read += 1;
            let new = known.to_sample(&figures);
            if shared.threads.get(index).is_some_and(|old| *old != new) {
                seen = ProcessChange::Changed;
                if let Some(old) = Arc::make_mut(shared).threads_mut().get_mut(index) {
                    *old = new;
                }
            }
        }
        if self.examine_parked(eye) {
            seen = ProcessChange::Changed;
        }
        self.update_thread_sets(eye);
        seen
    }

    /// Whether one of its threads is in D, as far as that may matter to others.
    pub fn has_stuck_thread(&self) -> bool {
        self.active.hot.iter().filter_map(|&index| self.active.threads.get(index)).any(KnownThread::is_stuck)
    }

    /// Whether one of its threads is in D, or asleep for asynchronous completions, for memory or for a file system in user space.
    pub fn has_blocked_thread(&self) -> bool {
        let asleep_for = |class| matches!(class, WaitClass::Aio | WaitClass::Memory | WaitClass::Disk);
        let blocked = |thread: &KnownThread| thread.state == TaskState::Blocked || thread.wait_class.is_some_and(asleep_for);
        self.active.hot.iter().filter_map(|&index| self.active.threads.get(index)).any(blocked)
    }

    /// Where its parked threads sleep, when one of its siblings is stuck: see `examine_parked`.
    pub fn examine_sibling(&mut self, eye: &mut ScanContext) -> bool {
        let examined = self.read_parked_waits(eye);
        if examined {
            self.update_thread_sets(eye);
        }
        examined
    }

    /// Threads that wait for a lock whose holder is stuck do not work, so nobody would ever look at them.
    fn examine_parked(&mut self, eye: &mut ScanContext) -> bool {
        self.active.threads.len() > 1 && self.active.threads.iter().any(KnownThread::is_stuck) && self.read_parked_waits(eye)
    }

    fn read_parked_waits(&mut self, eye: &mut ScanContext) -> bool {
        let glance = self.read_options(eye, true);
        let parked = |thread: &Thread| thread.state == TaskState::Sleeping && thread.wait.wchan == Err(Absent::NotRead);
        if glance.kernel_thread || !glance.may_read_waits || !self.sampled.threads.iter().any(parked) {
            return false;
        }
        self.activate(eye);
        let mut left = MAX_THREADS_EXAMINED;
        for (index, known) in self.active.threads.iter_mut().enumerate() {
            if left > 0 && known.read_parked_wait(eye, glance) {
                left -= 1;
                if let Some(thread) = Arc::make_mut(&mut self.sampled).threads_mut().get_mut(index) {
                    thread.wait = known.wait.clone();
                }
            }
        }
        left < MAX_THREADS_EXAMINED
    }

    /// Brings `threads` and `shared.threads` in line with the directory: some thread began or ended. Fails where none is left.
    fn list_threads(&mut self, eye: &mut ScanContext) -> Reading<()> {
        let glance = self.read_options(eye, true);
        let mut tids = std::mem::take(&mut eye.tids);
        let mut listed = eye.files.list_threads(glance.pid, &mut tids);
        if listed.is_ok() {
            let process = Arc::make_mut(&mut self.sampled);
            let (old_known, old_threads) = (std::mem::take(&mut self.active.threads), std::mem::take(&mut process.threads));
            let mut old = old_known.into_iter().zip(old_threads.iter()).peekable();
            self.active.threads.reserve_exact(tids.len());
            let mut threads = Vec::with_capacity(tids.len());
            for &tid in &tids {
                while old.next_if(|(known, _)| known.tid < tid).is_some() {}
                let same = old.next_if(|(known, _)| known.tid == tid);
                let still = same.filter(|(known, thread)| is_same_thread(eye, glance, known, thread));
                let still = still.map(|(known, thread)| (known, thread.clone()));
                let Some((known, thread)) = still.or_else(|| discover_thread(eye, glance, tid).ok()) else { continue };
                self.active.threads.push(known);
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

    fn read_options(&self, eye: &ScanContext, full: bool) -> ReadOptions {
        ReadOptions {
            pid: self.pid,
            keep_open: eye.clocks.are_available() && self.ran_recently(eye.now_ns),
            for_sample: full,
            kernel_thread: self.sampled.kernel_thread,
            may_read_waits: eye.can_inspect_tasks_of(self.sampled.uid),
            ran: None,
            single_threaded: self.single_threaded,
            process_stat: None,
        }
    }

    fn record_trouble(&mut self, now_ns: u64) {
        let ActiveState { threads, hot, .. } = &*self.active;
        if !hot.iter().filter_map(|&index| threads.get(index)).all(KnownThread::is_calm) {
            self.active.last_trouble_ns = now_ns;
        }
    }

    /// After a full look: what the next one need not find out again. One pass: there may be ten thousand threads.
    fn update_thread_sets(&mut self, eye: &ScanContext) {
        let Self { active: up, sampled: shared, .. } = self;
        let ActiveState { threads, hot, .. } = &mut **up;
        let (user, sees) = (!shared.kernel_thread, eye.can_inspect_tasks_of(shared.uid));
        let (mut unsettled, mut hidden, mut no_schedstat) = (false, 0, 0);
        hot.clear();
        for (index, thread) in threads.iter().enumerate() {
            unsettled |= thread.is_unsettled();
            no_schedstat += u32::from(thread.schedstat.is_none());
            if user && thread.is_hot(eye.now_ns) {
                hot.push(index);
            }
            let waits = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
            hidden += u32::from(user && waits && (!sees || thread.wait.wchan == Err(Absent::Hidden)));
        }
        (self.active.unsettled, self.hidden) = (unsettled, (hidden, no_schedstat));
        self.record_trouble(eye.now_ns);
    }

    /// Whether sub-samples look at it: one of its threads is hot, or something of it ran lately.
    pub fn is_sub_sampled(&self, now_ns: u64) -> bool {
        !self.active.hot.is_empty() || (self.ran_recently(now_ns) && !self.sampled.kernel_thread)
    }
}

/// The figures of the process that each of its threads' stat has.
fn update_from_stat(process: &mut Process, stat: &Stat<'_>) {
    process.ppid = stat.ppid;
    process.children_cpu = Some(stat.children_cpu);
    process.resident_pages = stat.resident_pages;
}

/// Those that the kernel adds up over its threads, in its own stat. Of many threads they may have been added up here in
/// between, and ticks rounded: they do not fall for that.
fn update_sums_from_stat(process: &mut Process, stat: &Stat<'_>, threads: usize) {
    let never_less = |old: Counter, new: Counter| if threads >= LARGE_PROCESS_THREADS { old.max(new) } else { new };
    process.user_ticks = never_less(process.user_ticks, stat.user_ticks);
    process.system_ticks = never_less(process.system_ticks, stat.system_ticks);
    process.guest_ticks = never_less(process.guest_ticks, stat.guest_ticks);
    process.minor_faults = never_less(process.minor_faults, stat.minor_faults);
    process.major_faults = never_less(process.major_faults, stat.major_faults);
}

/// A listed number that we know may by now be another thread's.
fn is_same_thread(eye: &mut ScanContext, glance: ReadOptions, known: &KnownThread, thread: &Thread) -> bool {
    if known.state == TaskState::Dead {
        return false;
    }
    let text = eye.files.read_thread_file(glance.pid, known.tid, ThreadFile::Stat, &mut TaskDescriptors::default(), false);
    text.ok().and_then(task::parse_stat).is_some_and(|stat| stat.start_ticks == thread.start_ticks)
}

fn discover_thread(eye: &mut ScanContext, glance: ReadOptions, tid: u32) -> Reading<(KnownThread, Thread)> {
    let kept = &mut TaskDescriptors::default();
    let sched = eye.files.read_thread_file(glance.pid, tid, ThreadFile::Schedstat, kept, false);
    let sched = sched.ok().and_then(task::parse_schedstat).filter(|_| eye.has_schedstat);
    let text = eye.files.read_thread_file(glance.pid, tid, ThreadFile::Stat, kept, false)?;
    let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
    eye.tasks_read += 1;
    let (figures, state, comm) = (StatCounters::from_stat(&stat), stat.state, eye.interner.intern(stat.comm));
    let born = eye.started_since_last_scan(figures.start_ticks);
    let mut known = KnownThread::new(tid, comm, state, figures.ticks(), sched, eye.now_ns, born);
    known.read_first_wait(eye, glance);
    let thread = known.to_sample(&figures);
    Ok((known, thread))
}
