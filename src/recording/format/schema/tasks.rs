//! Columns of tasks, and of their waits in the sub-samples.

use std::sync::Arc;

use crate::ids::{GroupId, ProcessId, TaskId};
#[cfg(test)]
use crate::recording::format::columns::Described;
use crate::recording::format::columns::{Columns, columns, read_at, write_at};
use crate::recording::format::names::{Interner, Names};
use crate::recording::format::wire::Malformed;
use crate::sample::delays::{Delay, TaskDelays};
use crate::sample::exits::{ExitCpuTime, ExitedTasks, Exits, UnlistedExits};
use crate::sample::stacks::{ThreadStack, UserStack};
use crate::sample::task::{
    ChildrenCpuTime, HiddenTasks, Process, ProcessFacts, RawSyscall, ReadTime, RunTime, Schedstat, Scheduling, TaskIo,
    TaskState, Tasks, Thread, WaitState,
};
use crate::sample::waits::{
    BlockedWait, CoreDump, GroupWait, IpcHolder, IpcWaiter, JavaLock, JavaLockKind, KernelLockOwner, LockOwner, ObservedWait,
    OwnerField, OwnerPeer, PipeLink, ServerSocket, SocketWaiter, SubSample, ThreadWait, TracedProcess, UnreadServer, WaitQueue,
    Waits, WakerChecks,
};

columns! { Tasks: 15 { hidden, users, processes, read_times, run_times } }
columns! { RunTime: 8 { task, run_ns, cpu } }
columns! { ReadTime: 4 { pid, boottime_ns } }

// The counters that threads count too are stored less the sum over the threads: see `subtract_thread_counts`.
columns! { Process: 48 {
    pid,
    start_ticks,
    ppid,
    uid,
    comm,
    facts,
    kernel_thread,
    threads,
    user_ticks,
    system_ticks,
    cpu_ns,
    minor_faults,
    major_faults,
    resident_pages,
    io,
    children_cpu,
    guest_ticks,
    virtual_bytes,
    shared_pages,
} }

columns! { ProcessFacts: 12 { cmdline, executable, cgroup, memberships } }

/// Facts that the decoder knows to be unchanged are not built again.
impl Columns for Arc<ProcessFacts> {
    const WIDTH: usize = ProcessFacts::WIDTH;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        ProcessFacts::write(self, row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match names.facts.take_process_facts() {
            Some(unchanged) => Ok(unchanged),
            None => ProcessFacts::read(row, names).map(Arc::new),
        }
    }

    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        ProcessFacts::describe(path, at, list);
    }
}

/// The number of threads. Their rows are a table of their own.
impl Columns for Arc<[Thread]> {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        (self.len() as u64).write(row, names);
    }

    fn read(_: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        Ok(names.facts.take_threads().unwrap_or_default())
    }
}

/// The columns of a process that hold its facts.
pub const FACTS: std::ops::Range<usize> = 5..17;
/// The column of a process that holds the number of its threads.
pub const THREAD_COUNT: usize = 18;

/// Takes from the counters of a process what its own threads count: what remains is that of threads that ended, and mostly 0.
pub fn subtract_thread_counts(process: &mut Process) {
    apply_thread_counts(process, u64::wrapping_sub);
}

/// The inverse of `subtract_thread_counts`.
pub fn add_thread_counts(process: &mut Process) {
    apply_thread_counts(process, u64::wrapping_add);
}

fn apply_thread_counts(process: &mut Process, apply: fn(u64, u64) -> u64) {
    let Process { threads, user_ticks, system_ticks, minor_faults, major_faults, cpu_ns, .. } = process;
    for thread in threads.iter() {
        user_ticks.0 = apply(user_ticks.0, thread.user_ticks.0);
        system_ticks.0 = apply(system_ticks.0, thread.system_ticks.0);
        minor_faults.0 = apply(minor_faults.0, thread.minor_faults.0);
        major_faults.0 = apply(major_faults.0, thread.major_faults.0);
        if let (Some(total), Some(schedstat)) = (cpu_ns.as_mut(), thread.schedstat) {
            total.0 = apply(total.0, schedstat.run_ns.0);
        }
    }
}

