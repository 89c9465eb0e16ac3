//! The processes of a running machine: some run each second, a few more wake up now and then.

use std::sync::Arc;

use stalltop::ids::GroupId;
use stalltop::sample::cpu::CpuTimes;
use stalltop::sample::task::{ChildrenCpuTime, Process, ProcessFacts, Schedstat, TaskIo, TaskState, Thread};
use stalltop::sample::waits::{GroupWait, SubSample, WaitClass, WaitQueue};
use stalltop::sample::{Name, Sample};
use stalltop::units::Counter;

use super::super::synthetic;
use super::dice::Dice;

/// One second of the busy processes and of those that wake up, and what sub-samples saw of them.
pub fn run(now: &mut Sample, d: &mut Dice, busy_count: usize, cpus: u32, before: CpuTimes) {
    let Ok(tasks) = &mut now.tasks else { return };
    let count = tasks.processes.len();
    let busy = (0..count).step_by((count / busy_count.max(1)).max(1)).take(busy_count).collect::<Vec<_>>();
    let wakers = (0..count / 200).map(|_| d.below(count as u64) as usize).collect::<Vec<_>>();
    for &at in busy.iter().chain(&wakers) {
        run_process(Arc::make_mut(&mut tasks.processes[at]), d, cpus, now.at.boottime_ns, busy.contains(&at));
    }
    now.waits.groups = busy.iter().take(8).map(|&at| GroupId::Process(tasks.processes[at].id())).collect();
    now.waits.threads = busy
        .iter()
        .flat_map(|&at| {
            let process = &tasks.processes[at];
            let running = d.below(11) as u16;
            let seen = [(WaitClass::Running, running), (WaitClass::Poll, 10 - running)];
            synthetic::waits::thread(process.task_id(&process.threads[0]), (at % 8) as u16, &seen)
        })
        .collect();
    now.waits.observed = synthetic::waits::observed();
    now.waits.wait_queues = (0..now.waits.groups.len())
        .map(|group| WaitQueue {
            futex_address: Some(0x7f00_0000_1000 + group as u64 * 0x4320),
            ..synthetic::waits::queue(group as u16, WaitClass::Futex as u32, 20 + d.below(20) as u32)
        })
        .collect();
    let total = now.cpu.as_ref().map(|cpu| cpu.total).unwrap_or_default();
    let groups = if busy_count > 0 { 3 } else { 0 };
    now.waits.sub_samples = (1..=10).map(|part| sub_sample(part, now.at.boottime_ns, d, groups, before, total)).collect();
}

fn run_process(process: &mut Process, d: &mut Dice, cpus: u32, at_ns: u64, is_busy: bool) {
    let ran = 1_000_000 + d.below(80_000_000);
    let ticks = ran / 10_000_000;
    process.user_ticks.0 += ticks;
    process.minor_faults.0 += d.below(100);
    if let Some(clock) = &mut process.cpu_ns {
        clock.0 += ran;
    }
    if d.one_in(3) {
        process.resident_pages += d.below(50);
    }
    if let Ok(io) = &mut process.io {
        d.grow(&mut io.read_syscalls, 300);
        d.grow(&mut io.write_syscalls, 300);
        io.write_bytes.0 += 4096 * d.below(30);
    }
    let minor_faults = process.minor_faults;
    let thread = &mut process.threads_mut()[0];
    thread.user_ticks.0 += ticks;
    thread.minor_faults = minor_faults;
    thread.processor = d.below(u64::from(cpus)) as u32;
    thread.last_timeslice_ns = Some(at_ns);
    // Whatever only woke up is asleep again.
    let runs = d.one_in(4) && is_busy;
    thread.state = if runs { TaskState::Running } else { TaskState::Sleeping };
    thread.wait.wchan = Ok(Name::from(["do_epoll_wait", "futex_do_wait", ""][d.below(3) as usize]));
    if let Some(sched) = &mut thread.schedstat {
        sched.run_ns.0 += ran;
        d.grow(&mut sched.run_delay_ns, 3_000_000);
        d.grow(&mut sched.timeslices, 200);
    }
}

