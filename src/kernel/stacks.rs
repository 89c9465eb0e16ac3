//! Kernel stacks of stuck threads (/proc/PID/task/TID/stack), once a sample: at most 64 a second, and 0.5 ms of CPU time a second.
//! While no thread is stuck, nothing is read. A thread that has not run since its stack was read has the same one.
//!
//! The kernel gives a stack to a reader that has opened the file with CAP_SYS_ADMIN of the initial user namespace.

use nix::time::ClockId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::root::Root;
use super::scan::read_clock_ns;
use super::sys_admin;
use super::task::files::{TaskFiles, is_task_gone};
use super::waits::budget::CpuBudget;
use crate::ids::TaskId;
use crate::sample::stacks::{MAX_STACKS, ThreadStack};
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::sample::waits::class::strip_compiler_suffix;
use crate::sample::waits::{BlockedWait, Waits};
use crate::sample::{Absent, Name, Reading};

/// 0.5 ms of CPU time a second: a stack takes 5 to 20 µs.
const CPU_SHARE: f64 = 0.0005;
const CPU_CAPACITY_NS: f64 = 1_000_000.0;
const SECOND_NS: u64 = 1_000_000_000;
/// With more texts all are forgotten: only sharing is lost.
const MAX_TEXTS: usize = 1024;

/// Candidates for stacks in a sample, beside holders of locks.
pub const MAX_STUCK_THREADS: usize = 1024;

/// The name of the thread that reads user stacks. It catches its panics.
pub const USER_STACK_THREAD: &str = "user-stacks";

/// A thread that the closing sub-sample saw in D, on storage, or behind a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StuckThread {
    pub task: TaskId,
    pub waits_for_lock: bool,
    /// schedstat field 3
    pub timeslices: Option<u64>,
}

/// Which stacks are read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    LockHolder,
    Blocked,
    LockWaiter,
}

/// A stuck thread, or the holder of a lock for which others wait.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub task: TaskId,
    pub rank: Rank,
    /// schedstat field 3
    pub timeslices: Option<u64>,
}

#[derive(Debug)]
struct KnownStack {
    timeslices: Option<u64>,
    /// Number of the sample that read it
    read_in: u32,
    text: Name,
}

/// In place of a function, behind the last one
const END_OF_STACK: &[u8] = b"0xffffffffffffffff";

/// The innermost function of a thread that lost its CPU on the way back to its program
const PREEMPTED: &[u8] = b"exit_to_user_mode_loop";

/// Reads the stacks, and keeps those of threads that may not run before the next sample.
#[derive(Debug)]
pub struct StackReader {
    /// Why no stack can be read
    access: Reading<()>,
    on_host: bool,
    budget: CpuBudget,
    /// CLOCK_BOOTTIME of the last sample with stuck threads
    last_ns: Option<u64>,
    sample_number: u32,
    known: FxHashMap<TaskId, KnownStack>,
    texts: FxHashSet<Name>,
}

impl StackReader {
    /// Reads the stack of this thread, to see whether any can be read.
    pub fn new(root: &Root) -> StackReader {
        let on_host = root.is_host();
        let try_own = || sys_admin::with_sys_admin(|| root.read_once("proc/thread-self/stack").map(drop));
        StackReader {
            access: if on_host { sys_admin::check_permitted().and_then(|()| try_own()).flatten() } else { Ok(()) },
            on_host,
            // A fixture tree is read as a whole.
            budget: CpuBudget::new(CPU_SHARE).with_capacity(if on_host { CPU_CAPACITY_NS } else { f64::INFINITY }),
            last_ns: None,
            sample_number: 0,
            known: FxHashMap::default(),
            texts: FxHashSet::default(),
        }
    }

