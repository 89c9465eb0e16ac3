//! Connections that wait for a server whose threads are blocked on storage, behind a lock, or throttled by a CPU quota: their request
//! is unread, or read and not answered, or they are not accepted. docs/metrics.md, "Idle but blocked".

use rustc_hash::FxHashMap;

use super::wait_counts::{ThreadWaits, WaitCounts};
use crate::sample::Reading;
use crate::sample::waits::{ServerSocket, WaitClass, Waits};

/// A process is stuck if in this share of the sub-samples one of its threads is on storage, or behind a lock: of more than one thread,
/// the sum.
const MIN_STUCK_SHARE: f64 = 0.5;

/// A thread that is seen in this share of its sub-samples in a poll or receive call serves requests meanwhile.
const MIN_SERVING_SHARE: f64 = 0.5;

/// A process behind a lock runs for at most this share of the time: the holder of the lock does not use a CPU.
const MAX_RUNNING_BEHIND_LOCK_SHARE: f64 = 0.2;

/// A connection on which nothing was sent for longer than this carries no answers (a log, a stream of metrics), unless there is unread
/// data.
const MAX_ANSWER_AGE_MS: u32 = 60_000;

/// By index into `Waits::groups`: the number of connections that wait for processes of the group that are stuck on storage, at the
/// sample; an error if none is known and its sockets could not be read.
pub fn waiting_connections(waits: &Waits, counts: &WaitCounts) -> Vec<Reading<u32>> {
    let mut found = vec![Ok(0_u32); waits.groups.len()];
    let mut processes: FxHashMap<u32, ServerState> = FxHashMap::default();
    for socket in &waits.server_sockets {
        let state = processes.entry(socket.pid).or_insert_with(|| ServerState::on_storage(counts, socket.pid));
        if let Some(Ok(sum)) = found.get_mut(usize::from(socket.group)) {
            *sum = sum.saturating_add(state.waiting_connections(socket));
        }
    }
    for unread in &waits.unread_servers {
        if let Some(connections) = found.get_mut(usize::from(unread.group)).filter(|known| **known == Ok(0)) {
            *connections = Err(unread.reason);
        }
    }
    found
}

/// By index into `Waits::groups`: the number of connections that wait for processes of the group that are stuck in waits of which
/// `is_kernel_lock` holds, at the sample. Its argument is `ObservedWait::id`.
pub fn connections_behind_kernel_locks(waits: &Waits, counts: &WaitCounts, is_kernel_lock: impl Fn(u32) -> bool) -> Vec<u32> {
    let mut found = vec![0_u32; waits.groups.len()];
    let mut processes: FxHashMap<u32, ServerState> = FxHashMap::default();
    for socket in &waits.server_sockets {
        let state = processes.entry(socket.pid).or_insert_with(|| {
            let rows = waits.threads.iter().filter(|row| row.task.pid == socket.pid && is_kernel_lock(row.wait));
            ServerState::behind_kernel_lock(counts, socket.pid, rows.map(|row| f64::from(row.seen_count)).sum())
        });
        if let Some(sum) = found.get_mut(usize::from(socket.group)) {
            *sum = sum.saturating_add(state.waiting_connections(socket));
        }
    }
    found
}

/// What a process that has unserved sockets did in the interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// Its threads are stuck, and no other one serves requests.
    Stuck,
    /// It has stuck threads, and others that serve requests: what is read may wait for something else.
    PartlyStuck,
    /// Its threads are stuck for less than half of the time, or on CPUs for longer.
    Working,
}

impl ServerState {
    /// Stuck on storage or in memory reclaim.
    fn on_storage(counts: &WaitCounts, pid: u32) -> ServerState {
        let threads = counts.process_threads(pid);
        let stuck = sightings(threads, WaitClass::Disk) + sightings(threads, WaitClass::Memory);
        ServerState::new(threads, is_most(counts, stuck) && stuck >= sightings(threads, WaitClass::Running))
    }

    /// Stuck behind locks inside the kernel, in which its threads were seen `in_locks` times.
    fn behind_kernel_lock(counts: &WaitCounts, pid: u32, in_locks: f64) -> ServerState {
        let threads = counts.process_threads(pid);
        ServerState::new(threads, is_most(counts, in_locks) && in_locks >= sightings(threads, WaitClass::Running))
    }

    /// Stuck behind a lock whose holder uses no CPU: while the holder computes, the lock is at its limit.
    pub fn behind_lock(counts: &WaitCounts, pid: u32) -> ServerState {
        let threads = counts.process_threads(pid);
        let running = sightings(threads, WaitClass::Running);
        let is_idle = running <= counts.sub_samples.len() as f64 * MAX_RUNNING_BEHIND_LOCK_SHARE;
        ServerState::new(threads, is_idle && is_most(counts, sightings(threads, WaitClass::Lock)))
    }

