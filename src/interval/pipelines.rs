//! Pipelines: which processes wait in a pipe for which other process, over several pipes. A writer waits while the pipe is full, a
//! reader while it is empty: the process at the end of such waits is the slowest part. docs/metrics.md, "Pipelines".

use rustc_hash::{FxHashMap, FxHashSet};

use super::task::TaskSpan;
use super::wait_counts::WaitCounts;
use crate::ids::TaskId;
use crate::sample::Host;
use crate::sample::task::Tasks;
use crate::sample::waits::{ObservedWait, PipeLink, Syscall, WaitClass, Waits, class};
use crate::units::SmallSort;

/// A process waits in a pipe if one of its threads does so for this share of the time.
const MIN_IN_PIPE_SHARE: f64 = 0.2;

/// … and is there in this share of the sub-samples that saw it asleep.
const MIN_ASLEEP_IN_PIPE_SHARE: f64 = 0.5;

/// What a process waits for in a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PipeWaitKind {
    /// The pipe is full: its reader does not read.
    Write,
    /// The pipe is empty: its writer does not write.
    Read,
}

/// A thread that waits in a pipe, and for which process in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PipeWait {
    pub task: TaskId,
    pub kind: PipeWaitKind,
    /// Share of the time in which it was there
    pub share: f64,
    /// The process at the other end of the pipe
    pub next: u32,
    /// The process at the end of the pipeline, which waits in no pipe itself
    pub root: u32,
}

/// The threads that wait in pipes for another process, those that are nearest to it first; one a process.
pub fn pipe_waits(host: &Host, waits: &Waits, counts: &WaitCounts, tasks: Option<&TaskSpan>) -> Vec<PipeWait> {
    if waits.pipe_links.is_empty() {
        return Vec::new();
    }
    let waiting = waiting_processes(host, waits, counts, tasks);
    let mut found: Vec<(usize, PipeWait)> = Vec::new();
    for (&pid, &(task, kind, share)) in &waiting {
        let Some((distance, next, root)) = find_root(pid, &waits.pipe_links, &waiting) else { continue };
        found.push((distance, PipeWait { task, kind, share, next, root }));
    }
    found.small_sort_by_key(|(distance, wait)| (*distance, wait.task));
    found.into_iter().map(|(_, wait)| wait).collect()
}

type Waiting = FxHashMap<u32, (TaskId, PipeWaitKind, f64)>;

/// By process, the thread that waits in a pipe most.
fn waiting_processes(host: &Host, waits: &Waits, counts: &WaitCounts, tasks: Option<&TaskSpan>) -> Waiting {
    let mut sightings: FxHashMap<(TaskId, PipeWaitKind), u32> = FxHashMap::default();
    for row in &waits.threads {
        if counts.class_of(row.wait).is_none_or(|wait| wait.class != WaitClass::Pipe) {
            continue;
        }
        let Some(kind) = waits.observed_wait(row.wait).and_then(|wait| wait_kind(wait, host.machine.as_bytes())) else {
            continue;
        };
        let seen_count = sightings.entry((row.task, kind)).or_default();
        *seen_count = seen_count.saturating_add(u32::from(row.seen_count));
    }
    let mut found = Waiting::default();
    for ((task, kind), seen_count) in sightings {
        let (asleep_count, asleep) = time_asleep(task, waits, counts, tasks);
        let share_of_sleep = (f64::from(seen_count) / f64::from(asleep_count.max(1))).min(1.0);
        let share = share_of_sleep * asleep;
        let more = found.get(&task.pid).is_none_or(|&(known, _, most)| (share, known) > (most, task));
        if share_of_sleep >= MIN_ASLEEP_IN_PIPE_SHARE && share >= MIN_IN_PIPE_SHARE && more {
            found.insert(task.pid, (task, kind, share));
        }
    }
    found
}