/// The sub-sample after `part` tenths of the second; the last one is at the time of the sample.
fn sub_sample(part: u64, at_ns: u64, d: &mut Dice, groups: u16, before: CpuTimes, total: CpuTimes) -> SubSample {
    let span = |now: Counter, before: Counter| Counter(before.0 + (now.0 - before.0) * part / 10);
    SubSample {
        boottime_ns: at_ns - (10 - part) * 100_000_000 + if part == 10 { 0 } else { d.below(300_000) },
        cpu: Some(CpuTimes {
            user_ticks: span(total.user_ticks, before.user_ticks),
            system_ticks: span(total.system_ticks, before.system_ticks),
            idle_ticks: span(total.idle_ticks, before.idle_ticks),
            iowait_ticks: span(total.iowait_ticks, before.iowait_ticks),
            softirq_ticks: span(total.softirq_ticks, before.softirq_ticks),
            ..total
        }),
        in_flight: Some(d.below(4) as u32),
        waits: (0..groups)
            .map(|group| {
                let wait = [WaitClass::Running, WaitClass::Poll][d.below(2) as usize] as u32;
                GroupWait { group, wait, active: true, threads: 1, at_shared_address: 0 }
            })
            .collect(),
    }
}

pub fn plain_process(d: &mut Dice, pid: u32, threads: u32) -> Process {
    let comm = Name::from(format!("worker-{}", d.below(40)).as_str());
    let started = 1000 + u64::from(pid) * 37;
    let threads: Vec<Thread> = (0..threads)
        .map(|at| {
            let thread = synthetic::thread(pid + at, comm.clone()).started(started + u64::from(at));
            thread
                .with(|thread| {
                    thread.processor = d.below(16) as u32;
                    thread.user_ticks = Counter(d.below(10_000));
                    thread.system_ticks = Counter(d.below(10_000));
                    thread.minor_faults = Counter(d.below(100_000));
                    thread.major_faults = Counter(d.below(10));
                    thread.schedstat = Some(Schedstat {
                        run_ns: Counter(d.below(100_000_000_000)),
                        run_delay_ns: Counter(d.below(1_000_000_000)),
                        timeslices: Counter(d.below(100_000)),
                    });
                    thread.last_timeslice_ns = Some(987_000_000_000_000);
                    thread.wait.wchan = Ok(Name::from("do_epoll_wait"));
                })
                .build()
        })
        .collect();
    let sum = |part: fn(&Thread) -> u64| Counter(threads.iter().map(part).sum());
    let facts = ProcessFacts {
        cmdline: Ok(Name::from(format!("/usr/sbin/worker\0--number\0{pid}").as_str())),
        executable: Ok(Name::from("/usr/sbin/worker")),
        cgroup: Ok(synthetic::cgroup_id(&format!("/system.slice/{}", pid % 9))),
        ..ProcessFacts::default()
    };
    synthetic::process(pid, comm)
        .started(started)
        .parent(1)
        .facts(facts)
        .with(|process| {
            process.uid = if pid.is_multiple_of(3) { 1000 } else { 0 };
            process.user_ticks = sum(|thread| thread.user_ticks.0);
            process.system_ticks = sum(|thread| thread.system_ticks.0);
            process.children_cpu =
                Some(ChildrenCpuTime { user_ticks: Counter(d.below(1_000)), system_ticks: Counter(d.below(100)) });
            process.cpu_ns = Some(sum(|thread| thread.schedstat.map_or(0, |sched| sched.run_ns.0)));
            process.minor_faults = sum(|thread| thread.minor_faults.0);
            process.major_faults = sum(|thread| thread.major_faults.0);
            process.resident_pages = d.below(100_000);
            process.io = Ok(TaskIo {
                read_bytes: Counter(d.below(10_000_000)),
                write_bytes: Counter(d.below(10_000_000)),
                cancelled_write_bytes: Counter(0),
                read_syscalls: Counter(d.below(1_000_000)),
                write_syscalls: Counter(d.below(1_000_000)),
            });
        })
        .threads(threads)
        .build()
}
