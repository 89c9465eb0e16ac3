//! The thread that reads, unwinds and names user stacks. A file system that does not answer, or a process whose memory is locked,
//! blocks this thread alone: after 30 s another thread replaces it, and avoids that target until the first one is answered.
//! `table_loader` has the limit of memory.

mod stack_unwinder;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use self::stack_unwinder::StackUnwinder;
use super::access_target::AccessedTarget;
use super::code_files::CodeFiles;
use crate::ids::TaskId;
use crate::kernel::root::{Root, absent_from_io_error};
use crate::kernel::stacks::USER_STACK_THREAD;
use crate::kernel::sys;
use crate::sample::{Absent, Name, Reading};

/// Then the thread ends, and with it what it knows.
const IDLE: Duration = Duration::from_secs(60);
/// After this long without an answer it is given up: a busy disk answers within it, also where memory is short,
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// and after so many samples: this program may have been stopped for longer.
const MIN_SAMPLES: u32 = 3;
/// Threads that are given up and still blocked; with so many no user stacks are read.
const MAX_GIVEN_UP: usize = 4;
/// Naming the functions of C++ templates recurses.
const STACK_BYTES: usize = 1 << 20;
/// It reads symbols of hundreds of kilobytes: not with the priority of the sampler.
const NICE: libc::c_int = 0;

#[derive(Clone, Copy, Debug)]
pub struct WantedStack {
    pub task: TaskId,
    pub timeslices: Option<u64>,
}

#[derive(Debug)]
pub struct AnsweredStack {
    pub task: TaskId,
    pub timeslices: Option<u64>,
    pub functions: Reading<Name>,
}

#[derive(Debug)]
struct Link {
    requests: SyncSender<Vec<WantedStack>>,
    answers: Receiver<Vec<AnsweredStack>>,
    accessed: AccessedTarget,
    asked_at: Option<Instant>,
    /// Samples in which its answer was wanted. One that did not come in time is not waited for again.
    samples: u32,
}

/// The sampler's side of the thread, which runs while stacks are wanted.
#[derive(Debug)]
pub struct ReaderThread {
    root: Root,
    link: Option<Link>,
    /// Where those are blocked that were given up
    given_up: Vec<AccessedTarget>,
}

impl ReaderThread {
    pub fn new(root: Root) -> ReaderThread {
        ReaderThread { root, link: None, given_up: Vec::new() }
    }

    /// The answer to an earlier request that did not come in time, if it has come since.
    pub fn receive_late(&mut self) -> Vec<AnsweredStack> {
        let Some(link) = self.link.as_mut().filter(|link| link.asked_at.is_some()) else { return Vec::new() };
        match link.answers.try_recv() {
            Ok(answers) => {
                link.asked_at = None;
                answers
            }
            Err(TryRecvError::Empty) => Vec::new(),
            Err(TryRecvError::Disconnected) => {
                self.link = None;
                Vec::new()
            }
        }
    }

    /// Asks for stacks, the most important first, unless it still works on earlier ones. Fails if none are read: too many threads were
    /// given up and are blocked (`Os(ETIMEDOUT)`), or none can be started.
    pub fn request(&mut self, wanted: Vec<WantedStack>, now: Instant) -> Reading<()> {
        if let Some(link) = &mut self.link
            && let Some(asked_at) = link.asked_at
        {
            link.samples += 1;
            if now.saturating_duration_since(asked_at) < ANSWER_TIMEOUT || link.samples < MIN_SAMPLES {
                return Ok(());
            }
            // Left where it is: a thread that is blocked in the kernel cannot be ended. It ends when it is answered.
            self.given_up.extend(self.link.take().map(|link| link.accessed));
        }
        self.forget_ended();
        if self.given_up.len() >= MAX_GIVEN_UP {
            return Err(Absent::Os(libc::ETIMEDOUT));
        }
        let mut wanted = wanted;
        // The second try: it has ended because it was idle.
        for _ in 0..2 {
            if wanted.is_empty() {
                break;
            }
            let link = match &mut self.link {
                Some(link) => link,
                none => none.insert(start(&self.root, &self.given_up)?),
            };
            match link.requests.try_send(wanted) {
                Ok(()) => {
                    (link.asked_at, link.samples) = (Some(now), 1);
                    break;
                }
                Err(TrySendError::Full(_)) => break,
                Err(TrySendError::Disconnected(unsent)) => {
                    wanted = unsent;
                    self.link = None;
                }
            }
        }
        Ok(())
    }

    /// The answer to the request of this sample. Waits for at most `timeout`.
    pub fn receive(&mut self, timeout: Duration) -> Vec<AnsweredStack> {
        let is_of_sample = |link: &&mut Link| link.asked_at.is_some() && link.samples == 1;
        let Some(link) = self.link.as_mut().filter(is_of_sample) else { return Vec::new() };
        match link.answers.recv_timeout(timeout) {
            Ok(answers) => {
                link.asked_at = None;
                answers
            }
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                self.link = None;
                Vec::new()
            }
        }
    }

    /// What has answered may be accessed again, by a thread that does not know it as hung.
    fn forget_ended(&mut self) {
        let before = self.given_up.len();
        self.given_up.retain(AccessedTarget::is_of_running_thread);
        if self.given_up.len() < before {
            self.link.take_if(|link| link.asked_at.is_none());
        }
    }
}