columns! { ChildrenCpuTime: 2 { user_ticks, system_ticks } }

// In the table of threads the pid is column 0, so that each of these is one further to the right there.
columns! { Thread: 32 {
    tid,
    start_ticks,
    comm,
    state,
    processor,
    wait,
    user_ticks,
    system_ticks,
    minor_faults,
    major_faults,
    block_io_delay_ticks,
    schedstat,
    last_timeslice_ns,
    cpus_allowed_list,
    guest_ticks,
    background,
    scheduling,
} }
columns! { WaitState: 8 { wchan, syscall } }
columns! { RawSyscall: 4 { number, arguments } }

impl Columns for Arc<RawSyscall> {
    const WIDTH: usize = RawSyscall::WIDTH;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        RawSyscall::write(self, row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        RawSyscall::read(row, names).map(Arc::new)
    }

    #[cfg(test)]
    fn describe(path: &str, at: usize, list: &mut Vec<Described>) {
        RawSyscall::describe(path, at, list);
    }
}

columns! { Scheduling: 3 { policy, nice, rt_priority } }
columns! { Schedstat: 3 { run_ns, run_delay_ns, timeslices } }
columns! { TaskIo: 7 { read_bytes, write_bytes, cancelled_write_bytes, read_syscalls, write_syscalls } }
// Keys first: three columns of identity, then the names.
columns! { ExitedTasks: 16 { owner, owner_name, name, are_threads, count, cpu } }
columns! { UnlistedExits: 8 { processes, cpu, threads } }
columns! { ExitCpuTime: 2 { run_ns, tick_ns } }
columns! { Exits: 15 { unlisted, previously_sampled, lost_messages, rows } }
columns! { HiddenTasks: 6 { wait_channels, schedstats, processes } }
columns! { TaskId: 3 { pid, tid, start_ticks } }

columns! { TaskDelays: 24 {
    task,
    block_io,
    swap_in,
    reclaim,
    thrashing,
    compaction,
    write_protect_copy,
    irq,
} }
columns! { Delay: 2 { count, total_ns } }

columns! { Waits: 4 {
    skipped_sub_samples,
    sub_samples,
    groups,
    observed,
    threads,
    blocked,
    wait_queues,
    ipc_waiters,
    ipc_holders,
    socket_waiters,
    server_sockets,
    pipe_links,
    unread_servers,
    lock_owners,
    kernel_lock_owners,
    kernel_lock_readings,
    traced,
    core_dumps,
    owner_peers,
    peer_waits,
} }

columns! { ObservedWait: 15 { id, state, wchan, syscall, has_timeout, is_behind_named_owner, wait_event, java_lock } }
columns! { GroupWait: 6 { group, wait, active, threads, at_shared_address } }
columns! { ThreadWait: 8 { task, wait, group, seen_count } }
columns! { IpcWaiter: 6 { task, group, peer } }
columns! { IpcHolder: 4 { group, peer, pid } }
columns! { BlockedWait: 32 {
    task,
    group,
    comm,
    state,
    wchan,
    syscall,
    seen_count,
    last_sub_sample,
    blocked_since_ns,
    file,
    disk,
    mount,
    file_system,
    has_timeout,
} }
columns! { WaitQueue: 12 { group, wait, futex_address, seen_count, file, lock_holder } }
columns! { LockOwner: 43 { group, futex_address, field, waiters, owner, kernel_lock, is_shared, timed_waiters, awaited_java_lock } }
columns! { JavaLock: 2 { address, kind } }
columns! { KernelLockOwner: 44 { group, lock, field, waiters, waits_for, owner } }
columns! { ThreadStack: 12 { task, kernel } }
columns! { UserStack: 12 { task, functions } }
columns! { OwnerPeer: 8 { owner, peer, is_pipe, may_answer } }
columns! { PipeLink: 4 { writer, reader, is_full } }
columns! { TracedProcess: 4 { pid, tracer } }
columns! { CoreDump: 2 { pid } }
columns! { UnreadServer: 3 { group, reason } }
columns! { ServerSocket: 20 {
    group,
    pid,
    local_port,
    accept_queue,
    unread_bytes,
    last_data_sent_ms,
    last_data_received_ms,
    data_segments_in,
    data_segments_out,
} }
columns! { SocketWaiter: 16 { task, group, remote, local_port_listens, last_data_sent_ms, last_data_received_ms } }

