//! Lists the threads of a process for a sample, and decides which of them are read.
//!
//! The run times of the threads add up to the CPU clock of the process (`cpu_time_check`). So those that likely ran are read first;
//! if they account for the clock, no other thread ran and none need be read.

use std::sync::Arc;

use super::super::ScanContext;
use super::super::thread::{KnownThread, ReadOptions, StatCounters, ThreadChange};
use super::{ActiveProcess, KnownProcess, Reread};
use crate::kernel::task;
use crate::kernel::task::files::{AfterRead, TaskDescriptors, ThreadFile, is_task_gone};
use crate::sample::task::{TaskState, Thread};
use crate::sample::{Absent, Reading};

/// If there are at least `THREADS_PER_HOT_THREAD` threads for each hot one, the hot threads are read up to this many times again before
/// all others are read: a thread that was on a CPU when the clock was read is usually off it a moment later.
const EXTRA_TRIES: u32 = 3;
const THREADS_PER_HOT_THREAD: usize = 32;

impl KnownProcess {
    /// Reads the threads that ran. True if a thread has ended.
    pub(super) fn rescan_threads(&mut self, active: &mut ActiveProcess, context: &mut ScanContext) -> bool {
        let options = self.read_options(context, true);
        let now_ns = context.now_ns;
        let likely_ran =
            |known: &KnownThread| (known.is_hot(now_ns) && known.likely_ran(now_ns)) || known.may_change_without_running();
        let mut thread_gone = self.rescan_matching(active, context, options, likely_ran);
        thread_gone |= self.rescan_hot_until_accounted(active, context, options);
        let may_run = |known: &KnownThread| known.is_hot(now_ns) || known.may_change_without_running();
        let few_hot = !active.hot.is_empty() && active.hot.len() * THREADS_PER_HOT_THREAD <= active.threads.len();
        for _ in 0..if few_hot { EXTRA_TRIES } else { 0 } {
            if active.cpu_time_check.accounts_for(self.clock_ns) || !active.cpu_time_check.is_known() {
                break;
            }
            self.clock_ns = context.clocks.cpu_ns(self.pid);
            context.record_read_time(self.pid);
            thread_gone |= self.rescan_matching(active, context, options, may_run);
        }
        if !active.cpu_time_check.accounts_for(self.clock_ns) {
            thread_gone |= self.rescan_matching(active, context, options, |known| known.last_read_ns != now_ns);
            active.reset_cpu_time_check(self.clock_ns);
        }
        thread_gone
    }

    fn rescan_matching(
        &mut self,
        active: &mut ActiveProcess,
        context: &mut ScanContext,
        options: ReadOptions,
        wanted: impl Fn(&KnownThread) -> bool,
    ) -> bool {
        let mut thread_gone = false;
        for index in 0..active.threads.len() {
            if active.threads.get(index).is_some_and(&wanted) {
                thread_gone |= self.rescan_thread(active, index, context, options);
            }
        }
        thread_gone
    }

    /// The hot threads that were not read yet, those that have waited longest first, until no other thread ran.
    fn rescan_hot_until_accounted(
        &mut self,
        active: &mut ActiveProcess,
        context: &mut ScanContext,
        options: ReadOptions,
    ) -> bool {
        let mut thread_gone = false;
        if !active.cpu_time_check.accounts_for(self.clock_ns) {
            for index in active.unread_hot(context.now_ns) {
                thread_gone |= self.rescan_thread(active, index, context, options);
                if active.cpu_time_check.accounts_for(self.clock_ns) {
                    break;
                }
            }
        }
        thread_gone
    }

    /// True if it has ended.
    fn rescan_thread(
        &mut self,
        active: &mut ActiveProcess,
        index: usize,
        context: &mut ScanContext,
        options: ReadOptions,
    ) -> bool {
        let ActiveProcess { threads, cpu_time_check, .. } = active;
        let threads = threads.get_mut(index).zip(Arc::make_mut(&mut self.sampled).threads_mut().get_mut(index));
        let Some((known, thread)) = threads else { return false };
        let before = known.schedstat;
        let mut gone = false;
        match known.rescan(context, options) {
            // Only sub-samples do without the counters.
            ThreadChange::Unchanged | ThreadChange::Asleep => {}
            ThreadChange::Changed(counters) if counters.start_ticks == thread.start_ticks => {
                context.tasks_read += 1;
                *thread = known.to_sample(&counters);
            }
            ThreadChange::Changed(_) | ThreadChange::Gone => gone = true,
        }
        cpu_time_check.update_thread(before, known.schedstat);
        gone
    }

