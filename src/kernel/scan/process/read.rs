//! Reads a process for a sample: the first time (`discover`) and again (`rescan`).

use std::sync::Arc;

use super::super::ScanContext;
use super::super::thread::{KnownThread, ThreadChange};
use super::{ActiveProcess, FactsState, HiddenThreads, KnownProcess, ProcessChange, ProcessState, Reread};
use crate::kernel::task::files::{AfterRead, ProcessFile, TaskDescriptors, ThreadFile, is_task_gone};
use crate::kernel::task::wait_channel::WaitChannelFile;
use crate::kernel::task::{self, Stat};
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::{Absent, Reading};
use crate::units::Counter;

/// Number of parked threads beside a stuck one of their process whose wait channels are read in one scan.
const MAX_THREADS_EXAMINED: usize = 64;

impl KnownProcess {
    /// Reads a process that is seen for the first time. `facts` reads its command line, executable, cgroup, io and shared memory
    /// later.
    pub fn discover(context: &mut ScanContext, pid: u32) -> Reading<KnownProcess> {
        let clock_ns = context.clocks.cpu_ns(pid);
        context.record_read_time(pid);
        let uid = context.files.owner_uid(pid)?;
        context.owner_uids.insert(uid);
        let text =
            context.files.read_process_file(pid, ProcessFile::Stat, &mut TaskDescriptors::default(), AfterRead::Close)?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        let (thread_count, arg_start) = (usize::try_from(stat.thread_count).unwrap_or(0), stat.arg_start);
        let process = Process {
            pid,
            start_ticks: stat.start_ticks,
            ppid: stat.ppid,
            uid,
            comm: context.interner.intern(stat.comm),
            kernel_thread: stat.kernel_thread,
            facts: context.interner.unread_facts(),
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            guest_ticks: stat.guest_ticks,
            children_cpu: Some(stat.children_cpu),
            cpu_ns: clock_ns.map(Counter),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            resident_pages: stat.resident_pages,
            virtual_bytes: Some(stat.virtual_bytes),
            shared_pages: None,
            io: Err(Absent::NotRead),
            threads: Arc::default(),
        };
        let now_ns = context.now_ns;
        let mut known = KnownProcess {
            pid,
            last_ran_ns: context.started_since_last_scan(process.start_ticks).then_some(now_ns),
            sampled: Arc::new(process),
            state: ProcessState::Parked,
            hidden: HiddenThreads::default(),
            facts: FactsState::default(),
            clock_ns,
            first_seen_ns: now_ns,
            arg_start,
        };
        let mut active = Box::new(ActiveProcess { last_unsteady_ns: now_ns, ..ActiveProcess::default() });
        known.list_threads(&mut active, thread_count, context)?;
        known.read_waits_beside_stuck_threads(&mut active, context);
        known.update_thread_sets(&mut active, context);
        known.state = ProcessState::Active(active);
        Ok(known)
    }

    /// Reads for a sample what may have changed. `clock_ns` is the CPU clock of the process now.
    pub fn rescan(&mut self, context: &mut ScanContext, clock_ns: Option<u64>) -> ProcessChange {
        let ran = clock_ns.is_none() || clock_ns != self.clock_ns;
        let reread = match &mut self.state {
            ProcessState::Active(active) => {
                active.clock_is_current = true;
                active.reread
            }
            ProcessState::Parked => Reread::WhenClockAdvances,
        };
        if ran {
            context.record_read_time(self.pid);
        }
        if ran || reread == Reread::Everything {
            return self.rescan_all(context, clock_ns, ran);
        }
        if reread == Reread::ThreadsThatMayChange {
            return self.rescan_threads_that_may_change(context);
        }
        if let ProcessState::Active(active) = &mut self.state {
            let ActiveProcess { hot, threads, .. } = &mut **active;
            hot.retain(|&index| threads.get(index).is_some_and(|thread| thread.is_hot(context.now_ns)));
        }
        ProcessChange::Unchanged
    }

