//! Owners of the locks of a scenario, what they do themselves, and threads that wait for a remote host.

use stalltop::ids::TaskId;
use stalltop::sample::Name;
use stalltop::sample::task::{RawSyscall, TaskState};
use stalltop::sample::waits::{
    BlockedWait, JavaLock, JavaLockKind, KernelLockOwner, LockOwner, OwnerField, OwnerPeer, SocketWaiter, ThreadWait,
    WaitClass, Waits,
};

use super::SUB_SAMPLES;
use super::devices::disk_id;
use super::tasks::group_index;
use crate::format::{self, Phase};
use crate::synthetic;

/// The number of futex(2) on x86_64
const FUTEX: i64 = 202;

pub(super) fn add_owners(phase: &Phase, waits: &mut Waits) {
    for (process, owner) in phase.process.iter().flat_map(|process| process.owner.iter().map(move |owner| (process, owner))) {
        let group = group_index(process, &waits.groups);
        let seen = owner.sub_samples.map_or(SUB_SAMPLES, u32::from);
        let task = synthetic::task_id(owner.pid.unwrap_or(process.pid), owner.tid);
        let futex_of_owner = owner.waits_for.filter(|_| owner.field.is_none());
        let wait = BlockedWait {
            group,
            state: TaskState::from_stat_char(owner.state.as_bytes()[0]),
            wchan: owner.channel.as_deref().map(Name::from),
            syscall: syscall(futex_of_owner, owner.call),
            seen_count: seen as u16,
            last_sub_sample: SUB_SAMPLES as u16 - 1,
            has_timeout: owner.timeout,
            disk: owner.disk.as_deref().map(|name| disk_id(phase, name)),
            ..synthetic::waits::blocked(task, owner.name.as_deref().unwrap_or(process.name.as_str()))
        };
        if let Some(remote) = &owner.remote {
            let waiter = socket_waiter(task, group, remote);
            let last_data_received_ms = if owner.answered { 50 } else { 200 };
            waits.socket_waiters.push(SocketWaiter { last_data_received_ms, ..waiter });
        }
        if let Some(peer) = &owner.peer {
            add_peer(phase, waits, (task, group), peer);
        }
        let waiters = owner.waiters * seen;
        let is_postgres = owner.field.as_deref() == Some("postgres");
        let java_lock = match owner.field.as_deref() {
            Some("java") => Some(JavaLockKind::Monitor),
            Some("java-util-concurrent") => Some(JavaLockKind::Synchronizer),
            _ => None,
        };
        let is_rw_lock = owner.field.as_deref() == Some("rw-lock");
        let is_of_kernel = !is_postgres && !is_rw_lock && java_lock.is_none();
        let Some(field) = owner.field.as_ref().filter(|_| is_of_kernel) else {
            waits.lock_owners.push(LockOwner {
                group,
                futex_address: owner.lock,
                is_shared: is_postgres,
                field: match java_lock {
                    Some(JavaLockKind::Monitor) => OwnerField::JavaMonitor,
                    Some(JavaLockKind::Synchronizer) => OwnerField::JavaSynchronizer,
                    None if is_postgres => OwnerField::PostgresLog,
                    None if is_rw_lock => OwnerField::GlibcWriter,
                    None => OwnerField::GlibcMutex,
                },
                waiters,
                owner: wait,
                kernel_lock: owner.kernel_lock,
                timed_waiters: owner.timed_waiters * seen,
                awaited_java_lock: owner.waits_for.and_then(|address| Some(JavaLock { address, kind: java_lock? })),
            });
            continue;
        };
        waits.kernel_lock_readings = SUB_SAMPLES;
        waits.kernel_lock_owners.push(KernelLockOwner {
            group,
            lock: owner.lock as u32,
            field: match field.as_str() {
                "mutex" => OwnerField::KernelMutex,
                "semaphore" => OwnerField::KernelSemaphore,
                "writer" => OwnerField::KernelWriter,
                "reader" => OwnerField::KernelReader,
                other => panic!("no owner field {other}"),
            },
            waiters,
            waits_for: owner.waits_for.map(|lock| lock as u32),
            owner: wait,
        });
    }
}