    /// The stacks of the threads that are stuck at a sample, sorted by task. `now_ns`: CLOCK_BOOTTIME of the sample.
    pub fn sample(&mut self, files: &mut TaskFiles, stuck: Vec<Candidate>, now_ns: u64) -> Reading<Vec<ThreadStack>> {
        self.access?;
        let mut threads = stuck;
        if threads.is_empty() {
            self.known.clear();
            return Ok(Vec::new());
        }
        self.sample_number = self.sample_number.wrapping_add(1);
        // Where not all can be read, they are read in turn.
        let last_read = |thread: &Candidate| self.known.get(&thread.task).map_or(0, |known| known.read_in);
        threads.sort_by_cached_key(|thread| (thread.rank, last_read(thread), thread.task));
        let elapsed_ns = self.last_ns.replace(now_ns).map_or(SECOND_NS, |last| now_ns.saturating_sub(last).min(SECOND_NS));
        let most = (MAX_STACKS as u64 * elapsed_ns).div_ceil(SECOND_NS);
        let mut rows = match self.on_host {
            true => sys_admin::with_sys_admin(|| self.read_stacks(files, &threads, most))?,
            false => self.read_stacks(files, &threads, most),
        };
        let stuck: FxHashSet<TaskId> = threads.iter().map(|thread| thread.task).collect();
        self.known.retain(|task, _| stuck.contains(task));
        rows.sort_unstable_by_key(|row| row.task);
        Ok(rows)
    }

    /// Opens at most `most` files.
    fn read_stacks(&mut self, files: &mut TaskFiles, threads: &[Candidate], most: u64) -> Vec<ThreadStack> {
        let clock = |clock| read_clock_ns(clock).unwrap_or(0);
        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let now_ns = clock(ClockId::CLOCK_MONOTONIC);
        let available_ns = self.budget.available_ns(now_ns);
        let (mut rows, mut opened) = (Vec::new(), 0);
        let mut cost_ns = 0;
        for thread in threads {
            if rows.len() == MAX_STACKS {
                break;
            }
            let known = self.known.get(&thread.task);
            let has_not_run = |known: &&KnownStack| known.timeslices.is_some() && known.timeslices == thread.timeslices;
            let kernel = match known.filter(has_not_run).map(|known| known.text.clone()) {
                Some(text) => Ok(text),
                None if opened == most || cost_ns >= available_ns => continue,
                None => {
                    opened += 1;
                    let read = self.read_stack(files, thread);
                    cost_ns = clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin);
                    read
                }
            };
            // It ended or runs again: it is not stuck.
            if !kernel.as_ref().is_err_and(|&why| is_task_gone(why)) {
                rows.push(ThreadStack { task: thread.task, kernel });
            }
        }
        if opened > 0 {
            self.budget.spend(now_ns, cost_ns);
        }
        rows
    }

    fn read_stack(&mut self, files: &mut TaskFiles, thread: &Candidate) -> Reading<Name> {
        let TaskId { pid, tid, .. } = thread.task;
        let text = parse_stack(files.read_once(format_args!("{pid}/task/{tid}/stack"))?);
        // A thread that runs has none; one that was preempted is about to return to its program.
        if text.is_empty() || text.starts_with(PREEMPTED) {
            return Err(Absent::Vanished);
        }
        let text = match self.texts.get(text.as_slice()) {
            Some(known) => known.clone(),
            None => {
                if self.texts.len() >= MAX_TEXTS {
                    self.texts.clear();
                }
                let new = Name::from(text.as_slice());
                self.texts.insert(new.clone());
                new
            }
        };
        let known = KnownStack { timeslices: thread.timeslices, read_in: self.sample_number, text: text.clone() };
        self.known.insert(thread.task, known);
        Ok(text)
    }
}

/// Each thread once, by its first rank.
pub fn candidates(stuck: &[StuckThread], waits: &Waits, tasks: &Tasks) -> Vec<Candidate> {
    let rank = |thread: &StuckThread| if thread.waits_for_lock { Rank::LockWaiter } else { Rank::Blocked };
    let mut threads: Vec<Candidate> =
        stuck.iter().map(|thread| Candidate { task: thread.task, rank: rank(thread), timeslices: thread.timeslices }).collect();
    let last = u16::try_from(waits.sub_samples.len().saturating_sub(1)).unwrap_or(u16::MAX);
    let owners = (waits.lock_owners.iter().map(|row| &row.owner)).chain(waits.kernel_lock_owners.iter().map(|row| &row.owner));
    for owner in owners {
        let Some((_, thread)) = tasks.thread(owner.task).filter(|(_, thread)| is_asleep(thread)) else { continue };
        if owner.last_sub_sample == last || is_in_wait(thread, owner) {
            threads.push(holder(owner.task, thread));
        }
    }
    for pid in waits.wait_queues.iter().filter_map(|queue| queue.lock_holder) {
        if let Some((process, thread)) = tasks.process(pid).and_then(|process| only_thread(process)) {
            threads.push(holder(process.task_id(thread), thread));
        }
    }
    threads.sort_unstable_by_key(|thread| (thread.task, thread.rank));
    threads.dedup_by_key(|thread| thread.task);
    threads
}

