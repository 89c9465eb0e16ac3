//! Finds the hosts and processes that owners of locks wait for in sockets and pipes, and what the processes do. One that waits
//! for work does not count: the owner then waits for work, too. docs/metrics.md, "Lock holders".

use std::net::SocketAddr;

use rustc_hash::FxHashMap;

use super::blocked_threads::BlockedThread;
use super::holder_activity::HolderActivity;
use super::remote_waits::awaits_answer;
use crate::ids::TaskId;
use crate::sample::waits::{BlockedWait, FutexWait, LockOwner, SocketWaiter, Syscall, WaitClass, Waits, class};
use crate::sample::{Host, Sample};
use crate::units::reaches_threshold;

/// A process at the other end of a pipe or socket, which does something else than wait for work.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// It is a pipe; otherwise a socket
    pub is_pipe: bool,
    /// It may have a request to answer
    pub may_answer: bool,
    /// The thread of it that is busy or blocked, in its most frequent wait
    pub thread: BlockedThread,
    pub activity: HolderActivity,
    /// The address of the futex lock for which that thread waits
    pub wanted_futex: Option<u64>,
}

/// Share of its sightings from which a thread is busy or blocked, or waits for events. docs/metrics.md, "Fixed thresholds".
const MIN_PEER_SHARE: f64 = 0.5;

/// A process that passes a request on does so within this time, by clocks that are read one after the other.
const MAX_PASS_ON_MS: u64 = 1000;

/// By the waiting owner, or selected thread of a group.
pub fn owner_peers(host: &Host, newer: &Sample) -> FxHashMap<TaskId, Peer> {
    let waits = &newer.waits;
    let mut peers = FxHashMap::default();
    for row in &waits.owner_peers {
        let Some((thread, activity)) = server_activity(host, newer, row.peer, waited_ms(newer, row.owner)) else { continue };
        let wanted_futex = wanted_futex(host.machine.as_bytes(), &thread);
        let peer = Peer { is_pipe: row.is_pipe, may_answer: row.may_answer, thread, activity, wanted_futex };
        peers.insert(row.owner, peer);
    }
    share_in_turn(waits, &mut peers);
    peers
}

/// The thread of a process of this host that is busy or blocked, and what it does; `None` if the process waits for work. A
/// request that it sent counts if it was sent after the one for which others have waited for `waited_ms`.
pub fn server_activity(
    host: &Host,
    newer: &Sample,
    pid: u32,
    waited_ms: Option<u64>,
) -> Option<(BlockedThread, HolderActivity)> {
    let waits = &newer.waits;
    let rows: Vec<&BlockedWait> = waits.peer_waits.iter().filter(|wait| wait.task.pid == pid).collect();
    let is_later = |sent_ms: u32| waited_ms.is_none_or(|waited| u64::from(sent_ms) <= waited.saturating_add(MAX_PASS_ON_MS));
    let of_process = waits.socket_waiters.iter().filter(|waiter| waiter.task.pid == pid && awaits_answer(waiter));
    let mut asked: FxHashMap<TaskId, SocketAddr> =
        of_process.filter(|waiter| is_later(waiter.last_data_sent_ms)).map(|waiter| (waiter.task, waiter.remote)).collect();
    // Of several ends it is not known which one the answer depends on.
    let first = asked.values().next().copied();
    if asked.values().any(|&remote| Some(remote) != first) {
        asked.clear();
    }
    busy_thread(host.machine.as_bytes(), &rows, &asked)
}

/// For how long a thread has waited: since its request was sent, or else since it last ran.
fn waited_ms(newer: &Sample, task: TaskId) -> Option<u64> {
    if let Some(waiter) = newer.waits.socket_waiters.iter().find(|waiter| waiter.task == task) {
        return Some(u64::from(waiter.last_data_sent_ms));
    }
    let (_, thread) = newer.tasks.as_ref().ok()?.thread(task)?;
    Some(newer.at.boottime_ns.saturating_sub(thread.last_timeslice_ns?) / 1_000_000)
}