/// In how many sub-samples a thread was seen asleep, and for which share of the time it was. The scheduler's run time and run-queue wait
/// decide, since a thread that is woken thousands of times per second is seen runnable whenever the monitor uses its CPU.
fn time_asleep(task: TaskId, waits: &Waits, counts: &WaitCounts, tasks: Option<&TaskSpan>) -> (u32, f64) {
    let seen = counts.process_threads(task.pid).iter().find(|thread| thread.task == task);
    let asleep_count = seen.map_or(0, |thread| thread.sub_sample_count().saturating_sub(thread.count(WaitClass::Running)));
    let threads = tasks.map(|tasks| tasks.threads.as_slice()).unwrap_or_default();
    let span = threads.binary_search_by_key(&task, |thread| thread.id).ok().and_then(|at| threads.get(at));
    let ran = span.and_then(|span| Some(span.cpu?.0 + span.run_queue_wait.map_or(0.0, |wait| wait.0)));
    let asleep = ran.map_or_else(|| f64::from(asleep_count) / waits.sub_samples.len().max(1) as f64, |ran| 1.0 - ran);
    (asleep_count, asleep.clamp(0.0, 1.0))
}

/// The processes that wait, over any number of pipes, for room in a pipe which this stopped process reads, nearest first; without
/// pipes that another process, which may read, has open for reading, too.
pub fn writers_behind(tasks: &Tasks, links: &[PipeLink], reader: u32) -> Vec<u32> {
    let full = || links.iter().filter(|link| link.is_full);
    let waits = |pid: u32| full().any(|link| link.writer == pid);
    let may_read = |pid: u32| !waits(pid) && tasks.process(pid).is_some_and(|process| !process.is_stopped());
    let has_other_reader = |writer: u32| full().any(|link| link.writer == writer && may_read(link.reader));
    let mut found = Vec::new();
    let mut readers = vec![reader];
    while let Some(reader) = readers.pop() {
        for link in full().filter(|link| link.reader == reader && !has_other_reader(link.writer)) {
            if !found.contains(&link.writer) {
                found.push(link.writer);
                readers.push(link.writer);
            }
        }
    }
    found
}

/// By its wait channel or, where reading and writing sleep in one function, by the system call.
fn wait_kind(wait: &ObservedWait, machine: &[u8]) -> Option<PipeWaitKind> {
    let wchan = wait.wchan.as_ref().map(|wchan| wchan.as_bytes()).unwrap_or_default();
    if class::is_full_pipe(wchan) {
        return Some(PipeWaitKind::Write);
    }
    if wchan.ends_with(b"pipe_read") {
        return Some(PipeWaitKind::Read);
    }
    match Syscall::from_number(machine, wait.syscall?)?.name {
        "write" | "writev" => Some(PipeWaitKind::Write),
        "read" | "readv" => Some(PipeWaitKind::Read),
        _ => None,
    }
}

