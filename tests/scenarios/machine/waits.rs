//! Waits that the sub-samples of a scenario see: rows of groups and threads, queues, pipes, unread sockets, tracers.

use stalltop::ids::GroupId;
use stalltop::interval::wait_counts::GroupWaits;
use stalltop::sample::task::{RawSyscall, TaskState};
use stalltop::sample::waits::{
    CoreDump, GroupWait, IpcHolder, IpcWaiter, JavaLockKind, ObservedWait, PipeLink, ServerSocket, ThreadWait, TracedProcess,
    UnreadServer, WaitClass, WaitEvent, WaitQueue, Waits,
};
use stalltop::sample::{Absent, Name};

use super::SUB_SAMPLES;
use super::tasks::group_index;
use crate::format::{self, Phase};
use crate::synthetic;

/// `ObservedWait::id` of the wait in the first `queue` of a phase; the next ones follow.
const FIRST_QUEUE: u32 = 200;

pub(super) fn rows(phase: &Phase, groups: &[GroupId], sub_sample: u32) -> Vec<GroupWait> {
    let mut rows: Vec<GroupWait> = Vec::new();
    for (wait, process, queue) in lock_queues(phase) {
        let at_shared_address = if queue.at_one > 0 { queue.threads } else { 0 };
        let group = group_index(process, groups);
        rows.push(GroupWait { group, wait, active: true, threads: queue.threads, at_shared_address });
    }
    for process in &phase.process {
        let waits = &process.waits;
        let queued = |kinds: &[&str]| {
            let queues = process.queue.iter().filter(|queue| kinds.contains(&queue.kind.as_str()));
            queues.map(|queue| queue.threads).sum::<u16>()
        };
        let by_futex_call = waits.lock_by_call
            - waits.file_lock
            - queued(&["mutex", "rw-lock", "kernel-lock", "postgres-lock", "java-monitor", "java-util-concurrent"]);
        rows.push(synthetic::waits::mutex(group_index(process, groups), by_futex_call));
        let is_on_storage = sub_sample < u32::from(waits.storage_times.unwrap_or(10));
        let inferred = waits.lock_by_inference - queued(&["futex", "rust-mutex", "rw-lock-readers", "postgres-other"]);
        if waits.private {
            let (group, wait) = (group_index(process, groups), synthetic::waits::PRIVATE_FUTEX);
            rows.push(GroupWait { group, wait, active: true, threads: inferred, at_shared_address: 0 });
        }
        rows.extend(synthetic::waits::group(&GroupWaits {
            group: group_index(process, groups),
            running: waits.running.get(sub_sample as usize % waits.running.len().max(1)).copied().unwrap_or(0),
            storage: if is_on_storage { waits.storage - queued(&["storage"]) } else { 0 },
            aio: waits.aio,
            memory: waits.memory,
            other_blocked: waits.other + waits.hidden,
            hidden_blocked: waits.hidden,
            lock_contended: waits.file_lock - queued(&["file-lock"]),
            lock_inferred: if waits.private { 0 } else { inferred },
            ipc_peer: waits.peer,
            file_lock: waits.file_lock - queued(&["file-lock"]),
            ..GroupWaits::default()
        }));
    }
    rows.retain(|row| row.threads > 0);
    rows.sort_by_key(|row| (row.group, row.wait));
    rows
}

/// Threads that wait in a pipe whose other end is held by a process on storage, and other threads in the same pipes.
pub(super) fn add_ipc_peers(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.waits.peer > 0) {
        let group = group_index(process, &waits.groups);
        for at in 0..process.waits.peer {
            let task = synthetic::task_id(process.pid + 50_000, u32::from(at));
            waits.threads.extend(synthetic::waits::thread(task, group, &[(WaitClass::Pipe, 10)]));
            if at < process.waits.behind_peer {
                waits.ipc_waiters.push(IpcWaiter { task, group, peer: 0 });
            }
        }
        if process.waits.behind_peer > 0 {
            let holder = synthetic::task_id(process.pid, process.pid);
            waits.threads.extend(synthetic::waits::thread(holder, group, &[(WaitClass::Disk, 10)]));
            waits.ipc_holders.push(IpcHolder { group, peer: 0, pid: process.pid });
        }
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.ipc_waiters.sort_by_key(|waiter| waiter.task);
    waits.ipc_holders.sort_by_key(|holder| (holder.group, holder.peer, holder.pid));
}

/// Groups whose sockets may not be read.
pub(super) fn add_unread_sockets(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.unread_sockets) {
        let group = group_index(process, &waits.groups);
        waits.unread_servers.push(UnreadServer { group, reason: Absent::NoPermission });
    }
}

/// Connections whose requests are unread; the first thread of the process is on storage, behind a lock, running, or stopped.
pub(super) fn add_unread_connections(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.unread_connections > 0) {
        let group = group_index(process, &waits.groups);
        let class = match &process.waits {
            waits if waits.storage > 0 => WaitClass::Disk,
            waits if waits.lock_by_call > 0 => WaitClass::Lock,
            _ => WaitClass::Running,
        };
        let task = synthetic::task_id(process.pid, process.pid);
        // Sub-samples do not see stopped threads.
        if !matches!(process.state, 'T' | 't') {
            waits.threads.extend(synthetic::waits::thread(task, group, &[(class, 10)]));
        }
        let connection =
            ServerSocket { group, pid: process.pid, local_port: Some(6379), unread_bytes: 14, ..ServerSocket::default() };
        waits.server_sockets.extend((0..process.unread_connections).map(|_| connection));
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
}

