//! Reads the wait events of PostgreSQL's processes from their memory (`sample/waits/wait_event.rs`), and finds the process that holds
//! WALWriteLock.
//!
//! Since version 14 the program exports `my_wait_event_info`, a pointer into the memory that all processes of a server share. Therefore one
//! process_vm_readv of one of them reads the events of all. Nothing is read while none of them waits for a semaphore, in which a process
//! sleeps only for a light-weight lock. The permission is that of /proc/PID/syscall, which led there.

mod log_events;
mod server;

use std::os::unix::ffi::OsStrExt;

use rustc_hash::FxHashMap;

use self::server::{Server, Session};
use super::holder_wait::read_holder_wait;
use super::lock_owners::FutexLock;
use crate::ids::ProcessId;
use crate::kernel::scan::{KnownProcess, TaskScanner};
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, OwnerField, Syscall, WaitEvent, WaitEventClass};

/// Servers whose events are read: a thread and the table of symbols of a program each
const MAX_SERVERS: usize = 64;
/// Processes of one server whose events are read in one sub-sample: those of one system call (IOV_MAX).
const MAX_SESSIONS: usize = 1024;
/// Of them those whose system call is read in one sub-sample, to find the holder: many may read files at a time.
const MAX_CANDIDATES: usize = 4;
/// The holder is read in the first of so many sub-samples of an interval in which processes wait for the lock: it takes four files.
const HOLDER_PERIOD: u32 = 3;

/// The wait events of the current sub-sample.
#[derive(Debug, Default)]
pub struct WaitEvents {
    /// By their first process (postmaster)
    servers: FxHashMap<ProcessId, Server>,
    /// Processes that may hold the lock, of servers with a process that waits for it
    candidates: Vec<Candidate>,
    /// Processes that wait for WALWriteLock, by server and group
    waiters: FxHashMap<(u32, u16), Waiters>,
    /// Sub-samples of the interval in which a process waited for that lock
    sub_samples: u32,
    /// Those in which the holder was read, of all intervals
    holder_readings: usize,
}

/// A process whose wait event is one of input and output.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    server: ProcessId,
    session: Session,
    event: WaitEvent,
}

/// Processes of one group that wait for WALWriteLock.
#[derive(Clone, Copy, Debug)]
struct Waiters {
    /// Of one of them
    pid: u32,
    count: u32,
}

impl WaitEvents {
    /// Begins a sub-sample: reads the events of processes that wait for a semaphore, into `KnownThread::wait_event`, and those of processes
    /// that may hold what they wait for.
    pub fn read(&mut self, scanner: &mut TaskScanner) {
        self.waiters.clear();
        self.candidates.clear();
        let mut of_waiters = FxHashMap::default();
        for (server, sessions) in self.sessions_of_servers(scanner) {
            let Some(known) = self.servers.get_mut(&server) else { continue };
            let events = known.read_events(server.pid, &sessions, scanner.files());
            let read = sessions.iter().zip(events).filter_map(|(&(session, waits), event)| Some((session, waits, event?)));
            let (waiting, others): (Vec<_>, Vec<_>) = read.partition(|&(_, waits, _)| waits);
            if waiting.iter().any(|&(_, _, event)| event == WaitEvent::WAL_WRITE_LOCK) {
                let may_write = others.into_iter().filter(|(_, _, event)| event.class() == WaitEventClass::InputOutput);
                self.candidates.extend(may_write.map(|(session, _, event)| Candidate { server, session, event }));
            }
            of_waiters.extend(waiting.into_iter().map(|(session, _, event)| (session.pid, event)));
        }
        if of_waiters.is_empty() {
            return;
        }
        for known in scanner.sub_sampled_mut() {
            known.for_each_hot_thread(|process, thread, _| {
                let is_session = thread.tid == process.pid && thread.waits_in_semaphore();
                thread.wait_event = of_waiters.get(&process.pid).copied().filter(|_| is_session);
            });
        }
    }

