//! Reads the exits of processes and threads that no scan has read, from the exit messages of taskstats, and sums them by owner
//! and name. The number of exits kept between two samples and the number of rows are bounded; what exceeds them is counted.
//!
//! Without exits a fetch is one system call. No call blocks: messages that are not fetched in time are lost, and are counted.

#[cfg(test)]
mod tests;

use nix::unistd::gettid;
use rustc_hash::FxHashMap;

use super::root::Root;
use super::taskstats::{ExitListener as Listener, TaskStats, TaskstatsClient};
use crate::ids::ProcessId;
use crate::sample::exits::{ExitCpuTime, ExitedTasks, Exits, MAX_ROWS, UnlistedExits};
use crate::sample::{Absent, Name, Reading};
use crate::units::{Counter, SmallSort};

/// Exits kept between two samples: 2 MB.
const MAX_BUFFERED_EXITS: usize = 32_768;
/// Messages fetched at once: more than the socket buffer holds.
const MAX_MESSAGES_PER_FETCH: usize = 16_384;
/// Ancestors followed at most.
const MAX_ANCESTORS: usize = 32;
/// Tolerance: start times are whole ticks, and clocks are read one after the other.
const CLOCK_SLACK_NS: u64 = 25_000_000;
/// The kernel sends exit messages to the initial network namespace only, and this is another one.
pub const OTHER_NETWORK_NAMESPACE: Absent = Absent::Os(libc::ECONNREFUSED);
/// The first version of struct taskstats with the pid of the process (ac_tgid).
const MIN_TASKSTATS_VERSION: u16 = 12;

/// Lookup of the processes that scans have read.
pub trait ProcessLookup {
    /// The process with this pid, as last read.
    fn process(&self, pid: u32) -> Option<ProcessIdentity<'_>>;

    /// Whether the process has this thread.
    fn has_thread(&self, pid: u32, tid: u32) -> bool;
}

/// A process that a scan has read.
#[derive(Clone, Copy, Debug)]
pub struct ProcessIdentity<'a> {
    pub id: ProcessId,
    pub start_ns: u64,
    pub ppid: u32,
    pub comm: &'a Name,
}

/// Reads exit messages; listens from `new` on.
#[derive(Debug)]
pub struct ExitReader {
    listener: Reading<Listener>,
    buffer: ExitBuffer,
    /// CLOCK_BOOTTIME of the last fetch
    last_fetch_ns: u64,
    /// CLOCK_BOOTTIME of the last sample
    last_sample_ns: Option<u64>,
}

/// Exits since the last sample.
#[derive(Debug, Default)]
struct ExitBuffer {
    exits: Vec<ThreadExit>,
    /// Exited processes that a scan had read, by pid
    exited_processes: FxHashMap<u32, (ProcessId, Name)>,
    exited_process_count: u32,
    unlisted: UnlistedExits,
}

/// An exited thread that no scan has read.
#[derive(Clone, Copy, Debug)]
struct ThreadExit {
    tgid: u32,
    ppid: u32,
    comm: [u8; 16],
    cpu: ExitCpuTime,
    is_leader: bool,
    /// It was the last thread of its process
    is_last_of_group: bool,
    /// A scan has read its process
    of_known_process: bool,
}

impl ExitReader {
    /// Starts listening, where this is permitted. A fixture tree has no exit messages.
    pub fn new(root: &Root) -> ExitReader {
        ExitReader { listener: open_listener(root), buffer: ExitBuffer::default(), last_fetch_ns: 0, last_sample_ns: None }
    }

    /// Fetches exit messages. `seen`: the processes as of the last scan.
    pub fn fetch(&mut self, now_ns: u64, seen: &dyn ProcessLookup) {
        let Ok(listener) = &mut self.listener else { return };
        let since_ns = std::mem::replace(&mut self.last_fetch_ns, now_ns);
        let buffer = &mut self.buffer;
        if let Err(why) = listener.fetch(MAX_MESSAGES_PER_FETCH, |account| buffer.record(account, since_ns, seen)) {
            self.listener = Err(why);
        }
    }