    /// Stuck in a throttled cgroup: its threads are runnable, but not on a CPU. `used_cpus`: those that its threads use;
    /// `throttled_share`: share of the time in which the quota throttles. For the rest of it a runnable thread waits for a CPU.
    pub fn throttled(counts: &WaitCounts, pid: u32, used_cpus: f64, throttled_share: f64) -> ServerState {
        let threads = counts.process_threads(pid);
        let sub_samples = counts.sub_samples.len() as f64;
        let used = used_cpus * sub_samples;
        let most_throttled = throttled_share.min(1.0) * sub_samples;
        let throttled: f64 = threads.iter().map(|thread| f64::from(thread.count(WaitClass::Running)).min(most_throttled)).sum();
        let not_running = throttled.min(sightings(threads, WaitClass::Running) - used);
        ServerState::new(threads, is_most(counts, not_running) && not_running >= used)
    }

    fn new(threads: &[ThreadWaits], is_stuck: bool) -> ServerState {
        let serves = |thread: &ThreadWaits| {
            let waits = [WaitClass::Poll, WaitClass::Net, WaitClass::Pipe].map(|class| thread.count(class)).iter().sum::<u32>();
            f64::from(waits) >= f64::from(thread.sub_sample_count().max(1)) * MIN_SERVING_SHARE
        };
        match is_stuck {
            true if threads.iter().any(serves) => ServerState::PartlyStuck,
            true => ServerState::Stuck,
            false => ServerState::Working,
        }
    }

    /// Connections of this socket that wait for the process.
    pub fn waiting_connections(self, socket: &ServerSocket) -> u32 {
        match self {
            ServerState::Working => 0,
            ServerState::PartlyStuck => socket.accept_queue.saturating_add(u32::from(socket.unread_bytes > 0)),
            ServerState::Stuck => {
                socket.accept_queue.saturating_add(u32::from(socket.unread_bytes > 0 || is_unanswered(socket)))
            }
        }
    }
}

/// Sightings of threads in a wait class.
fn sightings(threads: &[ThreadWaits], class: WaitClass) -> f64 {
    f64::from(threads.iter().map(|thread| thread.count(class)).sum::<u32>())
}

/// Whether so many sightings are enough for a stuck process.
fn is_most(counts: &WaitCounts, stuck: f64) -> bool {
    stuck >= counts.sub_samples.len().max(1) as f64 * MIN_STUCK_SHARE
}