    /// The servers of which a process waits for a semaphore, each with those processes and those that may hold a lock.
    fn sessions_of_servers(&mut self, scanner: &TaskScanner) -> FxHashMap<ProcessId, Vec<(Session, bool)>> {
        let mut waiting: Vec<u32> =
            scanner.sub_sampled().filter(|known| waits_in_semaphore(known)).map(|known| known.sampled.ppid).collect();
        waiting.sort_unstable();
        waiting.dedup();
        if waiting.is_empty() {
            return FxHashMap::default();
        }
        self.servers.retain(|id, _| server_of(scanner, id.pid) == Some(*id));
        let mut of_servers: FxHashMap<ProcessId, Vec<(Session, bool)>> = FxHashMap::default();
        for server in waiting.into_iter().filter_map(|pid| server_of(scanner, pid)) {
            if self.servers.contains_key(&server) || self.servers.len() < MAX_SERVERS {
                self.servers.entry(server).or_default();
                of_servers.insert(server, Vec::new());
            }
        }
        let by_pid: FxHashMap<u32, ProcessId> = of_servers.keys().map(|server| (server.pid, *server)).collect();
        for known in scanner.processes() {
            let Some(sessions) = by_pid.get(&known.sampled.ppid).and_then(|server| of_servers.get_mut(server)) else {
                continue;
            };
            if sessions.len() < MAX_SESSIONS {
                sessions.extend(session(known));
            }
        }
        of_servers
    }

    /// Ends an interval: the next one begins with a reading of the holder.
    pub fn finish_interval(&mut self) {
        self.sub_samples = 0;
    }

    /// Counts a process that waits for WALWriteLock.
    pub fn add_waiter(&mut self, server: u32, group: u16, pid: u32) {
        self.waiters.entry((server, group)).or_insert(Waiters { pid, count: 0 }).count += 1;
    }

    /// Ends the sub-sample: calls `found` with the lock for which processes of each group wait, whether its holder was read in this
    /// sub-sample, and the holder.
    pub fn find_holders(
        &mut self,
        files: &mut TaskFiles,
        machine: &[u8],
        mut found: impl FnMut(FutexLock, bool, Option<BlockedWait>),
    ) {
        let mut waiters: Vec<((u32, u16), Waiters)> = self.waiters.drain().collect();
        waiters.sort_unstable_by_key(|(place, _)| *place);
        let is_read = self.sub_samples.is_multiple_of(HOLDER_PERIOD);
        self.sub_samples = self.sub_samples.wrapping_add(u32::from(!waiters.is_empty()));
        self.holder_readings = self.holder_readings.wrapping_add(usize::from(is_read && !waiters.is_empty()));
        for ((server, group), Waiters { pid, count }) in waiters {
            let Some((_, known)) = self.servers.iter_mut().find(|(id, _)| id.pid == server) else { continue };
            let mut holder = None;
            if is_read {
                let of_server = self.candidates.iter().filter(|candidate| candidate.server.pid == server);
                let of_server = of_server.copied().collect();
                let likely = likely_first(of_server, self.holder_readings, |event| known.log_events.is_known(event));
                holder = likely.into_iter().find_map(|candidate| holder_wait(candidate, known, group, files, machine));
            }
            let lock = FutexLock {
                group,
                pid,
                address: u64::from(WaitEvent::WAL_WRITE_LOCK.0 & 0xffff),
                is_shared: true,
                field: OwnerField::PostgresLog,
                waiters: count,
                timed_waiters: 0,
                awaited_java_lock: None,
            };
            found(lock, is_read, holder);
        }
    }
}

/// Those that are examined in this reading: first those whose event is that of a process that writes the log, the others in turn.
fn likely_first(mut candidates: Vec<Candidate>, reading: usize, is_known: impl Fn(WaitEvent) -> bool) -> Vec<Candidate> {
    let begin = reading.wrapping_mul(MAX_CANDIDATES).checked_rem(candidates.len()).unwrap_or(0);
    candidates.rotate_left(begin);
    candidates.sort_by_key(|candidate| !is_known(candidate.event));
    candidates.truncate(MAX_CANDIDATES);
    candidates
}

/// What the candidate does, if it holds WALWriteLock: it is in a system call that writes a segment of the log, or brings it to the device, and
/// its event is the same before and after that is read; or it is in no call, and its event is one with which that was seen before on this
/// server.
fn holder_wait(
    candidate: Candidate,
    server: &mut Server,
    group: u16,
    files: &mut TaskFiles,
    machine: &[u8],
) -> Option<BlockedWait> {
    let Candidate { session, event, .. } = candidate;
    if server.read_event(session) != Some(event) {
        return None;
    }
    let mut wait = read_holder_wait(files, session.pid, session.pid, group)?;
    if matches!(wait.state, TaskState::Stopped | TaskState::Traced) {
        // The call at whose end it was stopped.
        let text = files.read_once(format_args!("{}/syscall", session.pid)).ok()?;
        wait.syscall = task::parse_syscall(text).ok();
    }
    let call = wait.syscall.and_then(|call| Syscall::from_number(machine, call));
    let writes_log = call.map(|call| writes_log(call, session.pid, files));
    if server.read_event(session) != Some(event) || wait.task.start_ticks != session.start_ticks {
        return None;
    }
    let is_holder = match writes_log {
        Some(Some(true)) => {
            server.log_events.add(event);
            true
        }
        Some(Some(false)) => {
            server.log_events.remove(event);
            false
        }
        // The file is not known.
        Some(None) => false,
        None => server.log_events.is_known(event),
    };
    is_holder.then_some(wait)
}

