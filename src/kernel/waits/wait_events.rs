//! Reads the wait events of PostgreSQL's processes from their memory (`sample/waits/wait_event.rs`), and finds the process that holds
//! WALWriteLock.
//!
//! Since version 14 the program exports `my_wait_event_info`, a pointer into the memory that all processes of a server share. Therefore one
//! process_vm_readv of one of them reads the events of all. Nothing is read while none of them waits for a semaphore, in which a process
//! sleeps only for a light-weight lock. The permission is that of /proc/PID/syscall, which led there.

mod server;

use rustc_hash::{FxHashMap, FxHashSet};

use self::server::{Server, Session};
use super::holder_wait::read_holder_wait;
use super::lock_owners::FutexLock;
use crate::ids::ProcessId;
use crate::kernel::scan::{KnownProcess, TaskScanner};
use crate::kernel::task;
use crate::kernel::task::files::TaskFiles;
use crate::sample::task::TaskState;
use crate::sample::waits::{BlockedWait, OwnerField, Syscall, WaitEvent, WaitEventClass};
use std::os::unix::ffi::OsStrExt;

/// Servers whose events are read: a thread and the table of symbols of a program each
const MAX_SERVERS: usize = 64;
/// Processes of one server whose events are read in one sub-sample: those of one system call (IOV_MAX).
const MAX_SESSIONS: usize = 1024;
/// Of them those whose system call is read in one sub-sample, to find the holder: many may read files at a time.
const MAX_CANDIDATES: usize = 4;
/// The holder is read in one of so many sub-samples in which processes wait for the lock: it takes four files.
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
    /// Sub-samples in which a process waited for that lock
    sub_samples: u32,
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
        let waiting: FxHashSet<u32> =
            scanner.sub_sampled().filter(|known| waits_in_semaphore(known)).map(|known| known.sampled.ppid).collect();
        for pid in waiting {
            let Some(server) = server_of(scanner, pid) else { continue };
            let sessions: Vec<(Session, bool)> = sessions(scanner, pid).take(MAX_SESSIONS).collect();
            if self.servers.len() >= MAX_SERVERS && !self.servers.contains_key(&server) {
                self.servers.retain(|id, _| server_of(scanner, id.pid) == Some(*id));
                if self.servers.len() >= MAX_SERVERS {
                    continue;
                }
            }
            let known = self.servers.entry(server).or_default();
            let events = known.read_events(&sessions, scanner.files());
            let of_waiters = sessions.iter().zip(&events).filter(|((_, waits), _)| *waits);
            let of_waiters: FxHashMap<u32, WaitEvent> =
                of_waiters.filter_map(|((session, _), event)| Some((session.pid, (*event)?))).collect();
            if of_waiters.values().any(|event| *event == WaitEvent::WAL_WRITE_LOCK) {
                let others = sessions.iter().zip(&events).filter(|((_, waits), _)| !waits);
                self.candidates.extend(others.filter_map(|(&(session, _), event)| {
                    let event = event.filter(|event| event.class() == WaitEventClass::InputOutput)?;
                    Some(Candidate { server, session, event })
                }));
            }
            for known in scanner.sub_sampled_mut().filter(|known| known.sampled.ppid == pid) {
                known.for_each_hot_thread(|process, thread, _| {
                    thread.wait_event = of_waiters.get(&process.pid).copied().filter(|_| thread.waits_in_semaphore());
                });
            }
        }
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
        for ((server, group), Waiters { pid, count }) in waiters {
            let Some((_, known)) = self.servers.iter_mut().find(|(id, _)| id.pid == server) else { continue };
            let of_server = self.candidates.iter().filter(|candidate| candidate.server.pid == server);
            let mut of_server: Vec<Candidate> = of_server.copied().collect();
            of_server.sort_by_key(|candidate| !known.log_events.contains(&candidate.event));
            let mut likely = of_server.into_iter().take(MAX_CANDIDATES);
            let holder =
                if is_read { likely.find_map(|candidate| holder_wait(candidate, known, group, files, machine)) } else { None };
            let lock = FutexLock {
                group,
                pid,
                address: u64::from(WaitEvent::WAL_WRITE_LOCK.0 & 0xffff),
                is_shared: true,
                field: OwnerField::PostgresLog,
                waiters: count,
                timed_waiters: 0,
            };
            found(lock, is_read, holder);
        }
    }
}

/// What the candidate does, if it holds WALWriteLock: it is in a system call that writes a segment of the log, or brings it to the device, and
/// says so before and after that is read; or its event is one of which that was seen before on this server.
fn holder_wait(
    candidate: Candidate,
    server: &mut Server,
    group: u16,
    files: &mut TaskFiles,
    machine: &[u8],
) -> Option<BlockedWait> {
    let Candidate { session, event, .. } = candidate;
    let mut wait = read_holder_wait(files, session.pid, session.pid, group)?;
    if matches!(wait.state, TaskState::Stopped | TaskState::Traced) {
        // The call at whose end it was stopped.
        let text = files.read_once(format_args!("{}/syscall", session.pid)).ok()?;
        wait.syscall = task::parse_syscall(text).ok();
    }
    let writes_log = || {
        let call = wait.syscall.and_then(|call| Syscall::from_number(machine, call))?;
        let is_write = call.is_fsync_family() || matches!(call.name, "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2");
        let descriptor = call.file_descriptor().filter(|_| is_write)?;
        let file = files.read_link(format_args!("{}/fd/{descriptor}", session.pid)).ok()?;
        Some(is_log_segment(file.as_bytes()))
    };
    let is_holder = server.log_events.contains(&event) || writes_log() == Some(true);
    if !is_holder || server.read_event(session) != Some(event) {
        return None;
    }
    if !server.log_events.contains(&event) {
        server.log_events.push(event);
    }
    (wait.task.start_ticks == session.start_ticks).then_some(wait)
}

/// Whether a file is a segment of the log: 24 hexadecimal digits. New ones have another name until they are complete.
fn is_log_segment(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    name.len() == 24 && name.iter().all(|byte| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte))
}

fn waits_in_semaphore(known: &KnownProcess) -> bool {
    known.hot_threads().any(|thread| thread.waits_in_semaphore())
}

/// The first process of a server, if it is one of PostgreSQL: another parent's children share no memory.
fn server_of(scanner: &TaskScanner, pid: u32) -> Option<ProcessId> {
    let at = scanner.processes().binary_search_by_key(&pid, |known| known.pid).ok()?;
    let parent = &scanner.processes().get(at)?.sampled;
    task::is_postgres(&parent.comm).then(|| parent.id())
}

/// The processes of a server that wait for a semaphore, and those that may hold a lock: that run, are blocked or stopped.
fn sessions(scanner: &TaskScanner, server: u32) -> impl Iterator<Item = (Session, bool)> {
    let of_server = scanner.processes().iter().filter(move |known| known.sampled.ppid == server);
    of_server.filter_map(|known| {
        let state = known.threads().0.first().map(|thread| thread.state);
        let state = state.or_else(|| known.sampled.threads.first().map(|thread| thread.state));
        let waits = waits_in_semaphore(known);
        let may_hold = !matches!(state, Some(TaskState::Sleeping | TaskState::Zombie | TaskState::Dead) | None);
        let may_read = task::is_postgres(&known.sampled.comm) && !known.memory_read_may_hang();
        let session = Session { pid: known.pid, start_ticks: known.sampled.start_ticks };
        (may_read && (waits || may_hold)).then_some((session, waits))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
