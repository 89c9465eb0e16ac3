//! Processes of a machine of the frames: what their threads do in each second, their stacks, and what sub-samples see.

use std::sync::Arc;

use stalltop::ids::{GroupId, ProcessId, TaskId};
use stalltop::interval::wait_counts::GroupWaits;
use stalltop::sample::stacks::{ThreadStack, UserStack};
use stalltop::sample::task::{ProcessFacts, RawSyscall, TaskState, WaitState};
use stalltop::sample::waits::{BlockedWait, SubSample, WaitClass, WaitQueue, Waits};
use stalltop::sample::{Absent, Instant, Name, Reading};

use super::super::synthetic::{self, ProcessBuilder, ThreadBuilder};
use super::{Device, Machine, UPTIME_S};

#[derive(Clone, PartialEq)]
pub struct Worker {
    pub pid: u32,
    pub comm: &'static [u8],
    pub cmdline: &'static [u8],
    pub threads: Vec<Thread>,
}

#[derive(Clone, PartialEq)]
pub struct Thread {
    pub user_ms: u64,
    pub delay_ms: u64,
    pub state: TaskState,
    pub channel: &'static [u8],
    pub call: i64,
    pub class: WaitClass,
    pub processor: u32,
}

pub const SLEEPER: Thread = Thread {
    user_ms: 0,
    delay_ms: 0,
    state: TaskState::Sleeping,
    channel: b"do_epoll_wait",
    call: 232,
    class: WaitClass::Poll,
    processor: 0,
};

pub const RUNNER: Thread = Thread {
    user_ms: 1000,
    delay_ms: 0,
    state: TaskState::Running,
    channel: b"",
    call: -1,
    class: WaitClass::Running,
    processor: 1,
};

impl Worker {
    pub fn task(&self, thread: usize) -> TaskId {
        let tid = self.pid + u32::try_from(thread).unwrap();
        TaskId { pid: self.pid, tid, start_ticks: 100 }
    }

    pub(super) fn at(&self, k: u64, at: Instant, privileged: bool) -> ProcessBuilder {
        let used: u64 = self.threads.iter().map(|thread| thread.user_ms).sum();
        let threads = self.threads.iter().zip(self.pid..).map(|(thread, tid)| thread.at(tid, self.comm, k, at, privileged));
        synthetic::process(self.pid, self.comm)
            .started(100)
            .ran(used * k * 1_000_000)
            .facts(ProcessFacts {
                cmdline: Ok(Name::from(self.cmdline)),
                executable: Ok(Name::from("/usr/bin/worker")),
                cgroup: Err(Absent::NoSuchFile),
                ..ProcessFacts::default()
            })
            .threads(threads)
            .with(|process| (process.uid, process.resident_pages) = (26, 4200))
    }
}

impl Thread {
    pub(super) fn at(&self, tid: u32, comm: &[u8], k: u64, at: Instant, privileged: bool) -> ThreadBuilder {
        let moves = self.class != WaitClass::Poll;
        let timeslices = if moves { 20 * k } else { 7 };
        let thread = synthetic::thread(tid, comm).started(100).state(self.state);
        thread.ran(self.user_ms * k * 1_000_000, self.delay_ms * k * 1_000_000, timeslices).with(|thread| {
            thread.processor = self.processor;
            thread.last_timeslice_ns = moves.then_some(at.boottime_ns);
            thread.wait = WaitState {
                wchan: match (self.state, privileged) {
                    (TaskState::Running, _) => Err(Absent::Vanished),
                    (_, false) => Err(Absent::Hidden),
                    (_, true) => Ok(Name::from(self.channel)),
                },
                syscall: if privileged {
                    Ok(Arc::new(RawSyscall { number: self.call, arguments: [0x1000, 0x80, 2] }))
                } else {
                    Err(Absent::NoPermission)
                },
            };
        })
    }
}