/// Whether a thread waits where data of a connection would wake it.
pub fn may_await_answer(thread: &BlockedThread) -> bool {
    let may_be_socket = || thread.wait.wchan.as_ref().is_some_and(|wchan| class::may_be_socket(wchan.as_bytes()));
    matches!(thread.class, WaitClass::Net | WaitClass::Poll | WaitClass::Pipe | WaitClass::Aio) || may_be_socket()
}

/// By the owner that waits for data over TCP: the host and port that it asked; `None` if it waits for something else.
pub fn asked_hosts(waits: &Waits) -> FxHashMap<TaskId, Option<SocketAddr>> {
    let asked = |waiter: &SocketWaiter| (waiter.task, Some(waiter.remote).filter(|_| awaits_answer(waiter)));
    let mut hosts = waits.socket_waiters.iter().map(asked).collect();
    share_in_turn(waits, &mut hosts);
    hosts
}

/// Threads that hold a lock in turn, and wait at the same place meanwhile, wait for the same. Only the last of them still does when that is
/// read.
fn share_in_turn<T: Clone>(waits: &Waits, awaited: &mut FxHashMap<TaskId, T>) {
    let is_same = |a: &LockOwner, b: &LockOwner| {
        let call = |row: &LockOwner| row.owner.syscall.map(|call| call.number);
        (a.group, a.futex_address, &a.owner.wchan, call(a)) == (b.group, b.futex_address, &b.owner.wchan, call(b))
    };
    for row in waits.lock_owners.iter().filter(|row| row.owner.wchan.is_some()) {
        if !awaited.contains_key(&row.owner.task) {
            let others = waits.lock_owners.iter().filter(|other| is_same(row, other));
            if let Some(known) = others.filter_map(|other| awaited.get(&other.owner.task)).next().cloned() {
                awaited.insert(row.owner.task, known);
            }
        }
    }
}

/// The thread of a process that is busy or blocked, and what it does; `None` if a thread of it waits for events, since that may be the one
/// that serves the owner. Threads parked in a futex do not count. `rows`: the waits of its threads, sorted by task. `asked`: the hosts whose
/// answer its threads await.
fn busy_thread(
    machine: &[u8],
    rows: &[&BlockedWait],
    asked: &FxHashMap<TaskId, SocketAddr>,
) -> Option<(BlockedThread, HolderActivity)> {
    let mut most: Option<((bool, u32), BlockedThread, HolderActivity)> = None;
    for waits in rows.chunk_by(|a, b| a.task == b.task) {
        let waits: Vec<(BlockedThread, HolderActivity)> = waits.iter().map(|wait| classified(machine, wait, asked)).collect();
        let seen = |is_counted: &dyn Fn(&BlockedThread, HolderActivity) -> bool| -> u32 {
            let counted = waits.iter().filter(|(thread, activity)| is_counted(thread, *activity));
            counted.map(|(thread, _)| u32::from(thread.wait.seen_count)).sum()
        };
        let is_busy =
            |thread: &BlockedThread, activity: HolderActivity| activity != HolderActivity::Event && !is_parked(thread);
        let all = f64::from(seen(&|_, _| true).max(1));
        let busy_count = seen(&is_busy);
        let event_count = seen(&|thread, activity: HolderActivity| activity == HolderActivity::Event && !is_parked(thread));
        if reaches_threshold(f64::from(busy_count) / all, MIN_PEER_SHARE) {
            let busy = waits.into_iter().filter(|(thread, activity)| is_busy(thread, *activity));
            let (thread, activity) = busy.max_by_key(|(thread, activity)| (thread.wait.seen_count, *activity))?;
            // A clock beside the thread that works is no reason.
            let rank = (activity != HolderActivity::Timer, busy_count);
            if most.as_ref().is_none_or(|(known, ..)| rank > *known) {
                most = Some((rank, thread, activity));
            }
        } else if reaches_threshold(f64::from(event_count) / all, MIN_PEER_SHARE) {
            return None;
        }
    }
    most.map(|(_, thread, activity)| (thread, activity))
}

