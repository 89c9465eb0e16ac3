//! A process of one thread: its stat is the thread's, too, so that of the two only one is read, and three inodes of /proc less
//! are to be made for it.
//!
//! It is not where threads that ended have left their time in it: then the clock of the process is ahead of the thread's run
//! time. The kernel splits time into user and system for each of the two by itself, a tick here or there: of a process that
//! is all one thread we know only one of them.

use std::sync::Arc;

use super::KnownProcess;
use super::discover_thread;
use crate::kernel::scan::ScanContext;
use crate::kernel::scan::thread::{KnownThread, ProcessStat};
use crate::kernel::task;
use crate::kernel::task::files::{TaskDescriptors, ThreadFile};
use crate::sample::Reading;
use crate::sample::task::TaskState;

impl KnownProcess {
    /// Seen for the first time; `lent` is what its stat said.
    pub(super) fn discover_single_thread(&mut self, eye: &mut ScanContext, lent: ProcessStat) -> Reading<()> {
        let ProcessStat { state, counters: figures } = lent;
        let glance = self.read_options(eye, true);
        let tid = glance.pid;
        if matches!(state, TaskState::Sleeping | TaskState::Idle) {
            let text = eye.files.read_thread_file(tid, tid, ThreadFile::Schedstat, &mut TaskDescriptors::default(), false);
            let sched = text.ok().and_then(task::parse_schedstat);
            if sched.is_some_and(|sched| sched.timeslices.0 > 0 && Some(sched.run_ns.0) == self.clock_ns) {
                eye.tasks_read += 1;
                let born = eye.started_since_last_scan(figures.start_ticks);
                let (comm, ticks) = (self.sampled.comm.clone(), figures.ticks());
                let mut known = KnownThread::new(tid, comm, state, ticks, sched, eye.now_ns, born);
                known.read_first_wait(eye, glance);
                // Lists of exactly one: most processes have one thread, and a list that grows begins with room for four.
                Arc::make_mut(&mut self.sampled).threads = Arc::new([known.to_sample(&figures)]);
                self.active.threads = vec![known];
                self.single_threaded = true;
                return Ok(());
            }
        }
        let (known, thread) = discover_thread(eye, glance, tid)?;
        self.active.threads = vec![known];
        Arc::make_mut(&mut self.sampled).threads = Arc::new([thread]);
        Ok(())
    }

    /// Whether its only thread has run as long as it did. Another one that came and went has left its time.
    pub(super) fn thread_accounts_for(&self, clock_ns: Option<u64>) -> bool {
        let ran_ns = self.active.threads.first().and_then(|thread| thread.schedstat).map(|sched| sched.run_ns.0);
        ran_ns.zip(clock_ns).is_some_and(|(ran, clock)| ran >= clock)
    }
}