    /// Reads what changes without it running: its memory and, where the freezer stopped or thawed it, the states of its threads.
    pub fn reread_without_run(&mut self, context: &mut ScanContext) {
        let (pid, now_ns) = (self.pid, context.now_ns);
        if self.sampled.kernel_thread || self.last_ran_ns == Some(now_ns) {
            return;
        }
        // That of the thread: for that of the process the kernel adds up all threads.
        let kept = &mut TaskDescriptors::default();
        let text = context.files.read_thread_file(pid, pid, ThreadFile::Stat, kept, AfterRead::Close);
        let stat = text.ok().and_then(task::parse_stat).filter(|stat| stat.start_ticks == self.sampled.start_ticks);
        let Some(Stat { state, resident_pages, virtual_bytes, .. }) = stat else { return };
        context.tasks_read += 1;
        if (resident_pages, Some(virtual_bytes)) != (self.sampled.resident_pages, self.sampled.virtual_bytes) {
            let process = Arc::make_mut(&mut self.sampled);
            (process.resident_pages, process.virtual_bytes) = (resident_pages, Some(virtual_bytes));
        }
        // A process that has run since its clock was read is left to the next scan.
        let has_other_state = self.sampled.thread(pid).is_some_and(|leader| leader.state != state);
        if has_other_state && context.clocks.cpu_ns(pid) == self.clock_ns {
            let mut active = self.activate(context);
            active.threads.iter_mut().for_each(|thread| thread.sample_is_stale = true);
            self.state = ProcessState::Active(active);
            self.rescan_threads_that_may_change(context);
            self.park_if_idle(now_ns);
        }
    }

    /// Reads the wait channels of its parked threads, because a process of its group is stuck: they may wait for a lock of that one.
    pub fn read_waits_beside_stuck_sibling(&mut self, context: &mut ScanContext) -> bool {
        if !self.has_unread_waits(context) {
            return false;
        }
        let mut active = self.activate(context);
        let learned = self.read_parked_waits(&mut active, context);
        if learned {
            self.update_thread_sets(&mut active, context);
        }
        self.state = ProcessState::Active(active);
        learned
    }

    /// Its CPU clock advanced, or a sub-sample read more than the last sample has.
    fn rescan_all(&mut self, context: &mut ScanContext, clock_ns: Option<u64>, ran: bool) -> ProcessChange {
        let mut active = self.activate(context);
        let change = self.reread(&mut active, context, clock_ns, ran).unwrap_or_else(|why| {
            // A process that ran and cannot be read any more (hidepid, and it became another user's) would be shown as idle: it is
            // gone like one that ended.
            if is_task_gone(why) || why == Absent::NoPermission {
                return ProcessChange::Gone;
            }
            // The error is stalltop's own, such as ENFILE: the last reading is kept.
            active.reread = Reread::Everything;
            ProcessChange::Unchanged
        });
        self.state = ProcessState::Active(active);
        change
    }

    fn reread(
        &mut self,
        active: &mut ActiveProcess,
        context: &mut ScanContext,
        clock_ns: Option<u64>,
        ran: bool,
    ) -> Reading<ProcessChange> {
        let (pid, now_ns) = (self.pid, context.now_ns);
        let after = AfterRead::keep_open_if(self.ran_recently(now_ns));
        if ran && context.clocks.are_available() {
            self.record_run(active, now_ns);
        }
        let text = context.files.read_process_file(pid, ProcessFile::Stat, &mut active.descriptors, after)?;
        let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
        if stat.start_ticks != self.sampled.start_ticks {
            return Ok(ProcessChange::Gone);
        }
        context.tasks_read += 1;
        let thread_count = usize::try_from(stat.thread_count).unwrap_or(0);
        let executed = stat.comm != self.sampled.comm.as_bytes() || stat.arg_start != self.arg_start;
        self.arg_start = stat.arg_start;
        self.facts.record_run(executed, now_ns);
        let process = Arc::make_mut(&mut self.sampled);
        process.comm = context.interner.reuse_or_intern(&process.comm, stat.comm);
        process.ppid = stat.ppid;
        process.user_ticks = stat.user_ticks;
        process.system_ticks = stat.system_ticks;
        process.guest_ticks = stat.guest_ticks;
        process.children_cpu = Some(stat.children_cpu);
        process.minor_faults = stat.minor_faults;
        process.major_faults = stat.major_faults;
        process.resident_pages = stat.resident_pages;
        process.virtual_bytes = Some(stat.virtual_bytes);
        if process.io.is_ok() {
            let text = context.files.read_process_file(pid, ProcessFile::Io, &mut active.descriptors, after);
            process.io = text.and_then(|text| task::parse_io(text).ok_or(Absent::Malformed));
        }
        self.clock_ns = clock_ns;
        active.reread = Reread::WhenClockAdvances;
        let thread_gone = self.rescan_threads(active, context);
        if thread_gone || thread_count != active.threads.len() {
            self.list_threads(active, thread_count, context)?;
        }
        Arc::make_mut(&mut self.sampled).cpu_ns = self.clock_ns.map(Counter);
        self.read_waits_beside_stuck_threads(active, context);
        self.update_thread_sets(active, context);
        Ok(ProcessChange::Changed)
    }