/// Whether the request came after the last answer. Both are known to a clock tick: with equal times the kernel's numbers of segments
/// decide, so that a long answer hides a short request.
fn is_unanswered(socket: &ServerSocket) -> bool {
    let Some((sent, received)) = socket.last_data_sent_ms.zip(socket.last_data_received_ms) else { return false };
    let more_received = socket.data_segments_in.zip(socket.data_segments_out).is_some_and(|(received, sent)| received > sent);
    sent <= MAX_ANSWER_AGE_MS && (received < sent || (received == sent && more_received))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{GroupId, ProcessId, TaskId};
    use crate::sample::Absent;
    use crate::sample::waits::UnreadServer;

    fn connection(unread_bytes: u32, sent_ms: u32, received_ms: u32, segments: (u32, u32)) -> ServerSocket {
        ServerSocket {
            pid: 7,
            local_port: Some(6379),
            unread_bytes,
            last_data_sent_ms: Some(sent_ms),
            last_data_received_ms: Some(received_ms),
            data_segments_in: Some(segments.0),
            data_segments_out: Some(segments.1),
            ..ServerSocket::default()
        }
    }

    /// Connections that wait for a process with these threads, each in its waits for so many of ten sub-samples.
    fn waiting(sockets: Vec<ServerSocket>, threads: &[&[(WaitClass, u16)]]) -> u32 {
        let groups = vec![GroupId::Process(ProcessId { pid: 7, start_ticks: 1 })];
        let waits = Waits { groups, server_sockets: sockets, ..Waits::default() };
        let thread = |(tid, seen): (u32, &&[(WaitClass, u16)])| {
            let mut class_counts = [0; WaitClass::COUNT];
            for (class, times) in *seen {
                class_counts[*class as usize] = *times;
            }
            ThreadWaits { task: TaskId { pid: 7, tid, start_ticks: 1 }, group: 0, class_counts, blocked_other: 0 }
        };
        let threads = (7..).zip(threads).map(thread).collect();
        let counts = WaitCounts { sub_samples: vec![Vec::new(); 10], threads, ..WaitCounts::default() };
        waiting_connections(&waits, &counts)[0].unwrap()
    }

    #[test]
    fn requests_without_an_answer_wait() {
        let on_storage: &[&[(WaitClass, u16)]] = &[&[(WaitClass::Disk, 9), (WaitClass::Running, 1)]];
        assert_eq!(waiting(vec![connection(14, 50, 50, (3, 3))], on_storage), 1, "unread");
        assert_eq!(waiting(vec![connection(0, 50, 20, (3, 3))], on_storage), 1, "read after the last answer");
        assert_eq!(waiting(vec![connection(0, 50, 50, (4, 3))], on_storage), 1, "in the clock tick of the last answer");
        assert_eq!(waiting(vec![connection(0, 50, 50, (4, 4))], on_storage), 0, "answered in the same clock tick");
        assert_eq!(waiting(vec![connection(0, 20, 50, (9, 3))], on_storage), 0, "answered");
        assert_eq!(waiting(vec![connection(0, 90_000, 20, (9, 1))], on_storage), 0, "a log has no answers");
        let queue = ServerSocket { pid: 7, accept_queue: 5, ..ServerSocket::default() };
        assert_eq!(waiting(vec![queue, connection(14, 50, 50, (3, 3))], on_storage), 6);
        let of_container = ServerSocket { last_data_sent_ms: None, last_data_received_ms: None, ..connection(1, 0, 0, (0, 0)) };
        assert_eq!(waiting(vec![of_container], on_storage), 1);
    }

    #[test]
    fn they_wait_for_storage_only_if_the_process_does() {
        let requests = || vec![connection(14, 50, 50, (3, 3)), connection(0, 50, 20, (3, 3))];
        use WaitClass::{Disk, Futex, Lock, Poll, Running, Timer};
        assert_eq!(waiting(requests(), &[&[(Disk, 10)], &[(Futex, 10)], &[(Lock, 10)], &[(Timer, 10)]]), 2);
        assert_eq!(waiting(requests(), &[&[(Disk, 3), (Lock, 7)], &[(Disk, 3), (Lock, 7)]]), 2, "the holder changes");
        assert_eq!(waiting(requests(), &[&[(Disk, 10)], &[(Poll, 10)]]), 1, "only what is unread surely waits");
        assert_eq!(waiting(requests(), &[&[(Poll, 10)]]), 0, "a slow server, not one on storage");
        assert_eq!(waiting(requests(), &[&[(Disk, 3), (Poll, 7)]]), 0);
        assert_eq!(waiting(requests(), &[&[(Disk, 5)], &[(Running, 10)]]), 0, "CPU time is what it lacks");
    }

    /// A server that a quota throttles: its threads are seen in state R, on a CPU or not.
    #[test]
    fn they_wait_for_a_quota_only_if_the_process_seldom_runs() {
        let state = |runnable: &[u16], used_cpus: f64, throttled_share: f64| {
            let thread = |(tid, &seen): (u32, &u16)| {
                let mut class_counts = [0; WaitClass::COUNT];
                class_counts[WaitClass::Running as usize] = seen;
                ThreadWaits { task: TaskId { pid: 7, tid, start_ticks: 1 }, group: 0, class_counts, blocked_other: 0 }
            };
            let threads = (7..).zip(runnable).map(thread).collect();
            let counts = WaitCounts { sub_samples: vec![Vec::new(); 10], threads, ..WaitCounts::default() };
            ServerState::throttled(&counts, 7, used_cpus, throttled_share)
        };
        assert_eq!(state(&[10], 0.2, 0.8), ServerState::Stuck);
        assert_eq!(state(&[10], 0.6, 1.0), ServerState::Working, "it runs for most of the time");
        assert_eq!(state(&[10, 10, 10, 10], 0.6, 0.8), ServerState::Stuck);
        assert_eq!(state(&[10, 10, 10, 10], 2.2, 1.0), ServerState::Working);
        assert_eq!(state(&[4], 0.1, 0.9), ServerState::Working, "it sleeps for most of the time");
        assert_eq!(state(&[10], 0.2, 0.05), ServerState::Working, "it waits for a CPU of a busy host");
        assert_eq!(state(&[10, 10], 0.2, 0.3), ServerState::Stuck, "its threads summed");
        assert_eq!(state(&[10], 0.6, 3.0), ServerState::Working, "of several CPUs");
    }

    #[test]
    fn what_could_not_be_read_is_unknown_unless_some_are_known_to_wait() {
        let groups = vec![GroupId::Process(ProcessId { pid: 7, start_ticks: 1 }); 2];
        let unread_servers =
            vec![UnreadServer { group: 0, reason: Absent::NoPermission }, UnreadServer { group: 1, reason: Absent::NotRead }];
        let queue = ServerSocket { pid: 7, group: 1, accept_queue: 5, ..ServerSocket::default() };
        let waits = Waits { groups, server_sockets: vec![queue], unread_servers, ..Waits::default() };
        let mut class_counts = [0; WaitClass::COUNT];
        class_counts[WaitClass::Disk as usize] = 10;
        let threads =
            vec![ThreadWaits { task: TaskId { pid: 7, tid: 7, start_ticks: 1 }, group: 1, class_counts, blocked_other: 0 }];
        let counts = WaitCounts { sub_samples: vec![Vec::new(); 10], threads, ..WaitCounts::default() };
        assert_eq!(waiting_connections(&waits, &counts), [Err(Absent::NoPermission), Ok(5)]);
    }
}