    /// The exits since the last sample. `seen`: the processes as of the scan of this sample, before which `fetch` was called.
    pub fn sample(&mut self, now_ns: u64, seen: &dyn ProcessLookup) -> Reading<Exits> {
        let listener = self.listener.as_ref().map_err(|why| *why)?;
        let lost = Counter(listener.lost_messages());
        let before_ns = self.last_sample_ns.replace(now_ns);
        let buffer = std::mem::take(&mut self.buffer);
        match before_ns {
            Some(before_ns) => Ok(Exits { lost_messages: lost, ..buffer.summarize(before_ns, seen) }),
            // Exits before the first sample belong to no interval.
            None => Ok(Exits { lost_messages: lost, ..Exits::default() }),
        }
    }
}

fn open_listener(root: &Root) -> Reading<Listener> {
    if !root.is_host() {
        return Err(Absent::NotRead);
    }
    let own = TaskstatsClient::open()?.query_thread(u32::try_from(gettid().as_raw()).unwrap_or_default())?;
    if own.version < MIN_TASKSTATS_VERSION {
        return Err(Absent::Unsupported);
    }
    let mut listener = Listener::register(&root.read_once("sys/devices/system/cpu/possible")?)?;
    if listener.may_receive_exits()? { Ok(listener) } else { Err(OTHER_NETWORK_NAMESPACE) }
}

fn exit_cpu_time(account: &TaskStats) -> ExitCpuTime {
    let tick_ns = account.user_us.saturating_add(account.system_us).saturating_mul(1000);
    ExitCpuTime { run_ns: account.run_ns, tick_ns }
}

impl ExitBuffer {
    fn record(&mut self, account: &TaskStats, since_ns: u64, seen: &dyn ProcessLookup) {
        let (Some(tgid), Some(last)) = (account.tgid, account.last_of_group) else { return };
        // It exited since the last fetch, so it started at this time or later: it is no process that existed long before.
        let began_ns = since_ns.saturating_sub(account.elapsed_us.saturating_mul(1000));
        let leader = account.tid == tgid;
        let process =
            seen.process(tgid).filter(|process| !leader || began_ns <= process.start_ns.saturating_add(CLOCK_SLACK_NS));
        if let Some(process) = &process {
            if last {
                self.exited_process_count = self.exited_process_count.saturating_add(1);
                self.exited_processes.insert(tgid, (process.id, process.comm.clone()));
            }
            if leader || seen.has_thread(tgid, account.tid) {
                return;
            }
        }
        let of_known = process.is_some();
        if self.exits.len() >= MAX_BUFFERED_EXITS {
            return match of_known {
                true => self.unlisted.add_threads(1),
                false => self.unlisted.add_processes(u32::from(last), exit_cpu_time(account)),
            };
        }
        let mut comm = [0; 16];
        for (to, from) in comm.iter_mut().zip(account.comm()) {
            *to = *from;
        }
        let (ppid, cpu) = (account.ppid, exit_cpu_time(account));
        self.exits.push(ThreadExit {
            tgid,
            ppid,
            comm,
            cpu,
            is_leader: leader,
            is_last_of_group: last,
            of_known_process: of_known,
        });
    }

    /// Summarizes the exits. `before_ns`: time of the last sample; that sample does not have what started later.
    fn summarize(self, before_ns: u64, seen: &dyn ProcessLookup) -> Exits {
        let mut sums = RowSums::default();
        let mut open: FxHashMap<u32, ShortLivedProcess> = FxHashMap::default();
        let mut closed: Vec<ShortLivedProcess> = Vec::new();
        let mut parents: FxHashMap<u32, u32> = FxHashMap::default();
        for end in &self.exits {
            if end.of_known_process {
                let process = seen.process(end.tgid).map(|process| (process.id, process.comm.clone()));
                let process = process.or_else(|| self.exited_processes.get(&end.tgid).cloned());
                sums.add(RowKey { owner: process, comm: end.comm, are_threads: true }, 1, end.cpu);
                continue;
            }
            let process_exits = open.entry(end.tgid).or_insert(ShortLivedProcess {
                tgid: end.tgid,
                ppid: end.ppid,
                comm: end.comm,
                cpu: ExitCpuTime::default(),
            });
            process_exits.cpu.add(end.cpu);
            if end.is_leader {
                process_exits.comm = end.comm;
            }
            if end.is_last_of_group {
                parents.insert(end.tgid, end.ppid);
                closed.extend(open.remove(&end.tgid));
            }
        }
        let ancestry = Ancestry {
            processes: seen,
            exited_processes: &self.exited_processes,
            parents: &parents,
            last_sample_ns: before_ns,
        };
        for process_exits in closed {
            sums.add(
                RowKey { owner: ancestry.find_ancestor(process_exits.ppid), comm: process_exits.comm, are_threads: false },
                1,
                process_exits.cpu,
            );
        }
        // Threads of a living process that this scan read for the first time: their time is in its clock.
        for process_exits in open.into_values() {
            if let Some(process) = seen.process(process_exits.tgid) {
                let of = Some((process.id, process.comm.clone()));
                sums.add(RowKey { owner: of, comm: process_exits.comm, are_threads: true }, 1, process_exits.cpu);
            }
        }
        sums.into_exits(self.unlisted, self.exited_process_count)
    }
}

