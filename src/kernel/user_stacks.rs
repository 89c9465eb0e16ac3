//! User stacks of stuck threads, once a sample: which functions of its program led a thread into the system call in which it is stuck.
//!
//! This is the sampler's side. It chooses threads as `stacks` does and asks a thread of its own (`reader_thread`), which reads the
//! stack, unwinds it by the tables of the program's files and names its functions. Only that thread touches files and memory of
//! other processes: they may be on a file system that does not answer. While no thread is stuck there is no such thread.

mod access_target;
mod code_files;
mod elf_file;
mod frame_pointer;
mod function_names;
mod perf_map;
mod process_memory;
mod process_space;
mod reader_thread;
mod table_loader;
mod unwind;

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::root::Root;
use super::stacks::Candidate;
use super::task::files::is_task_gone;
use crate::ids::TaskId;
use crate::sample::stacks::{MAX_STACKS, UserStack};
use crate::sample::{Name, Reading};
use reader_thread::{AnsweredStack, ReaderThread, WantedStack};

/// How long the sampler waits for the stacks of a sample: an answer from the caches takes 0.1 ms for each.
const MAX_WAIT: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct KnownStack {
    timeslices: Option<u64>,
    /// Number of the sample that asked for it
    asked_in: u32,
    functions: Reading<Name>,
}

/// Asks for the stacks, and keeps those of threads that may not run before the next sample.
#[derive(Debug)]
pub struct UserStackReader {
    is_host: bool,
    thread: ReaderThread,
    sample_number: u32,
    /// Those of the current sample
    chosen: Vec<Candidate>,
    /// Why no more can be read
    access: Reading<()>,
    known: FxHashMap<TaskId, KnownStack>,
}

impl UserStackReader {
    pub fn new(root: &Root) -> UserStackReader {
        UserStackReader {
            is_host: root.is_host(),
            thread: ReaderThread::new(root.clone()),
            sample_number: 0,
            chosen: Vec::new(),
            access: Ok(()),
            known: FxHashMap::default(),
        }
    }

    /// Asks for the stacks of these threads, of which there may be none. `sample` returns them.
    pub fn request(&mut self, stuck: &[Candidate]) {
        self.chosen.clear();
        // The processes of a fixture tree have no memory.
        if stuck.is_empty() || !self.is_host {
            self.known.clear();
            return;
        }
        // Those of an earlier sample. They stand for threads that have not run since.
        let late = self.thread.receive_late();
        self.keep(late);
        self.sample_number = self.sample_number.wrapping_add(1);
        let tasks: FxHashSet<TaskId> = stuck.iter().map(|thread| thread.task).collect();
        self.known.retain(|task, _| tasks.contains(task));
        self.chosen.extend_from_slice(stuck);
        let known = &self.known;
        let asked_in = |task: TaskId| known.get(&task).map_or(0, |known| known.asked_in);
        // Where not all can be read, they are read in turn.
        self.chosen.sort_by_cached_key(|thread| (thread.rank, asked_in(thread.task), thread.task));
        self.chosen.truncate(MAX_STACKS);
        let has_run = |thread: &&Candidate| known.get(&thread.task).is_none_or(|known| !known.stands_for(thread));
        let wanted = self.chosen.iter().filter(has_run);
        let wanted = wanted.map(|thread| WantedStack { task: thread.task, timeslices: thread.timeslices });
        self.access = self.thread.request(wanted.collect(), Instant::now());
    }

    fn keep(&mut self, answers: Vec<AnsweredStack>) {
        for answer in answers {
            let known = KnownStack { timeslices: answer.timeslices, asked_in: self.sample_number, functions: answer.functions };
            self.known.insert(answer.task, known);
        }
    }

    /// The stacks that are known of the threads of the last request, sorted by task. Waits for `MAX_WAIT` at most. Fails if the request
    /// was refused: too many threads that read stacks are blocked (`Os(ETIMEDOUT)`), or none can be started.
    pub fn sample(&mut self) -> Reading<Vec<UserStack>> {
        if self.chosen.is_empty() {
            return Ok(Vec::new());
        }
        self.access?;
        let answers = self.thread.receive(MAX_WAIT);
        let answered: Vec<TaskId> = answers.iter().map(|answer| answer.task).collect();
        self.keep(answers);
        let mut rows = Vec::new();
        for thread in &self.chosen {
            let Some(known) = self.known.get(&thread.task) else { continue };
            let is_current = known.stands_for(thread) || answered.contains(&thread.task);
            // It ended or runs: it is not stuck.
            if is_current && !known.functions.as_ref().is_err_and(|&why| is_task_gone(why)) {
                rows.push(UserStack { task: thread.task, functions: known.functions.clone() });
            }
        }
        rows.sort_unstable_by_key(|row| row.task);
        Ok(rows)
    }
}

impl KnownStack {
    /// Whether the thread has not run since.
    fn stands_for(&self, thread: &Candidate) -> bool {
        self.timeslices.is_some() && self.timeslices == thread.timeslices
    }
}