/// The process for which a thread waits, and what its only thread does.
fn add_peer(phase: &Phase, waits: &mut Waits, (waiter, group): (TaskId, u16), peer: &format::OwnerPeer) {
    let row = OwnerPeer { owner: waiter, peer: peer.pid, is_pipe: peer.pipe, may_answer: !peer.only_sends };
    waits.owner_peers.push(row);
    add_peer_wait(phase, waits, group, peer);
}

/// What the only thread of such a process does; once for each process.
fn add_peer_wait(phase: &Phase, waits: &mut Waits, group: u16, peer: &format::OwnerPeer) {
    let task = synthetic::task_id(peer.pid, peer.pid);
    if waits.peer_waits.iter().any(|known| known.task == task) {
        return;
    }
    let process = phase.process.iter().find(|process| process.pid == peer.pid);
    let comm = process.map_or_else(Name::default, |process| Name::from(process.name.as_str()));
    waits.peer_waits.push(BlockedWait {
        group,
        state: TaskState::from_stat_char(peer.state.as_bytes()[0]),
        wchan: peer.channel.as_deref().map(Name::from),
        syscall: syscall(peer.waits_for, peer.call),
        disk: peer.disk.as_deref().map(|name| disk_id(phase, name)),
        file: peer.file.as_deref().map(Name::from),
        ..synthetic::waits::blocked(task, comm)
    });
    if let Some(remote) = &peer.remote {
        let (last_data_sent_ms, last_data_received_ms) = (peer.sent_ms, peer.sent_ms + 100);
        let waiter = socket_waiter(task, group, remote);
        waits.socket_waiters.push(SocketWaiter { last_data_sent_ms, last_data_received_ms, ..waiter });
    }
    if let Some(next) = &peer.peer {
        add_peer(phase, waits, (task, group), next);
    }
}

/// The call of a thread that waits for a futex lock at this address, or else the call with this number.
fn syscall(lock: Option<u64>, number: Option<i64>) -> Option<RawSyscall> {
    let futex = lock.map(|lock| RawSyscall { number: FUTEX, arguments: [lock, 0x80, 2] });
    futex.or(number.map(|number| RawSyscall { number, arguments: [0; 3] }))
}

/// Threads that wait for the answer of a remote host, or of a process of this host over Unix sockets.
pub(super) fn add_socket_waiters(phase: &Phase, waits: &mut Waits) {
    for process in &phase.process {
        for queue in process.queue.iter().filter(|queue| ["remote", "unix"].contains(&queue.kind.as_str())) {
            let group = group_index(process, &waits.groups);
            for at in 0..queue.threads {
                assert_eq!(queue.at_one, queue.threads, "one remote host");
                let task = synthetic::task_id(process.pid, 60_000 + u32::from(at));
                if queue.kind == "unix" {
                    waits.threads.push(ThreadWait { task, wait: synthetic::waits::UNIX_SOCKET, group, seen_count: 10 });
                } else {
                    let remote = queue.file.as_deref().expect("address and port of the remote host");
                    waits.threads.extend(synthetic::waits::thread(task, group, &[(WaitClass::Net, 10)]));
                    waits.socket_waiters.push(socket_waiter(task, group, remote));
                }
                // Two threads stand for a group.
                if let Some(peer) = queue.peer.as_ref().filter(|_| at < 2) {
                    add_peer(phase, waits, (task, group), peer);
                }
            }
        }
    }
    for peer in phase.waiting.iter().filter_map(|waiting| waiting.peer.as_ref()) {
        add_peer_wait(phase, waits, 0, peer);
    }
    waits.threads.sort_by_key(|thread| (thread.task, thread.wait));
    waits.socket_waiters.sort_by_key(|waiter| waiter.task);
    waits.owner_peers.sort_by_key(|peer| peer.owner);
    waits.peer_waits.sort_by_key(|wait| wait.task);
}

/// A thread of a client that sent its request 100 ms ago, and has received nothing for 200 ms.
fn socket_waiter(task: TaskId, group: u16, remote: &str) -> SocketWaiter {
    let remote = remote.parse().expect("address and port of the remote host");
    SocketWaiter { task, group, remote, local_port_listens: false, last_data_sent_ms: 100, last_data_received_ms: 200 }
}