fn classified(machine: &[u8], wait: &BlockedWait, asked: &FxHashMap<TaskId, SocketAddr>) -> (BlockedThread, HolderActivity) {
    let thread = BlockedThread::new(machine, wait);
    let call = wait.syscall.and_then(|call| Syscall::from_number(machine, call));
    let activity = match (HolderActivity::from_wait(&thread, call), asked.get(&wait.task)) {
        (HolderActivity::Event, Some(remote)) if may_await_answer(&thread) => HolderActivity::RemoteHost(*remote),
        (activity, _) => activity,
    };
    (thread, activity)
}

/// In a futex that need not be a held lock.
fn is_parked(thread: &BlockedThread) -> bool {
    thread.class == WaitClass::Futex
}

/// The address of the contended futex of its process in which a thread waits.
fn wanted_futex(machine: &[u8], thread: &BlockedThread) -> Option<u64> {
    let call = Syscall::from_number(machine, thread.wait.syscall?)?;
    let is_private = call.is_contended_futex() && !call.is_shared_futex();
    call.futex_wait().filter(|_| is_private).map(FutexWait::address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Name;
    use crate::sample::task::TaskState;
    use crate::sample::waits::{OwnerField, OwnerPeer};
    use crate::synthetic;

    fn wait(pid: u32, tid: u32, wchan: &str, seen_count: u16) -> BlockedWait {
        let state = match wchan {
            "" => TaskState::Running,
            "jbd2_log_wait_commit" => TaskState::Blocked,
            _ => TaskState::Sleeping,
        };
        let channel = (!wchan.is_empty()).then(|| Name::from(wchan));
        let task = TaskId { pid, tid, start_ticks: 1 };
        BlockedWait { state, wchan: channel, seen_count, ..synthetic::waits::asleep(task, "server", wchan) }
    }

    /// The thread and what it does, of process 200 with these threads: tid, wait channel, sightings.
    fn busy(threads: &[(u32, &str, u16)]) -> Option<(u32, HolderActivity)> {
        let waits: Vec<BlockedWait> = threads.iter().map(|&(tid, wchan, count)| wait(200, tid, wchan, count)).collect();
        busy_thread(b"x86_64", &waits.iter().collect::<Vec<_>>(), &FxHashMap::default())
            .map(|(thread, activity)| (thread.wait.task.tid, activity))
    }

    #[test]
    fn a_process_that_sleeps_computes_or_is_on_storage_is_waited_for() {
        assert_eq!(busy(&[(200, "hrtimer_nanosleep", 10)]), Some((200, HolderActivity::Timer)));
        assert_eq!(busy(&[(200, "", 9), (200, "unix_stream_data_wait", 1)]), Some((200, HolderActivity::Running)));
        let flushes = [(200, "futex_do_wait", 10), (201, "jbd2_log_wait_commit", 8), (201, "", 2)];
        assert_eq!(busy(&flushes), Some((201, HolderActivity::Storage)), "its main thread is parked");
        let clock = [(200, "hrtimer_nanosleep", 10), (201, "jbd2_log_wait_commit", 8), (201, "", 2)];
        assert_eq!(busy(&clock), Some((201, HolderActivity::Storage)), "a clock beside it");
    }

    #[test]
    fn a_process_that_waits_for_work_is_not() {
        assert_eq!(busy(&[(200, "do_epoll_wait", 10)]), None);
        assert_eq!(busy(&[(200, "unix_stream_data_wait", 8), (200, "", 2)]), None);
        assert_eq!(busy(&[(200, "futex_do_wait", 10)]), None, "parked");
        assert_eq!(busy(&[(200, "do_epoll_wait", 10), (201, "hrtimer_nanosleep", 10)]), None, "a clock beside it");
        assert_eq!(busy(&[]), None);
    }

    #[test]
    fn a_process_whose_threads_asked_one_end_later_waits_for_it() {
        let row = |tid, remote: &str, sent_ms| SocketWaiter {
            task: TaskId { pid: 200, tid, start_ticks: 1 },
            group: 0,
            remote: remote.parse().unwrap(),
            local_port_listens: false,
            last_data_sent_ms: sent_ms,
            last_data_received_ms: sent_ms + 9,
        };
        let activity = |socket_waiters, waited_ms| {
            let peer_waits = vec![wait(200, 200, "do_epoll_wait", 10), wait(200, 201, "wait_woken", 10)];
            let waits = Waits { peer_waits, socket_waiters, ..Waits::default() };
            let sample = Sample { waits, ..synthetic::sample(1.0).build() };
            server_activity(&synthetic::host(), &sample, 200, waited_ms).map(|(_, activity)| activity)
        };
        let (database, cache) = ("10.0.0.5:5432", "10.0.0.6:6379");
        let both = |other, sent_ms| vec![row(200, database, sent_ms), row(201, other, sent_ms)];
        let waits_for_it = Some(HolderActivity::RemoteHost(database.parse().unwrap()));
        assert_eq!(activity(both(database, 3000), Some(3000)), waits_for_it);
        assert_eq!(activity(both(database, 3000), None), waits_for_it, "since when others wait for it is not known");
        assert_eq!(activity(both(database, 9000), Some(3000)), None, "sent long before the others' request");
        assert_eq!(activity(both(cache, 3000), Some(3000)), None, "two ends");
        assert_eq!(
            activity(vec![row(201, database, 3000)], Some(3000)),
            None,
            "the other thread may serve them, and waits for work"
        );
    }

    #[test]
    fn threads_that_hold_a_lock_in_turn_wait_for_the_same_process() {
        let owner = |tid, futex_address| LockOwner {
            group: 0,
            futex_address,
            is_shared: false,
            field: OwnerField::GlibcMutex,
            waiters: 12,
            owner: wait(100, tid, "unix_stream_data_wait", 5),
            kernel_lock: None,
            timed_waiters: 0,
            awaited_java_lock: None,
        };
        let last = owner(102, 0x1000);
        let row = OwnerPeer { owner: last.owner.task, peer: 200, is_pipe: false, may_answer: true };
        let waits = Waits {
            lock_owners: vec![owner(101, 0x1000), last, owner(103, 0x2000)],
            owner_peers: vec![row],
            peer_waits: vec![wait(200, 200, "hrtimer_nanosleep", 10)],
            ..Waits::default()
        };
        let sample = Sample { waits: waits.clone(), ..synthetic::sample(1.0).build() };
        let peers = owner_peers(&synthetic::host(), &sample);
        let mut tids: Vec<u32> = peers.keys().map(|task| task.tid).collect();
        tids.sort_unstable();
        assert_eq!(tids, [101, 102], "and not the holder of another lock");
        let asked = SocketWaiter {
            task: waits.lock_owners[1].owner.task,
            group: 0,
            remote: "10.0.0.5:5432".parse().unwrap(),
            local_port_listens: false,
            last_data_sent_ms: 5,
            last_data_received_ms: 9,
        };
        let hosts = |socket_waiters| asked_hosts(&Waits { socket_waiters, ..waits.clone() });
        assert_eq!(hosts(vec![asked]).get(&waits.lock_owners[0].owner.task), Some(&Some(asked.remote)));
        let answered = SocketWaiter { last_data_received_ms: 1, ..asked };
        assert_eq!(hosts(vec![answered]).get(&waits.lock_owners[0].owner.task), Some(&None));
    }
}