/// Whether the call writes a segment of the log, or brings it to the device; `None` if its file could not be read.
fn writes_log(call: Syscall, pid: u32, files: &mut TaskFiles) -> Option<bool> {
    let is_write = call.is_fsync_family() || matches!(call.name, "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2");
    let Some(descriptor) = call.file_descriptor().filter(|_| is_write) else { return Some(false) };
    let file = files.read_link(format_args!("{pid}/fd/{descriptor}")).ok()?;
    Some(is_log_segment(file.as_bytes()))
}

/// Whether a file is a segment of the log: 24 hexadecimal digits. New ones have another name until they are complete.
fn is_log_segment(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.len() == 24 && name.iter().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte))
}

fn waits_in_semaphore(known: &KnownProcess) -> bool {
    known.hot_threads().any(|thread| thread.tid == known.pid && thread.waits_in_semaphore())
}

/// The first process of a server, if it is one of PostgreSQL: another parent's children share no memory.
fn server_of(scanner: &TaskScanner, pid: u32) -> Option<ProcessId> {
    let parent = &scanner.process(pid)?.sampled;
    task::is_postgres(&parent.comm).then(|| parent.id())
}

/// A process of a server that waits for a semaphore (`true`), or may hold a lock: it runs, is blocked or stopped.
fn session(known: &KnownProcess) -> Option<(Session, bool)> {
    let state = known.threads().0.first().map(|thread| thread.state);
    let state = state.or_else(|| known.sampled.threads.first().map(|thread| thread.state));
    let waits = waits_in_semaphore(known);
    let may_hold = !matches!(state, Some(TaskState::Sleeping | TaskState::Zombie | TaskState::Dead) | None);
    let may_read = task::is_postgres(&known.sampled.comm) && !known.memory_read_may_hang();
    let session = Session { pid: known.pid, start_ticks: known.sampled.start_ticks };
    (may_read && (waits || may_hold)).then_some((session, waits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_candidates_all_are_examined_in_turn_and_likely_ones_always() {
        let (server, other, known) = (ProcessId { pid: 1, start_ticks: 1 }, WaitEvent(0x0a00_0001), WaitEvent(0x0a00_0002));
        let session = |pid| Session { pid, start_ticks: 1 };
        let mut all: Vec<Candidate> = (10..19).map(|pid| Candidate { server, session: session(pid), event: other }).collect();
        let examined = |all: &[Candidate], reading| {
            let likely = likely_first(all.to_vec(), reading, |event| event == known);
            likely.iter().map(|candidate| candidate.session.pid).collect::<Vec<u32>>()
        };
        assert_eq!(examined(&all, 0), [10, 11, 12, 13]);
        let mut in_three: Vec<u32> = (0..3).flat_map(|reading| examined(&all, reading)).collect();
        in_three.sort_unstable();
        in_three.dedup();
        assert_eq!(in_three, (10..19).collect::<Vec<u32>>());
        all.push(Candidate { server, session: session(30), event: known });
        assert!((0..9).all(|reading| examined(&all, reading).first() == Some(&30)));
        assert!(examined(&[], 5).is_empty());
    }

    #[test]
    fn segments_of_the_log_are_known_by_their_names() {
        assert!(is_log_segment(b"/var/lib/postgresql/15/main/pg_wal/000000010000000A000000FE"));
        assert!(is_log_segment(b"/wal/000000010000000A000000FE"), "elsewhere, over a symbolic link");
        for other in ["/d/pg_wal/xlogtemp.4711", "/d/base/5/16384", "/d/pg_wal/00000002.history", "/d/pg_wal", ""] {
            assert!(!is_log_segment(other.as_bytes()), "{other}");
        }
        assert!(!is_log_segment(b"/d/000000010000000A000000FE (deleted)"));
        assert!(!is_log_segment(b"/d/000000010000000A000000FE.partial"));
    }
}
