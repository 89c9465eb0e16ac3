//! Threads that wait for room in a full pipe whose reader is asleep, by the process that does not read: how many, how long.

use super::formatting::plural;
use super::remote_end_waits::name_processes;
use crate::findings::finding::Subject;
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::sample::Name;
use crate::sample::task::{Process, TaskState, Thread};
use crate::sample::waits::class::is_full_pipe;
use crate::units::SmallSort;

/// The threads of all processes that wait for one reader.
pub struct PipeWriteWait {
    /// The process that has the read end open; of several the one with the lowest pid
    pub reader: (ProcessId, Name),
    /// Processes that have the read end open
    pub readers: usize,
    /// The processes of the threads
    writers: Vec<(ProcessId, Name)>,
    pub threads: u32,
    /// CLOCK_BOOTTIME since when the first of them has waited
    since_ns: u64,
    /// Whether the reader ran since then
    pub reader_ran: bool,
}

impl PipeWriteWait {
    /// How long the first of the threads has waited.
    pub fn seconds(&self, interval: &Interval) -> f64 {
        interval.at().boottime_ns.saturating_sub(self.since_ns) as f64 / 1e9
    }

    /// The subject of a finding about it.
    pub fn subject(&self) -> Subject {
        let (process, name) = &self.reader;
        Subject::Task {
            id: TaskId { pid: process.pid, tid: process.pid, start_ticks: process.start_ticks },
            name: name.clone(),
        }
    }

    /// `app (77)`, `8 threads of app (77)`
    pub fn describe_waiters(&self) -> String {
        let names = name_processes(self.writers.iter());
        match self.threads {
            1 => names,
            many => format!("{} of {names}", plural(f64::from(many), "thread", "threads")),
        }
    }
}

/// A process with threads that have waited for room in a pipe for at least `least_seconds`: their number, since when.
fn blocked_threads(interval: &Interval, process: &Process, least_seconds: f64) -> Option<(u32, u64)> {
    let now_ns = interval.at().boottime_ns;
    let since_ns = |thread: &Thread| {
        let in_full_pipe =
            thread.state == TaskState::Sleeping && thread.wait.wchan.as_ref().is_ok_and(|wchan| is_full_pipe(wchan.as_bytes()));
        let since_ns = thread.last_timeslice_ns.filter(|_| in_full_pipe)?;
        (now_ns.saturating_sub(since_ns) as f64 / 1e9 >= least_seconds).then_some(since_ns)
    };
    let times: Vec<u64> = process.threads.iter().filter_map(since_ns).collect();
    Some((u32::try_from(times.len()).unwrap_or(u32::MAX), times.iter().copied().min()?))
}

/// By the process that does not read, those with most threads first. Not those that wait for room in a pipe themselves: the end of a
/// pipeline is the cause. One that is stopped is a stuck server.
pub fn pipe_write_waits(interval: &Interval, least_seconds: f64) -> Vec<PipeWriteWait> {
    let mut list: Vec<PipeWriteWait> = Vec::new();
    let (links, Ok(tasks)) = (&interval.newer.waits.pipe_links, &interval.newer.tasks) else { return list };
    let blocked = |pid: u32| blocked_threads(interval, tasks.process(pid)?, least_seconds);
    let readers = |writer: u32| {
        let of_writer = links.iter().filter(move |link| link.is_full && link.writer == writer);
        let mut pids: Vec<u32> = of_writer.map(|link| link.reader).filter(|pid| tasks.process(*pid).is_some()).collect();
        pids.dedup();
        pids
    };
    let mut writers: Vec<u32> = links.iter().filter(|link| link.is_full).map(|link| link.writer).collect();
    writers.dedup();
    for writer in writers {
        let (Some(process), Some((threads, since_ns))) = (tasks.process(writer), blocked(writer)) else { continue };
        let pids = readers(writer);
        let Some(reader) = pids.first().and_then(|pid| tasks.process(*pid)) else { continue };
        let waits_itself = |pid: &u32| blocked(*pid).is_some() && !readers(*pid).is_empty();
        let is_stopped = |pid: &u32| tasks.process(*pid).is_some_and(|process| process.is_stopped());
        if pids.iter().any(|pid| waits_itself(pid) || is_stopped(pid)) {
            continue;
        }
        let ran = |pid: &u32| {
            let mut threads = tasks.process(*pid).into_iter().flat_map(|process| process.threads.iter());
            threads.any(|thread| thread.last_timeslice_ns.is_some_and(|at| at > since_ns))
        };
        let reader_ran = pids.iter().any(ran);
        let id = (process.id(), process.comm.clone());
        match list.iter_mut().find(|known| known.reader.0 == reader.id()) {
            Some(known) => {
                known.writers.push(id);
                known.threads = known.threads.saturating_add(threads);
                known.since_ns = known.since_ns.min(since_ns);
                known.reader_ran |= reader_ran;
            }
            None => list.push(PipeWriteWait {
                reader: (reader.id(), reader.comm.clone()),
                readers: pids.len(),
                writers: vec![id],
                threads,
                since_ns,
                reader_ran,
            }),
        }
    }
    list.small_sort_by_key(|wait| (std::cmp::Reverse(wait.threads), wait.reader.0));
    list
}
