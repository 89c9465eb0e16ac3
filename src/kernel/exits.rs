//! Processes and threads that end before any sweep sees them, as taskstats tells of each end. Bounded: so many ends are
//! remembered between two samples, so many rows are made of them, and what is beyond is counted.
//!
//! Nothing is done where nothing ends, and nothing ever waits: what was not fetched in time is lost, and that is counted.

#[cfg(test)]
mod tests;

use nix::unistd::gettid;
use rustc_hash::FxHashMap;

use super::root::Root;
use super::taskstats::{Account, Exits as Listener, Taskstats};
use crate::ids::ProcessId;
use crate::sample::exits::{Exited, Exits, MOST_ROWS, Others, Used};
use crate::sample::{Absent, Name, Reading};
use crate::units::Counter;

/// Ends that are remembered between two samples: 2 MB.
const MOST_ENDS: usize = 32_768;
/// Messages fetched at once: more than the socket holds.
const MOST_MESSAGES: usize = 16_384;
/// So many generations are gone back at most.
const MOST_ANCESTORS: usize = 32;
/// Start times are whole ticks, and clocks are read one after the other.
const CLOCK_SLACK_NS: u64 = 25_000_000;
/// What the kernel is told when it speaks to a listener in another network namespace.
pub const ELSEWHERE: Absent = Absent::Os(libc::ECONNREFUSED);
/// The first version that tells processes from threads.
const TELLS_THREADS: u16 = 12;

/// What this asks about the processes that sweeps have seen.
pub trait Kin {
    /// The process with this pid as it was last seen.
    fn process(&self, pid: u32) -> Option<Relative<'_>>;

    /// Whether it has that thread.
    fn has_thread(&self, pid: u32, tid: u32) -> bool;
}

/// A process that a sweep has seen.
#[derive(Clone, Copy, Debug)]
pub struct Relative<'a> {
    pub id: ProcessId,
    pub start_ns: u64,
    pub ppid: u32,
    pub comm: &'a Name,
}

/// Listens from its making on.
#[derive(Debug)]
pub struct ExitReader {
    listener: Reading<Listener>,
    heard: Book,
    /// When it was fetched last, CLOCK_BOOTTIME; what ended was there at that time or began after it
    fetched_ns: u64,
    /// When the sample before was taken
    sampled_ns: Option<u64>,
}

/// What was heard since the sample before.
#[derive(Debug, Default)]
struct Book {
    ends: Vec<End>,
    /// Processes that ended and that a sweep has seen: pid, and who they were
    known: FxHashMap<u32, (ProcessId, Name)>,
    known_count: u32,
    others: Others,
}

/// One thread that ended, of a process that no sweep has seen; or one that none has seen of a process that one has.
#[derive(Clone, Copy, Debug)]
struct End {
    tgid: u32,
    ppid: u32,
    comm: [u8; 16],
    cpu: Used,
    leader: bool,
    /// With it the process ended
    last: bool,
    /// Of a process that a sweep has seen
    of_known: bool,
}

impl ExitReader {
    /// Begins to listen, where that is allowed. Only the real machine can be listened to.
    pub fn new(root: &Root) -> ExitReader {
        ExitReader { listener: listen(root), heard: Book::default(), fetched_ns: 0, sampled_ns: None }
    }

    /// Fetches what has ended; `seen` is what the sweep before has seen.
    pub fn fetch(&mut self, now_ns: u64, seen: &dyn Kin) {
        let Ok(listener) = &mut self.listener else { return };
        let since_ns = std::mem::replace(&mut self.fetched_ns, now_ns);
        let heard = &mut self.heard;
        if let Err(why) = listener.fetch(MOST_MESSAGES, |account| heard.take(account, since_ns, seen)) {
            self.listener = Err(why);
        }
    }

    /// What has ended since the sample before; `seen` is what the sweep has seen now. `fetch` comes before the sweep.
    pub fn sample(&mut self, now_ns: u64, seen: &dyn Kin) -> Reading<Exits> {
        let listener = self.listener.as_ref().map_err(|why| *why)?;
        let lost = Counter(listener.lost());
        let before_ns = self.sampled_ns.replace(now_ns);
        let book = std::mem::take(&mut self.heard);
        match before_ns {
            Some(before_ns) => Ok(Exits { lost, ..book.close(before_ns, seen) }),
            // What ended before the first sample is in no interval.
            None => Ok(Exits { lost, ..Exits::default() }),
        }
    }
}

fn listen(root: &Root) -> Reading<Listener> {
    if !root.is_host() {
        return Err(Absent::NotRead);
    }
    let own = Taskstats::open()?.thread(u32::try_from(gettid().as_raw()).unwrap_or_default())?;
    if own.version < TELLS_THREADS {
        return Err(Absent::Unsupported);
    }
    let mut listener = Listener::listen(&root.read_once("sys/devices/system/cpu/possible")?)?;
    if listener.hears_us()? { Ok(listener) } else { Err(ELSEWHERE) }
}

fn used(account: &Account) -> Used {
    let tick_ns = account.user_us.saturating_add(account.system_us).saturating_mul(1000);
    Used { run_ns: account.run_ns, tick_ns }
}