    /// The CPU clock did not advance, but some threads are running, blocked, or were read by a sub-sample only.
    fn rescan_threads_that_may_change(&mut self, context: &mut ScanContext) -> ProcessChange {
        let options = self.read_options(context, true);
        let mut active = self.activate(context);
        let mut change = ProcessChange::Unchanged;
        for (index, known) in active.threads.iter_mut().enumerate().filter(|(_, known)| known.may_change_without_running()) {
            let ThreadChange::Changed(counters) = known.rescan(context, options) else { continue };
            context.tasks_read += 1;
            let new = known.to_sample(&counters);
            if self.sampled.threads.get(index).is_some_and(|old| *old != new) {
                change = ProcessChange::Changed;
                if let Some(old) = Arc::make_mut(&mut self.sampled).threads_mut().get_mut(index) {
                    *old = new;
                }
            }
        }
        if self.read_waits_beside_stuck_threads(&mut active, context) {
            change = ProcessChange::Changed;
        }
        self.update_thread_sets(&mut active, context);
        self.state = ProcessState::Active(active);
        change
    }

    /// Threads that wait for a lock do not run, so their wait channels are not read for their own sake. Where a thread of the process
    /// is stuck they may wait for it. True when something was read.
    fn read_waits_beside_stuck_threads(&mut self, active: &mut ActiveProcess, context: &mut ScanContext) -> bool {
        let stuck = active.threads.len() > 1 && active.threads.iter().any(KnownThread::is_uninterruptible);
        stuck && self.has_unread_waits(context) && self.read_parked_waits(active, context)
    }

    fn has_unread_waits(&self, context: &ScanContext) -> bool {
        let unread = |thread: &Thread| thread.state == TaskState::Sleeping && thread.wait.wchan == Err(Absent::NotRead);
        let process = &self.sampled;
        !process.kernel_thread && context.can_inspect_tasks_of(process.uid) && process.threads.iter().any(unread)
    }

    fn read_parked_waits(&mut self, active: &mut ActiveProcess, context: &mut ScanContext) -> bool {
        let options = self.read_options(context, true);
        let mut left = MAX_THREADS_EXAMINED;
        for (index, known) in active.threads.iter_mut().enumerate() {
            if left > 0 && known.read_parked_wait(context, options) {
                left -= 1;
                if let Some(thread) = Arc::make_mut(&mut self.sampled).threads_mut().get_mut(index) {
                    thread.wait = known.wait.clone();
                }
            }
        }
        left < MAX_THREADS_EXAMINED
    }

    /// After a reading for a sample: which threads are hot, hidden, and may change without running.
    fn update_thread_sets(&mut self, active: &mut ActiveProcess, context: &ScanContext) {
        let (user, may_read_waits) = (!self.sampled.kernel_thread, context.can_inspect_tasks_of(self.sampled.uid));
        let has_no_wait_channels = context.files.wait_channel_file == WaitChannelFile::Unavailable;
        let mut hidden = HiddenThreads::default();
        active.hot.clear();
        for (index, thread) in active.threads.iter().enumerate() {
            if thread.may_change_without_running() && active.reread == Reread::WhenClockAdvances {
                active.reread = Reread::ThreadsThatMayChange;
            }
            if user && thread.is_hot(context.now_ns) {
                active.hot.push(index);
            }
            let waits = matches!(thread.state, TaskState::Sleeping | TaskState::Blocked);
            let is_unknown = thread.wait.wchan == Err(Absent::Hidden) || has_no_wait_channels;
            let hides_wait = user && waits && (!may_read_waits || is_unknown);
            hidden.wait_channels += u32::from(hides_wait);
            hidden.schedstats += u32::from(thread.schedstat.is_none());
        }
        self.hidden = hidden;
        active.record_unsteady(context.now_ns);
    }
}