    /// Brings `active.threads` and `sampled.threads` in line with /proc/PID/task, after a thread began or ended; `thread_count` is
    /// that of stat. Fails if no thread is left.
    pub(super) fn list_threads(
        &mut self,
        active: &mut ActiveProcess,
        thread_count: usize,
        context: &mut ScanContext,
    ) -> Reading<()> {
        let options = self.read_options(context, true);
        // The only thread of a process has its pid.
        let mut tids = vec![self.pid];
        if thread_count != 1 {
            context.files.list_threads(self.pid, &mut tids)?;
        }
        let process = Arc::make_mut(&mut self.sampled);
        let (old_known, old_threads) = (std::mem::take(&mut active.threads), std::mem::take(&mut process.threads));
        let mut old = old_known.into_iter().zip(old_threads.iter()).peekable();
        active.threads.reserve_exact(tids.len());
        let multithreaded = tids.len() > 1;
        let mut threads = Vec::with_capacity(tids.len());
        for tid in tids {
            while old.next_if(|(known, _)| known.tid < tid).is_some() {}
            let same = old.next_if(|(known, _)| known.tid == tid);
            let same = same.filter(|(known, thread)| is_same_thread(context, options, known, thread));
            let same = same.map(|(known, thread)| (known, thread.clone()));
            // A thread that ended between listing and reading is left out.
            let Some((known, thread)) = same.or_else(|| discover_thread(context, options, tid, multithreaded).ok()) else {
                continue;
            };
            active.threads.push(known);
            threads.push(thread);
        }
        if threads.is_empty() {
            return Err(Absent::Vanished);
        }
        process.threads = threads.into();
        active.reset_cpu_time_check(self.clock_ns);
        // Where a thread ends while the directory is listed, the kernel may leave out another one.
        if active.threads.len() < thread_count {
            active.reread = Reread::Everything;
        }
        Ok(())
    }
}

/// Whether a listed tid is still that of the known thread.
fn is_same_thread(context: &mut ScanContext, options: ReadOptions, known: &KnownThread, thread: &Thread) -> bool {
    if known.state == TaskState::Dead {
        return false;
    }
    let kept = &mut TaskDescriptors::default();
    match context.files.read_thread_file(options.pid, known.tid, ThreadFile::Stat, kept, AfterRead::Close) {
        Ok(text) => task::parse_stat(text).is_some_and(|stat| stat.start_ticks == thread.start_ticks),
        // The error is stalltop's own, such as ENFILE.
        Err(why) => !is_task_gone(why),
    }
}

fn discover_thread(
    context: &mut ScanContext,
    options: ReadOptions,
    tid: u32,
    multithreaded: bool,
) -> Reading<(KnownThread, Thread)> {
    let kept = &mut TaskDescriptors::default();
    let schedstat = context.files.read_thread_file(options.pid, tid, ThreadFile::Schedstat, kept, AfterRead::Close);
    let schedstat = schedstat.ok().and_then(task::parse_schedstat).filter(|_| context.has_schedstat);
    let text = context.files.read_thread_file(options.pid, tid, ThreadFile::Stat, kept, AfterRead::Close)?;
    let stat = task::parse_stat(text).ok_or(Absent::Malformed)?;
    context.tasks_read += 1;
    let (counters, state, comm) = (StatCounters::from_stat(&stat), stat.state, context.interner.intern(stat.comm));
    let now_ns = context.now_ns;
    let last_timeslice_ns = context.started_since_last_scan(counters.start_ticks).then_some(now_ns);
    let mut known = KnownThread::new(tid, comm, state, counters.ticks(), schedstat, now_ns, last_timeslice_ns);
    known.read_first_wait(context, options, multithreaded);
    let thread = known.to_sample(&counters);
    Ok((known, thread))
}