/// The number of pipes to the nearest process that waits in none, the process at the other end of the first pipe, and the last one.
fn find_root(pid: u32, links: &[PipeLink], waiting: &Waiting) -> Option<(usize, u32, u32)> {
    let mut seen = FxHashSet::from_iter([pid]);
    let mut reached: Vec<(u32, Option<u32>)> = vec![(pid, None)];
    for distance in 1..=links.len() {
        let mut further = Vec::new();
        for (at, first) in reached {
            let Some(&(_, kind, _)) = waiting.get(&at) else { continue };
            for link in links {
                let next = match kind {
                    PipeWaitKind::Write if link.writer == at => link.reader,
                    PipeWaitKind::Read if link.reader == at => link.writer,
                    _ => continue,
                };
                if seen.insert(next) {
                    let first = first.unwrap_or(next);
                    if !waiting.contains_key(&next) {
                        return Some((distance, first, next));
                    }
                    further.push((next, Some(first)));
                }
            }
        }
        reached = further;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Name;
    use crate::sample::task::TaskState;
    use crate::sample::waits::{SubSample, ThreadWait};
    use crate::synthetic;

    /// The waits of processes by pid, each in `anon_pipe_write` or `anon_pipe_read` in so many of ten sub-samples, and the pipes.
    fn found(threads: &[(u32, &str, u16)], pipes: &[(u32, u32)]) -> Vec<(u32, PipeWaitKind, u32, u32)> {
        let channels = ["anon_pipe_write", "anon_pipe_read", "hrtimer_nanosleep"];
        let observed = |(id, wchan): (u32, &&str)| ObservedWait {
            id,
            state: TaskState::Sleeping,
            wchan: Some(Name::from(wchan.as_bytes())),
            syscall: None,
            has_timeout: false,
            is_behind_named_owner: false,
            java_lock: None,
            wait_event: None,
        };
        let thread = |&(pid, wchan, seen_count): &(u32, &str, u16)| ThreadWait {
            task: TaskId { pid, tid: pid, start_ticks: 1 },
            wait: channels.iter().position(|channel| *channel == wchan).unwrap() as u32,
            group: 0,
            seen_count,
        };
        let waits = Waits {
            sub_samples: vec![SubSample::default(); 10],
            observed: (0..).zip(&channels).map(observed).collect(),
            threads: threads.iter().map(thread).collect(),
            pipe_links: pipes.iter().map(|&(writer, reader)| PipeLink { writer, reader, is_full: false }).collect(),
            ..Waits::default()
        };
        let host = synthetic::host();
        let counts = WaitCounts::new(&host, &waits);
        let waits = pipe_waits(&host, &waits, &counts, None);
        waits.into_iter().map(|wait| (wait.task.pid, wait.kind, wait.next, wait.root)).collect()
    }

    #[test]
    fn the_slowest_part_is_the_root() {
        use PipeWaitKind::{Read, Write};
        assert_eq!(found(&[(1, "anon_pipe_write", 9)], &[(1, 2)]), [(1, Write, 2, 2)], "cat | gzip");
        assert_eq!(found(&[(2, "anon_pipe_read", 9)], &[(1, 2)]), [(2, Read, 1, 1)], "gzip -d | tar");
        let three = [(1, "anon_pipe_write", 9), (2, "anon_pipe_write", 9), (4, "anon_pipe_read", 9)];
        let pipes = [(1, 2), (2, 3), (3, 4)];
        assert_eq!(found(&three, &pipes), [(2, Write, 3, 3), (4, Read, 3, 3), (1, Write, 2, 3)], "cat | pv | gzip | ssh");
    }

    /// The processes behind the stopped process 9, by pid and state, over full pipes.
    fn behind(processes: &[(u32, TaskState)], pipes: &[(u32, u32)]) -> Vec<u32> {
        let process = |&(pid, state): &(u32, TaskState)| {
            synthetic::process(pid, "part").threads([synthetic::thread(pid, "part").state(state)]).build().into()
        };
        let tasks = Tasks { processes: processes.iter().map(process).collect(), ..Tasks::default() };
        let links: Vec<PipeLink> = pipes.iter().map(|&(writer, reader)| PipeLink { writer, reader, is_full: true }).collect();
        writers_behind(&tasks, &links, 9)
    }

    #[test]
    fn writers_wait_for_a_stopped_reader_over_several_pipes() {
        use TaskState::{Sleeping, Stopped};
        let processes = [(1, Sleeping), (2, Sleeping), (9, Stopped)];
        assert_eq!(behind(&processes, &[(1, 2), (2, 9)]), [2, 1]);
        assert_eq!(behind(&processes, &[(1, 2)]), Vec::<u32>::new());
        let workers = [(1, Sleeping), (8, Sleeping), (9, Stopped)];
        assert_eq!(behind(&workers, &[(1, 9), (1, 8)]), Vec::<u32>::new(), "another process may read the pipe");
        let all_stopped = [(1, Sleeping), (8, Stopped), (9, Stopped)];
        assert_eq!(behind(&all_stopped, &[(1, 9), (1, 8)]), [1]);
    }

    #[test]
    fn a_process_that_waits_elsewhere_or_for_a_short_time_is_not_in_it() {
        assert_eq!(found(&[(1, "anon_pipe_write", 1)], &[(1, 2)]), []);
        assert_eq!(found(&[(1, "hrtimer_nanosleep", 10)], &[(1, 2)]), []);
        assert_eq!(found(&[(1, "anon_pipe_write", 9)], &[(2, 1)]), [], "it writes into another pipe");
        let both = [(1, "anon_pipe_read", 9), (2, "anon_pipe_read", 9)];
        assert_eq!(found(&both, &[(1, 2), (2, 1)]), [], "a conversation at rest has no slow part");
    }
}