columns! { SubSample: 24 { boottime_ns, in_flight, cpu, waits } }

/// Kind (0 process, 1 siblings), pid or parent, start time, executable.
impl Columns for GroupId {
    const WIDTH: usize = 4;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        match self {
            GroupId::Process(process) => write_at(process, row, 1, names),
            GroupId::Siblings { parent, executable } => {
                write_at(&1u64, row, 0, names);
                write_at(parent, row, 1, names);
                write_at(executable, row, 3, names);
            }
        }
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        match read_at::<u64>(row, 0, names)? {
            0 => read_at::<ProcessId>(row, 1, names).map(GroupId::Process),
            1 => Ok(GroupId::Siblings { parent: read_at(row, 1, names)?, executable: read_at(row, 3, names)? }),
            _ => Err(Malformed("a group is neither a process nor siblings")),
        }
    }
}

macro_rules! numbered {
    ($type:ty, otherwise $otherwise:expr, { $($variant:path = $number:literal),* $(,)? }) => {
        impl Columns for $type {
            const WIDTH: usize = 1;

            fn write(&self, row: &mut [u64], names: &mut Interner) {
                let number: u64 = match self { $( $variant => $number ),* };
                number.write(row, names);
            }

            fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
                Ok(match u64::read(row, names)? { $( $number => $variant, )* _ => $otherwise })
            }
        }
    };
}

/// Kind, and of `Waker` the checks, in one number: the kind in the lowest 8 bits.
impl Columns for OwnerField {
    const WIDTH: usize = 1;

    fn write(&self, row: &mut [u64], names: &mut Interner) {
        let number: u64 = match *self {
            OwnerField::GlibcMutex => 0,
            OwnerField::FutexWord => 1,
            OwnerField::KernelMutex => 2,
            OwnerField::KernelSemaphore => 3,
            OwnerField::KernelWriter => 4,
            OwnerField::KernelReader => 5,
            OwnerField::PostgresLog => 7,
            OwnerField::JavaMonitor => 8,
            OwnerField::JavaSynchronizer => 9,
            OwnerField::GlibcWriter => 10,
            OwnerField::Waker(WakerChecks { made, confirmed }) => {
                WAKER | u64::from(made.min(MAX_CHECKS)) << 8 | u64::from(confirmed.min(MAX_CHECKS)) << 32
            }
        };
        number.write(row, names);
    }

    fn read(row: &[u64], names: &Names<'_>) -> Result<Self, Malformed> {
        let number = u64::read(row, names)?;
        let checks = |shift: u32| u32::try_from(number >> shift & u64::from(MAX_CHECKS)).unwrap_or(0);
        Ok(match number & 0xff {
            1 => OwnerField::FutexWord,
            2 => OwnerField::KernelMutex,
            3 => OwnerField::KernelSemaphore,
            4 => OwnerField::KernelWriter,
            5 => OwnerField::KernelReader,
            7 => OwnerField::PostgresLog,
            8 => OwnerField::JavaMonitor,
            9 => OwnerField::JavaSynchronizer,
            10 => OwnerField::GlibcWriter,
            WAKER => OwnerField::Waker(WakerChecks { made: checks(8), confirmed: checks(32) }),
            0 => OwnerField::GlibcMutex,
            // Of a later version: it is not believed.
            _ => OwnerField::Waker(WakerChecks::default()),
        })
    }
}

const WAKER: u64 = 6;
const MAX_CHECKS: u32 = 0xff_ffff;

numbered! { JavaLockKind, otherwise JavaLockKind::Synchronizer, {
    JavaLockKind::Monitor = 0,
    JavaLockKind::Synchronizer = 1,
} }
numbered! { TaskState, otherwise TaskState::Other, {
    TaskState::Sleeping = 0,
    TaskState::Running = 1,
    TaskState::Blocked = 2,
    TaskState::Idle = 3,
    TaskState::Stopped = 4,
    TaskState::Traced = 5,
    TaskState::Zombie = 6,
    TaskState::Dead = 7,
    TaskState::Other = 8,
} }