fn start(root: &Root, given_up: &[AccessedTarget]) -> Reading<Link> {
    let (requests, work) = sync_channel::<Vec<WantedStack>>(1);
    let (sender, answers) = sync_channel(1);
    let accessed = AccessedTarget::default();
    let hung = given_up.iter().filter_map(AccessedTarget::get).collect();
    let (root, own) = (root.clone(), accessed.clone());
    let body = move || {
        // Not permitted: it runs as this program does.
        let _ = sys::set_nice(NICE);
        let mut reader = StackUnwinder::new(CodeFiles::new(root, hung, own));
        while let Ok(wanted) = work.recv_timeout(IDLE) {
            if sender.send(reader.read_all(&wanted)).is_err() {
                return;
            }
        }
    };
    let started = Builder::new().name(USER_STACK_THREAD.to_owned()).stack_size(STACK_BYTES).spawn(body);
    started.map_err(|error| absent_from_io_error(&error))?;
    Ok(Link { requests, answers, accessed, asked_at: None, samples: 0 })
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;
    use crate::proc_tree::ProcTree;
    use crate::until::until_some;

    /// Nothing here takes so long unless it hangs.
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// A tree in which a reading of the thread of each of these processes blocks until it is unblocked.
    struct BlockedTree {
        files: ProcTree,
        blocked: Vec<u32>,
    }

    impl BlockedTree {
        fn new(pids: impl IntoIterator<Item = u32>) -> BlockedTree {
            let tree = BlockedTree { files: ProcTree::empty(), blocked: pids.into_iter().collect() };
            tree.blocked.iter().for_each(|&pid| tree.files.named_pipe(syscall(pid)));
            tree
        }

        fn reader(&self) -> ReaderThread {
            ReaderThread::new(self.files.root())
        }

        /// Lets one reading end, without a stack.
        fn unblock(&mut self) {
            let pid = self.blocked.pop().unwrap();
            // Waits for the thread that reads it.
            drop(OpenOptions::new().write(true).open(self.files.path(syscall(pid))).unwrap());
        }
    }

    fn syscall(pid: u32) -> String {
        format!("proc/{pid}/task/{pid}/syscall")
    }

    fn wanted(pid: u32) -> Vec<WantedStack> {
        vec![WantedStack { task: TaskId { pid, tid: pid, start_ticks: 1 }, timeslices: Some(1) }]
    }

    #[test]
    fn an_answer_that_is_ready_is_taken_before_the_thread_is_given_up() {
        let (mut tree, asked_at) = (BlockedTree::new([1]), Instant::now());
        let mut reader = tree.reader();
        assert_eq!(reader.request(wanted(1), asked_at), Ok(()));
        tree.unblock();
        let answers = until_some("an answer", || Some(reader.receive_late()).filter(|answers| !answers.is_empty()));
        assert_eq!(answers.iter().map(|answer| answer.task.pid).collect::<Vec<_>>(), [1]);
        // It is asked again, long after.
        assert_eq!(reader.request(wanted(2), asked_at + 10 * ANSWER_TIMEOUT), Ok(()));
        assert_eq!(reader.receive(TIMEOUT).len(), 1);
    }

    #[test]
    fn a_late_answer_is_not_waited_for_and_given_up_after_enough_samples() {
        let (mut tree, asked_at) = (BlockedTree::new([1]), Instant::now());
        let mut reader = tree.reader();
        assert_eq!(reader.request(wanted(1), asked_at), Ok(()));
        // This program was stopped in between.
        let now = asked_at + 10 * ANSWER_TIMEOUT;
        for _ in 2..MIN_SAMPLES {
            assert_eq!(reader.request(wanted(2), now), Ok(()));
            // Would block until the end of time.
            assert!(reader.receive(Duration::MAX).is_empty(), "the thread still works on the first request");
        }
        assert_eq!(reader.request(wanted(2), now), Ok(()));
        assert_eq!(reader.receive(TIMEOUT).iter().map(|answer| answer.task.pid).collect::<Vec<_>>(), [2], "by another thread");
        tree.unblock();
    }

    #[test]
    fn with_too_many_blocked_threads_none_is_started_until_one_ends() {
        let (mut tree, now) = (BlockedTree::new(1..=MAX_GIVEN_UP as u32), Instant::now());
        let mut reader = tree.reader();
        let mut last = Ok(());
        for pid in tree.blocked.clone() {
            assert_eq!(last, Ok(()));
            assert_eq!(reader.request(wanted(pid), now), Ok(()));
            (1..MIN_SAMPLES).for_each(|_| last = reader.request(Vec::new(), now + ANSWER_TIMEOUT));
        }
        assert_eq!(last, Err(Absent::Os(libc::ETIMEDOUT)));
        tree.unblock();
        until_some("an answer", || reader.request(Vec::new(), now).ok());
        while !tree.blocked.is_empty() {
            tree.unblock();
        }
    }
}