/// Processes whose first thread waits in a pipe, and the pipes.
pub(super) fn add_pipes(phase: &Phase, waits: &mut Waits) {
    for (process, pipe) in phase.process.iter().filter_map(|process| Some((process, process.pipe.as_ref()?))) {
        let (wait, link) = match pipe.call.as_str() {
            "write" => {
                (synthetic::waits::PIPE_WRITE, PipeLink { writer: process.pid, reader: pipe.other, is_full: pipe.is_full })
            }
            "read" => (WaitClass::Pipe as u32, PipeLink { writer: pipe.other, reader: process.pid, is_full: false }),
            other => panic!("no call {other} of a pipe"),
        };
        let task = synthetic::task_id(process.pid, process.pid);
        waits.threads.push(ThreadWait { task, wait, group: group_index(process, &waits.groups), seen_count: pipe.times });
        waits.pipe_links.push(link);
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.pipe_links.sort_unstable();
}

/// Processes whose first thread a tracer stops.
pub(super) fn add_tracers(phase: &Phase, waits: &mut Waits) {
    for (process, tracer) in phase.process.iter().filter_map(|process| Some((process, process.tracer?))) {
        let task = synthetic::task_id(process.pid, process.pid);
        let group = group_index(process, &waits.groups);
        let runs = (WaitClass::Running as u32, 10 - process.stopped);
        let rows = [(synthetic::waits::TRACED, process.stopped), runs];
        waits.threads.extend(rows.map(|(wait, seen_count)| ThreadWait { task, wait, group, seen_count }));
        waits.traced.push(TracedProcess { pid: process.pid, tracer });
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
}

/// Processes that dump core, with their threads in queues for that.
pub(super) fn add_core_dumps(phase: &Phase, waits: &mut Waits) {
    for process in phase.process.iter().filter(|process| process.dumps_core) {
        waits.core_dumps.push(CoreDump { pid: process.pid });
        let group = group_index(process, &waits.groups);
        for (wait, ..) in lock_queues(phase).filter(|(_, other, _)| other.pid == process.pid) {
            let task = synthetic::task_id(process.pid, process.pid + 1);
            waits.threads.push(ThreadWait { task, wait, group, seen_count: 10 });
        }
    }
    waits.core_dumps.sort_unstable();
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
}

/// The queues of a phase that are for locks, numbered, with their process.
pub(super) fn lock_queues(phase: &Phase) -> impl Iterator<Item = (u32, &format::Process, &format::Queue)> {
    let all = phase.process.iter().flat_map(|process| process.queue.iter().map(move |queue| (process, queue)));
    let locks = all.filter(|(_, queue)| !["remote", "unix", "pipe"].contains(&queue.kind.as_str()));
    (FIRST_QUEUE..).zip(locks).map(|(id, (process, queue))| (id, process, queue))
}

/// The queues of a phase that are for locks.
pub(super) fn add_queues(phase: &Phase, waits: &mut Waits) {
    for (id, process, queue) in lock_queues(phase) {
        let call = |number| RawSyscall { number, arguments: [0; 3] };
        let futex = |operation, value| Some(RawSyscall { number: 202, arguments: [0, operation, value] });
        let (state, wchan, syscall) = match queue.kind.as_str() {
            "mutex" => (TaskState::Sleeping, "futex_do_wait", futex(0x80, 2)),
            "postgres-lock" | "postgres-other" => (TaskState::Sleeping, "futex_do_wait", futex(0x109, 0)),
            "futex" | "java-monitor" | "java-util-concurrent" => (TaskState::Sleeping, "futex_do_wait", futex(0x189, 0)),
            "rust-mutex" | "timed-mutex" | "timed-condition" => (TaskState::Sleeping, "futex_do_wait", futex(0x189, 2)),
            "rw-lock" | "rw-lock-readers" => (TaskState::Sleeping, "futex_do_wait", futex(0x189, 3)),
            "file-lock" => (TaskState::Sleeping, "locks_lock_inode_wait", None),
            "kernel-lock" => (TaskState::Blocked, "rwsem_down_write_slowpath", queue.call.map(call)),
            "storage" => (TaskState::Blocked, "folio_wait_bit_common", queue.call.map(call)),
            other => panic!("no kind of queue {other}"),
        };
        let wchan = Some(Name::from(queue.channel.as_deref().unwrap_or(wchan)));
        waits.observed.push(ObservedWait {
            id,
            state,
            wchan,
            syscall,
            has_timeout: queue.kind.starts_with("timed-"),
            is_behind_named_owner: matches!(queue.kind.as_str(), "timed-mutex" | "rw-lock"),
            java_lock: match queue.kind.as_str() {
                "java-monitor" => Some(JavaLockKind::Monitor),
                "java-util-concurrent" => Some(JavaLockKind::Synchronizer),
                _ => None,
            },
            wait_event: queue.event.map(WaitEvent),
        });
        let at_one = u32::from(queue.at_one);
        let seen_count = if at_one > 0 { at_one } else { u32::from(queue.threads) } * SUB_SAMPLES;
        waits.wait_queues.push(WaitQueue {
            futex_address: (at_one > 0).then_some(0x1000),
            file: queue.file.as_deref().map(Name::from),
            lock_holder: queue.holder,
            ..synthetic::waits::queue(group_index(process, &waits.groups), id, seen_count)
        });
    }
}