impl Book {
    fn take(&mut self, account: &Account, since_ns: u64, seen: &dyn Kin) {
        let (Some(tgid), Some(last)) = (account.tgid, account.last_of_group) else { return };
        // It ended at some time since, so it began at this time or later: not a process that was there long before.
        let began_ns = since_ns.saturating_sub(account.elapsed_us.saturating_mul(1000));
        let leader = account.tid == tgid;
        let process =
            seen.process(tgid).filter(|process| !leader || began_ns <= process.start_ns.saturating_add(CLOCK_SLACK_NS));
        if let Some(process) = &process {
            if last {
                self.known_count = self.known_count.saturating_add(1);
                self.known.insert(tgid, (process.id, process.comm.clone()));
            }
            if leader || seen.has_thread(tgid, account.tid) {
                return;
            }
        }
        let of_known = process.is_some();
        if self.ends.len() >= MOST_ENDS {
            return self.others.add(of_known, u32::from(last || of_known), used(account));
        }
        let mut comm = [0; 16];
        for (to, from) in comm.iter_mut().zip(account.comm()) {
            *to = *from;
        }
        let (ppid, cpu) = (account.ppid, used(account));
        self.ends.push(End { tgid, ppid, comm, cpu, leader, last, of_known });
    }

    /// Sums up. `before_ns` is the time of the sample before: who began later is not known to the reader of this one.
    fn close(self, before_ns: u64, seen: &dyn Kin) -> Exits {
        let mut sums = Sums::default();
        let mut open: FxHashMap<u32, Lived> = FxHashMap::default();
        let mut closed: Vec<Lived> = Vec::new();
        let mut parents: FxHashMap<u32, u32> = FxHashMap::default();
        for end in &self.ends {
            if end.of_known {
                let process = seen.process(end.tgid).map(|process| (process.id, process.comm.clone()));
                let process = process.or_else(|| self.known.get(&end.tgid).cloned());
                sums.add(Key { of: process, comm: end.comm, threads: true }, 1, end.cpu);
                continue;
            }
            let lived =
                open.entry(end.tgid).or_insert(Lived { tgid: end.tgid, ppid: end.ppid, comm: end.comm, cpu: Used::default() });
            lived.cpu.add(end.cpu);
            if end.leader {
                lived.comm = end.comm;
            }
            if end.last {
                parents.insert(end.tgid, end.ppid);
                closed.extend(open.remove(&end.tgid));
            }
        }
        let family = Family { seen, known: &self.known, parents: &parents, before_ns };
        for lived in closed {
            sums.add(Key { of: family.ancestor(lived.ppid), comm: lived.comm, threads: false }, 1, lived.cpu);
        }
        // Threads of a process that lives on and that the sweep has seen for the first time now: in its clock.
        for lived in open.into_values() {
            if let Some(process) = seen.process(lived.tgid) {
                let of = Some((process.id, process.comm.clone()));
                sums.add(Key { of, comm: lived.comm, threads: true }, 1, lived.cpu);
            }
        }
        sums.exits(self.others, self.known_count)
    }
}

/// A process that began and ended between two samples.
struct Lived {
    tgid: u32,
    ppid: u32,
    comm: [u8; 16],
    cpu: Used,
}

/// Who descends from whom.
struct Family<'a> {
    seen: &'a dyn Kin,
    known: &'a FxHashMap<u32, (ProcessId, Name)>,
    parents: &'a FxHashMap<u32, u32>,
    before_ns: u64,
}

impl Family<'_> {
    /// The nearest ancestor that was there at the sample before, else the furthest that is known.
    fn ancestor(&self, parent: u32) -> Option<(ProcessId, Name)> {
        let (mut pid, mut furthest) = (parent, None);
        for _ in 0..MOST_ANCESTORS {
            if let Some(process) = self.known.get(&pid) {
                return Some(process.clone());
            }
            pid = match (self.seen.process(pid), self.parents.get(&pid)) {
                (Some(process), _) => {
                    furthest = Some((process.id, process.comm.clone()));
                    if process.start_ns <= self.before_ns {
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
struct Key {
    of: Option<(ProcessId, Name)>,
    comm: [u8; 16],
    threads: bool,
}

#[derive(Default)]
struct Sums {
    rows: FxHashMap<Key, (u32, Used)>,
}

impl Sums {
    fn add(&mut self, key: Key, count: u32, cpu: Used) {
        let row = self.rows.entry(key).or_default();
        row.0 = row.0.saturating_add(count);
        row.1.add(cpu);
    }

    fn exits(self, mut others: Others, known: u32) -> Exits {
        let row = |(key, (count, cpu)): (Key, (u32, Used))| {
            let end = key.comm.iter().position(|&byte| byte == 0).unwrap_or(key.comm.len());
            let (of, of_name) = key.of.map_or((None, Name::default()), |(id, name)| (Some(id), name));
            let name = Name::from(key.comm.get(..end).unwrap_or_default());
            Exited { of, of_name, name, threads: key.threads, count, cpu }
        };
        let mut rows: Vec<Exited> = self.rows.into_iter().map(row).collect();
        // CPU time of threads is told elsewhere: processes come first.
        let weight = |row: &Exited| (row.threads, std::cmp::Reverse((row.cpu.likely_ns(), row.count)));
        rows.sort_by(|a, b| weight(a).cmp(&weight(b)).then_with(|| (a.of, &a.name).cmp(&(b.of, &b.name))));
        for row in rows.drain(rows.len().min(MOST_ROWS)..) {
            others.add(row.threads, row.count, row.cpu);
        }
        Exits { rows, others, known, lost: Counter(0) }
    }
}

impl Others {
    fn add(&mut self, threads: bool, count: u32, cpu: Used) {
        let counter = if threads { &mut self.threads } else { &mut self.count };
        *counter = counter.saturating_add(count);
        if !threads {
            self.cpu.add(cpu);
        }
    }
}
