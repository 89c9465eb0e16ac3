//! Tasks of strange samples, those that exited, and what names a task.

use std::sync::Arc;

use stalltop::ids::{ProcessId, TaskId};
use stalltop::sample::cgroup::Memberships;
use stalltop::sample::delays::{Delay, TaskDelays};
use stalltop::sample::exits::{ExitCpuTime, ExitedTasks};
use stalltop::sample::task::{
    ChildrenCpuTime, Process, ProcessFacts, RawSyscall, Schedstat, Scheduling, TaskIo, TaskState, Thread, WaitState,
};

use super::dice::Dice;
use super::strange_host::cgroup_id;

pub fn strange_process(d: &mut Dice) -> Process {
    let mut threads = d.list(4, |d| Thread {
        tid: d.u32(),
        start_ticks: d.u64(),
        comm: d.name(),
        state: TaskState::from_stat_char(b"RSDITtZXP"[d.below(9) as usize]),
        processor: d.u32(),
        user_ticks: d.counter(),
        system_ticks: d.counter(),
        minor_faults: d.counter(),
        major_faults: d.counter(),
        block_io_delay_ticks: d.counter(),
        guest_ticks: d.counter(),
        background: d.bool(),
        schedstat: d.maybe(|d| Schedstat { run_ns: d.counter(), run_delay_ns: d.counter(), timeslices: d.counter() }),
        last_timeslice_ns: d.maybe(Dice::u64),
        wait: WaitState { wchan: d.reading(Dice::name), syscall: d.reading(|d| call(d).into()) },
        cpus_allowed_list: d.maybe(Dice::name),
        scheduling: d.maybe(|d| Scheduling {
            policy: d.below(256) as u8,
            nice: (d.below(256) as u8).cast_signed(),
            rt_priority: d.below(100) as u8,
        }),
    });
    // The kernel lists them in order, but nothing here may depend on that.
    if d.bool() {
        threads.sort_by_key(|thread| thread.tid);
    }
    Process {
        pid: d.below(12) as u32,
        start_ticks: d.u64(),
        ppid: d.u32(),
        uid: d.u32(),
        comm: d.name(),
        kernel_thread: d.bool(),
        facts: Arc::new(ProcessFacts {
            cmdline: d.reading(Dice::name),
            executable: d.reading(Dice::name),
            cgroup: d.reading(cgroup_id),
            memberships: d.maybe(memberships).map(Arc::new),
        }),
        user_ticks: d.counter(),
        system_ticks: d.counter(),
        guest_ticks: d.counter(),
        children_cpu: d.maybe(ended),
        cpu_ns: d.maybe(Dice::counter),
        minor_faults: d.counter(),
        major_faults: d.counter(),
        resident_pages: d.u64(),
        virtual_bytes: d.maybe(Dice::u64),
        shared_pages: d.maybe(Dice::u64),
        io: d.reading(|d| TaskIo {
            read_bytes: d.counter(),
            write_bytes: d.counter(),
            cancelled_write_bytes: d.counter(),
            read_syscalls: d.counter(),
            write_syscalls: d.counter(),
        }),
        threads: threads.into(),
    }
}

pub fn task_delays(d: &mut Dice) -> TaskDelays {
    let delay = |d: &mut Dice| Delay { count: d.counter(), total_ns: d.counter() };
    TaskDelays {
        task: task(d),
        block_io: delay(d),
        swap_in: delay(d),
        reclaim: d.maybe(delay),
        thrashing: d.maybe(delay),
        compaction: d.maybe(delay),
        write_protect_copy: d.maybe(delay),
        irq: d.maybe(delay),
    }
}

fn memberships(d: &mut Dice) -> Memberships {
    Memberships { memory: d.maybe(cgroup_id), io: d.maybe(cgroup_id), cpuset: d.maybe(cgroup_id), pids: d.maybe(cgroup_id) }
}

pub fn exited(d: &mut Dice) -> ExitedTasks {
    ExitedTasks {
        owner: d.maybe(process_id),
        owner_name: d.name(),
        name: d.name(),
        are_threads: d.bool(),
        count: d.u32(),
        cpu: used(d),
    }
}

pub fn used(d: &mut Dice) -> ExitCpuTime {
    ExitCpuTime { run_ns: d.u64(), tick_ns: d.u64() }
}

fn ended(d: &mut Dice) -> ChildrenCpuTime {
    ChildrenCpuTime { user_ticks: d.counter(), system_ticks: d.counter() }
}

pub fn call(d: &mut Dice) -> RawSyscall {
    RawSyscall { number: i64::from_ne_bytes(d.u64().to_ne_bytes()), arguments: [d.u64(), d.u64(), d.u64()] }
}

pub fn process_id(d: &mut Dice) -> ProcessId {
    ProcessId { pid: d.u32(), start_ticks: d.u64() }
}

pub fn task(d: &mut Dice) -> TaskId {
    TaskId { pid: d.u32(), tid: d.u32(), start_ticks: d.u64() }
}
