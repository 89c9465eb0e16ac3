//! Servers that serve no request, for another reason than storage: they are stopped or frozen, or wait for a lock whose holder uses no
//! CPU. Also stopped processes whose pipe is full. docs/metrics.md, "Stuck servers".

use std::collections::BTreeMap;
use std::sync::Arc;

use super::group_label::GroupLabel;
use super::ipc_peers::IpcPeers;
use super::pipelines::writers_behind;
use super::server_connections::ServerState;
use super::wait_counts::WaitCounts;
use super::wait_queues::{WaitQueueKind, WaitQueueSpan, wait_queues};
use crate::ids::GroupId;
use crate::sample::Sample;
use crate::sample::task::{Process, TaskState, Tasks, Thread};
use crate::sample::waits::ServerSocket;
use crate::units::SmallSort;

/// Processes of one group that are stuck for one reason, and the connections that wait for them.
#[derive(Clone, Debug, PartialEq)]
pub struct StuckServers {
    pub group: GroupId,
    /// Name of the first process that is stuck, their number, and the pid if it is one
    pub label: GroupLabel,
    pub cause: StuckCause,
    /// Connections with unread or unanswered requests, and connections that are not accepted, at the sample
    pub connections: u32,
    /// Processes that wait for room in pipes which a stopped process reads; if there is no connection at least one
    pub pipe_writers: Vec<u32>,
}

/// Why a process serves nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum StuckCause {
    /// No thread of it may run: seconds since one did, if that is known
    Halted(Halt, Option<f64>),
    /// Its threads wait for a lock whose holder uses no CPU
    Lock(WaitQueueSpan),
}

/// What keeps every thread of a process from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Halt {
    /// State T: SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
    Signal,
    /// State t: a debugger
    Debugger,
    /// The freezer of its cgroup
    Freezer,
}

impl Halt {
    /// Of a process; `None` if one of its threads may run.
    pub fn from_process(process: &Process) -> Option<Halt> {
        if process.threads.is_empty() || !process.threads.iter().all(Thread::is_stopped) {
            return None;
        }
        let is_any = |state: TaskState| process.threads.iter().any(|thread| thread.state == state);
        Some(match () {
            () if is_any(TaskState::Traced) => Halt::Debugger,
            () if is_any(TaskState::Stopped) => Halt::Signal,
            () => Halt::Freezer,
        })
    }

    /// Of a thread that is stopped, traced or frozen, by the state in its stat file: a frozen one is in S or D.
    pub fn from_state(state: TaskState) -> Halt {
        match state {
            TaskState::Traced => Halt::Debugger,
            TaskState::Stopped => Halt::Signal,
            _ => Halt::Freezer,
        }
    }
}