impl Machine {
    /// Threads in fsync have their stack.
    pub(super) fn stacks(&self) -> Reading<Vec<ThreadStack>> {
        if !self.privileged {
            return Err(Absent::NoPermission);
        }
        let stack = Name::from(
            "jbd2_log_wait_commit [jbd2]\next4_fsync_journal [ext4]\next4_sync_file [ext4]\ndo_fsync\n__x64_sys_fdatasync\n\
             do_syscall_64\nentry_SYSCALL_64_after_hwframe",
        );
        Ok(self.tasks_in_fsync().map(|task| ThreadStack { task, kernel: Ok(stack.clone()) }).collect())
    }

    pub(super) fn user_stacks(&self) -> Vec<UserStack> {
        let stack = Name::from(
            "fdatasync [libc.so.6]\nissue_xlog_fsync\nXLogWrite\nXLogFlush\nRecordTransactionCommit\nCommitTransaction\nPostgresMain\n\
             main\n__libc_start_main [libc.so.6]\n_start",
        );
        let functions = if self.privileged { Ok(stack) } else { Err(Absent::NoPermission) };
        self.tasks_in_fsync().map(|task| UserStack { task, functions: functions.clone() }).collect()
    }

    fn tasks_in_fsync(&self) -> impl Iterator<Item = TaskId> {
        self.workers.iter().flat_map(|worker| {
            let places = worker.threads.iter().enumerate().filter(|(_, thread)| thread.channel == b"jbd2_log_wait_commit");
            places.map(|(at, _)| worker.task(at))
        })
    }

    pub(super) fn waits(&self, k: u64) -> Waits {
        let Some(worker) = self.workers.first() else { return Waits::default() };
        let group = GroupId::Process(ProcessId { pid: worker.pid, start_ticks: 100 });
        let (storage, behind) = self.stuck;
        let sub_samples = (1..=10)
            .map(|tenth| {
                let seconds = (k.saturating_sub(1)) as f64 + f64::from(tenth) / 10.0;
                let mut waits = synthetic::waits::group(&GroupWaits { storage, ..GroupWaits::default() });
                waits.extend((behind > 0).then(|| synthetic::waits::mutex(0, behind)));
                SubSample {
                    boottime_ns: ((UPTIME_S as f64 + seconds) * 1e9) as u64,
                    cpu: Some(self.cpu(seconds).total),
                    in_flight: Some(self.devices.iter().map(|device| device.in_flight).sum()),
                    waits,
                }
            })
            .collect();
        let task = |thread: usize| worker.task(thread);
        let threads = (worker.threads.iter().enumerate())
            .filter(|(_, thread)| thread.class != WaitClass::Poll)
            .flat_map(|(at, thread)| synthetic::waits::thread(task(at), 0, &[(thread.class, 10)]))
            .collect();
        let blocked = (worker.threads.iter().enumerate())
            .filter(|(_, thread)| thread.state == TaskState::Blocked)
            .map(|(at, thread)| BlockedWait {
                wchan: self.privileged.then(|| Name::from(thread.channel)),
                syscall: self.privileged.then_some(RawSyscall { number: thread.call, arguments: [3, 0, 0] }),
                blocked_since_ns: (UPTIME_S + k) * 1_000_000_000 - 40_000_000,
                file: self.privileged.then(|| Name::from("/var/lib/pg/pg_wal/000000010000000A")),
                disk: self.privileged.then(|| self.devices.first().map(Device::id)).flatten(),
                mount: self.privileged.then(|| Name::from("/var/lib/pg")),
                file_system: self.privileged.then(|| Name::from("ext4")),
                ..synthetic::waits::blocked(task(at), worker.comm)
            })
            .collect();
        let queue = WaitQueue {
            futex_address: Some(0x7f00_1000),
            ..synthetic::waits::queue(0, synthetic::waits::MUTEX, u32::from(behind) * 10)
        };
        let queues = if behind > 0 { vec![queue] } else { Vec::new() };
        let observed = synthetic::waits::observed();
        Waits { sub_samples, groups: vec![group], observed, threads, blocked, wait_queues: queues, ..Waits::default() }
    }
}
