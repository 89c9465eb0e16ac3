//! What sub-samples saw, in strange samples.

use stalltop::ids::GroupId;
use stalltop::sample::task::TaskState;
use stalltop::sample::waits::{
    BlockedWait, CoreDump, GroupWait, IpcHolder, IpcWaiter, JavaLock, JavaLockKind, KernelLockOwner, LockOwner, ObservedWait,
    OwnerField, OwnerPeer, PipeLink, ServerSocket, SocketWaiter, SubSample, ThreadWait, TracedProcess, UnreadServer, WaitEvent,
    WaitQueue, Waits, WakerChecks,
};

use super::dice::Dice;
use super::strange_host::{cpu_times, disk_id};
use super::strange_network::socket_address;
use super::strange_tasks::{call, process_id, task};

pub fn waits(d: &mut Dice) -> Waits {
    Waits {
        sub_samples: d.list(4, |d| SubSample {
            boottime_ns: d.u64(),
            cpu: d.maybe(cpu_times),
            in_flight: d.maybe(Dice::u32),
            waits: d.list(3, group_wait),
        }),
        groups: d.list(4, group),
        observed: d.list(4, |d| ObservedWait {
            id: d.u32(),
            state: TaskState::from_stat_char(b"RSDITtZX?"[d.below(9) as usize]),
            wchan: d.maybe(Dice::name),
            syscall: d.maybe(call),
            has_timeout: d.bool(),
            is_behind_named_owner: d.bool(),
            java_lock: d.maybe(java_lock_kind),
            wait_event: d.maybe(|d| WaitEvent(d.u32())),
        }),
        threads: d.list(4, |d| ThreadWait { task: task(d), wait: d.u32(), group: d.u16(), seen_count: d.u16() }),
        ipc_waiters: d.list(2, |d| IpcWaiter { task: task(d), group: d.u16(), peer: d.u16() }),
        ipc_holders: d.list(2, |d| IpcHolder { group: d.u16(), peer: d.u16(), pid: d.u32() }),
        blocked: d.list(4, blocked_wait),
        wait_queues: d.list(4, |d| WaitQueue {
            group: d.u16(),
            wait: d.u32(),
            futex_address: d.maybe(Dice::u64),
            seen_count: d.u32(),
            file: d.maybe(Dice::name),
            lock_holder: d.maybe(Dice::u32),
        }),
        lock_owners: d.list(3, |d| LockOwner {
            group: d.u16(),
            futex_address: d.u64(),
            is_shared: d.bool(),
            field: match d.u32() % 7 {
                0 => OwnerField::GlibcMutex,
                1 => OwnerField::FutexWord,
                2 => OwnerField::PostgresLog,
                3 => OwnerField::JavaMonitor,
                4 => OwnerField::JavaSynchronizer,
                5 => OwnerField::GlibcWriter,
                _ => OwnerField::Waker(WakerChecks { made: d.u32() % 65, confirmed: d.u32() % 65 }),
            },
            waiters: d.u32(),
            owner: blocked_wait(d),
            kernel_lock: d.maybe(Dice::u32),
            timed_waiters: d.u32(),
            awaited_java_lock: d.maybe(|d| JavaLock { address: d.u64(), kind: java_lock_kind(d) }),
        }),
        kernel_lock_owners: d.list(3, |d| KernelLockOwner {
            group: d.u16(),
            lock: d.u32(),
            field: if d.bool() { OwnerField::KernelMutex } else { OwnerField::KernelReader },
            waiters: d.u32(),
            waits_for: d.maybe(Dice::u32),
            owner: blocked_wait(d),
        }),
        kernel_lock_readings: d.u32(),
        owner_peers: d.list(2, |d| OwnerPeer { owner: task(d), peer: d.u32(), is_pipe: d.bool(), may_answer: d.bool() }),
        peer_waits: d.list(2, blocked_wait),
        socket_waiters: d.list(2, |d| SocketWaiter {
            task: task(d),
            group: d.u16(),
            remote: socket_address(d),
            local_port_listens: d.bool(),
            last_data_sent_ms: d.u32(),
            last_data_received_ms: d.u32(),
        }),
        traced: d.list(2, |d| TracedProcess { pid: d.u32(), tracer: d.u32() }),
        core_dumps: d.list(2, |d| CoreDump { pid: d.u32() }),
        pipe_links: d.list(2, |d| PipeLink { writer: d.u32(), reader: d.u32(), is_full: d.bool() }),
        server_sockets: d.list(2, |d| ServerSocket {
            group: d.u16(),
            pid: d.u32(),
            local_port: d.maybe(Dice::u16),
            accept_queue: d.u32(),
            unread_bytes: d.u32(),
            last_data_sent_ms: d.maybe(Dice::u32),
            last_data_received_ms: d.maybe(Dice::u32),
            data_segments_in: d.maybe(Dice::u32),
            data_segments_out: d.maybe(Dice::u32),
        }),
        unread_servers: d.list(2, |d| UnreadServer { group: d.u16(), reason: d.absent() }),
        skipped_sub_samples: d.u32(),
    }
}

fn blocked_wait(d: &mut Dice) -> BlockedWait {
    BlockedWait {
        task: task(d),
        group: d.u16(),
        comm: d.name(),
        state: TaskState::Blocked,
        wchan: d.maybe(Dice::name),
        syscall: d.maybe(call),
        seen_count: d.u16(),
        last_sub_sample: d.u16(),
        blocked_since_ns: d.u64(),
        file: d.maybe(Dice::name),
        disk: d.maybe(disk_id),
        mount: d.maybe(Dice::name),
        file_system: d.maybe(Dice::name),
        has_timeout: d.bool(),
    }
}

fn group(d: &mut Dice) -> GroupId {
    match d.bool() {
        true => GroupId::Process(process_id(d)),
        false => GroupId::Siblings { parent: d.u32(), executable: d.name() },
    }
}

fn group_wait(d: &mut Dice) -> GroupWait {
    GroupWait { group: d.u16(), wait: d.u32(), active: d.bool(), threads: d.u16(), at_shared_address: d.u16() }
}

fn java_lock_kind(d: &mut Dice) -> JavaLockKind {
    if d.bool() { JavaLockKind::Monitor } else { JavaLockKind::Synchronizer }
}