/// The stuck servers of an interval, those with most connections first.
pub fn stuck_servers(newer: &Sample, counts: &WaitCounts) -> Vec<StuckServers> {
    let waits = &newer.waits;
    let Ok(tasks) = &newer.tasks else { return Vec::new() };
    if waits.server_sockets.is_empty() && waits.pipe_links.is_empty() {
        return Vec::new();
    }
    let on_storage = counts.groups_on_storage(waits.groups.len(), counts.sub_samples.iter().map(|_| 1.0));
    let is_on_storage = |group: u16| on_storage.get(usize::from(group)).copied().unwrap_or(false);
    let mut processes: BTreeMap<(GroupId, u32), Vec<&ServerSocket>> = BTreeMap::new();
    for socket in &waits.server_sockets {
        let Some(group) = waits.groups.get(usize::from(socket.group)) else { continue };
        processes.entry((group.clone(), socket.pid)).or_default().push(socket);
    }
    for link in &waits.pipe_links {
        if let Some(reader) = tasks.process(link.reader).filter(|reader| reader.is_stopped()) {
            processes.entry((reader.group(), reader.pid)).or_default();
        }
    }
    let mut found: Vec<StuckServers> = Vec::new();
    for ((id, pid), sockets) in processes {
        let Some(process) = tasks.process(pid) else { continue };
        let mut pipe_writers = Vec::new();
        let (cause, connections) = match (Halt::from_process(process), sockets.first()) {
            (Some(halt), _) => {
                pipe_writers = writers_behind(tasks, &waits.pipe_links, pid);
                let connections = halted_connections(tasks, process, &sockets);
                (StuckCause::Halted(halt, halted_seconds(process, newer)), connections)
            }
            (None, Some(socket)) if !is_on_storage(socket.group) => {
                let state = ServerState::behind_lock(counts, pid);
                let connections = sockets.iter().map(|socket| state.waiting_connections(socket)).fold(0, u32::saturating_add);
                let Some(queue) = lock_queue(newer, counts, socket.group).filter(|_| connections > 0) else { continue };
                (StuckCause::Lock(queue), connections)
            }
            (None, _) => continue,
        };
        if connections == 0 && pipe_writers.is_empty() {
            continue;
        }
        match found.iter_mut().find(|known| known.group == id && is_same_cause(&known.cause, &cause)) {
            Some(known) => {
                known.connections = known.connections.saturating_add(connections);
                known.pipe_writers.extend(pipe_writers);
                known.label.processes = known.label.processes.saturating_add(1);
                known.label.pid = None;
            }
            None => {
                let label = GroupLabel { name: process.comm.clone(), processes: 1, pid: Some(pid) };
                found.push(StuckServers { group: id, label, cause, connections, pipe_writers });
            }
        }
    }
    found.small_sort_by(|a, b| b.waiting().cmp(&a.waiting()).then_with(|| a.group.cmp(&b.group)));
    found
}

impl StuckServers {
    /// Connections and processes that wait for it
    pub fn waiting(&self) -> u32 {
        self.connections.saturating_add(u32::try_from(self.pipe_writers.len()).unwrap_or(u32::MAX))
    }
}

fn is_same_cause(one: &StuckCause, other: &StuckCause) -> bool {
    match (one, other) {
        (StuckCause::Halted(one, _), StuckCause::Halted(other, _)) => one == other,
        (StuckCause::Lock(_), StuckCause::Lock(_)) => true,
        _ => false,
    }
}

/// Connections that wait for a process which does not run. Those that are not accepted count only if no process that runs has the
/// listening socket, too: the parent, the children and the siblings of the same name may.
fn halted_connections(tasks: &Tasks, halted: &Process, sockets: &[&ServerSocket]) -> u32 {
    let unread = sockets.iter().filter(|socket| socket.unread_bytes > 0).count();
    let not_accepted: u32 = sockets.iter().map(|socket| socket.accept_queue).fold(0, u32::saturating_add);
    let unread = u32::try_from(unread).unwrap_or(u32::MAX);
    if not_accepted == 0 || tasks.processes.iter().any(|process| may_share_listener(halted, process)) {
        return unread;
    }
    unread.saturating_add(not_accepted)
}

fn may_share_listener(halted: &Process, other: &Arc<Process>) -> bool {
    let is_related = other.ppid == halted.pid || other.pid == halted.ppid || (other.ppid == halted.ppid && other.ppid > 2);
    is_related && other.pid != halted.pid && other.comm == halted.comm && Halt::from_process(other).is_none()
}

/// Seconds since one of its threads ran.
fn halted_seconds(process: &Process, newer: &Sample) -> Option<f64> {
    let last_ns = process.threads.iter().filter_map(|thread| thread.last_timeslice_ns).max()?;
    Some(newer.at.boottime_ns.saturating_sub(last_ns) as f64 / 1e9)
}

/// The mutex or file lock that most threads of the group wait for. Locks of the kernel are not server's own.
fn lock_queue(newer: &Sample, counts: &WaitCounts, group: u16) -> Option<WaitQueueSpan> {
    let sub_samples = u32::try_from(counts.sub_samples.len()).unwrap_or(u32::MAX);
    let queues = wait_queues(&newer.waits, counts, &IpcPeers::default(), group, sub_samples);
    queues.into_iter().find(|queue| {
        matches!(
            queue.kind,
            WaitQueueKind::Mutex
                | WaitQueueKind::RwLock
                | WaitQueueKind::JavaMonitor
                | WaitQueueKind::JavaSynchronizer
                | WaitQueueKind::FileLock
        )
    })
}