/// A process that started and exited between two samples.
struct ShortLivedProcess {
    tgid: u32,
    ppid: u32,
    comm: [u8; 16],
    cpu: ExitCpuTime,
}

/// The ancestry of exited processes.
struct Ancestry<'a> {
    processes: &'a dyn ProcessLookup,
    exited_processes: &'a FxHashMap<u32, (ProcessId, Name)>,
    parents: &'a FxHashMap<u32, u32>,
    last_sample_ns: u64,
}

impl Ancestry<'_> {
    /// The nearest ancestor that existed at the last sample, else the most distant one that is known.
    fn find_ancestor(&self, parent: u32) -> Option<(ProcessId, Name)> {
        let (mut pid, mut furthest) = (parent, None);
        for _ in 0..MAX_ANCESTORS {
            if let Some(process) = self.exited_processes.get(&pid) {
                return Some(process.clone());
            }
            pid = match (self.processes.process(pid), self.parents.get(&pid)) {
                (Some(process), _) => {
                    furthest = Some((process.id, process.comm.clone()));
                    if process.start_ns <= self.last_sample_ns {
                        return furthest;
                    }
                    process.ppid
                }
                (None, Some(&grandparent)) => grandparent,
                (None, None) => return furthest,
            };
        }
        furthest
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RowKey {
    owner: Option<(ProcessId, Name)>,
    comm: [u8; 16],
    are_threads: bool,
}

#[derive(Default)]
struct RowSums {
    rows: FxHashMap<RowKey, (u32, ExitCpuTime)>,
}

impl RowSums {
    fn add(&mut self, key: RowKey, count: u32, cpu: ExitCpuTime) {
        let row = self.rows.entry(key).or_default();
        row.0 = row.0.saturating_add(count);
        row.1.add(cpu);
    }

    fn into_exits(self, mut others: UnlistedExits, known: u32) -> Exits {
        let row = |(key, (count, cpu)): (RowKey, (u32, ExitCpuTime))| {
            let end = key.comm.iter().position(|&byte| byte == 0).unwrap_or(key.comm.len());
            let (of, of_name) = key.owner.map_or((None, Name::default()), |(id, name)| (Some(id), name));
            let name = Name::from(key.comm.get(..end).unwrap_or_default());
            ExitedTasks { owner: of, owner_name: of_name, name, are_threads: key.are_threads, count, cpu }
        };
        let mut rows: Vec<ExitedTasks> = self.rows.into_iter().map(row).collect();
        // Processes come first: CPU time of threads is also in their process.
        let weight = |row: &ExitedTasks| (row.are_threads, std::cmp::Reverse((row.cpu.estimated_ns(), row.count)));
        rows.small_sort_by(|a, b| weight(a).cmp(&weight(b)).then_with(|| (a.owner, &a.name).cmp(&(b.owner, &b.name))));
        for row in rows.drain(rows.len().min(MAX_ROWS)..) {
            match row.are_threads {
                true => others.add_threads(row.count),
                false => others.add_processes(row.count, row.cpu),
            }
        }
        Exits { rows, unlisted: others, previously_sampled: known, lost_messages: Counter(0) }
    }
}

impl UnlistedExits {
    fn add_processes(&mut self, count: u32, cpu: ExitCpuTime) {
        self.processes = self.processes.saturating_add(count);
        self.cpu.add(cpu);
    }

    /// Their CPU time is also in their process.
    fn add_threads(&mut self, count: u32) {
        self.threads = self.threads.saturating_add(count);
    }
}