fn holder(task: TaskId, thread: &Thread) -> Candidate {
    Candidate { task, rank: Rank::LockHolder, timeslices: thread.schedstat.map(|schedstat| schedstat.timeslices.0) }
}

fn is_asleep(thread: &Thread) -> bool {
    matches!(thread.state, TaskState::Sleeping | TaskState::Blocked)
}

/// Whether a lock's holder is still where it was seen.
fn is_in_wait(thread: &Thread, owner: &BlockedWait) -> bool {
    owner.wchan.is_some() && thread.wait.wchan.as_ref().ok() == owner.wchan.as_ref()
}

/// /proc/locks names the process that holds a lock; with several threads it is not known which one stands for it.
fn only_thread(process: &Process) -> Option<(&Process, &Thread)> {
    let [thread] = &*process.threads else { return None };
    is_asleep(thread).then_some((process, thread))
}

/// The functions of a stack file: `[<0>] jbd2_log_wait_commit.isra.0+0xe2/0x120 [jbd2]` is `jbd2_log_wait_commit [jbd2]`. A last line
/// without its end is left out.
fn parse_stack(text: &[u8]) -> Vec<u8> {
    let mut functions = Vec::with_capacity(text.len() / 2);
    for line in text.split_inclusive(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\n")) {
        // Kernels before 4.20 have an address in the brackets, and all ones behind the last function.
        let symbol = match line.iter().position(|&byte| byte == b']') {
            Some(at) if line.starts_with(b"[<") => line.get(at + 1..).unwrap_or_default(),
            _ => line,
        };
        let mut words = symbol.trim_ascii().split(|&byte| byte == b' ');
        let name = words.next().unwrap_or_default().split(|&byte| byte == b'+').next().unwrap_or_default();
        if name.is_empty() || name == END_OF_STACK {
            continue;
        }
        if !functions.is_empty() {
            functions.push(b'\n');
        }
        // Without its table of symbols the kernel writes an address, which is not kept.
        let name = if name.starts_with(b"0x") { b"?".as_slice() } else { strip_compiler_suffix(name) };
        functions.extend_from_slice(name);
        if let Some(module) = words.next().filter(|module| module.starts_with(b"[")) {
            functions.push(b' ');
            functions.extend_from_slice(module);
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> String {
        String::from_utf8(parse_stack(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_stack_has_its_functions_without_addresses_and_offsets() {
        let text = "[<0>] jbd2_log_wait_commit+0xe2/0x120 [jbd2]\n[<0>] ext4_sync_file.isra.0+0x1d5/0x3a0\n\
                    [<0>] entry_SYSCALL_64_after_hwframe+0x76/0x7e\n";
        assert_eq!(parsed(text), "jbd2_log_wait_commit [jbd2]\next4_sync_file\nentry_SYSCALL_64_after_hwframe");
    }

    #[test]
    fn older_kernels_write_an_address_in_the_brackets_and_an_end() {
        let text = "[<ffffffff8129b4a3>] pipe_wait+0x73/0xb0\n[<ffffffffffffffff>] 0xffffffffffffffff\n";
        assert_eq!(parsed(text), "pipe_wait");
    }

    #[test]
    fn no_address_is_kept_and_a_cut_line_is_left_out() {
        assert_eq!(parsed("[<0>] 0xffffffffc0a1b2c3\n[<0>] do_syscall_64+0x71/0x280\n[<0>] entry_SYS"), "?\ndo_syscall_64");
        assert_eq!([parsed(""), parsed("\n"), parsed("[<0>] \n")], ["", "", ""]);
    }
}
