//! Processes of the machine of a scenario, as a sample and its sub-samples show them, and those that exited.

use std::collections::BTreeSet;
use std::sync::Arc;

use stalltop::ids::GroupId;
use stalltop::sample::exits::{ExitCpuTime, ExitedTasks, Exits};
use stalltop::sample::task::{
    ChildrenCpuTime, HiddenTasks, Process, ProcessFacts, RawSyscall, Scheduling, TaskIo, TaskState, Tasks,
};
use stalltop::sample::waits::BlockedWait;
use stalltop::sample::{Absent, Name};
use stalltop::units::Counter;

use super::devices::disk_id;
use super::{Machine, TICKS};
use crate::format::{self, Phase};
use crate::synthetic;

impl Machine {
    pub(super) fn tasks(&self, phase: &Phase) -> Tasks {
        let mut processes: Vec<Arc<Process>> = Vec::new();
        for process in &phase.process {
            processes.extend((process.pid..process.pid + process.count).map(|pid| Arc::new(self.process(process, pid))));
        }
        processes.sort_by_key(|process| process.pid);
        let pids: BTreeSet<u32> = processes.iter().map(|process| process.pid).collect();
        assert_eq!(pids.len(), processes.len(), "two processes of one pid");
        Tasks { processes, hidden: HiddenTasks { processes: self.hidepid, ..HiddenTasks::default() }, ..Tasks::default() }
    }

    fn process(&self, process: &format::Process, pid: u32) -> Process {
        let age_ns = process.renewed.map(|age| (age * 1e9) as u64);
        let start_ticks = age_ns.map_or(1, |age| ((self.boottime_ns - age) as f64 / 1e9 * TICKS) as u64);
        let run_ns = match process.renewed {
            Some(age) => Counter((process.cpu * age * 1e9) as u64),
            None => self.read(&format!("task {pid} run")),
        };
        let thread = |index: u32| {
            let timeslices = process.timeslices;
            let thread = synthetic::thread(pid + index, process.name.as_str()).started(start_ticks);
            let thread = match index {
                0 if !process.spread => thread.ran(
                    run_ns.0,
                    self.read(&format!("task {pid} delay")).0,
                    timeslices + self.read(&format!("task {pid} slices")).0,
                ),
                _ => thread.ran(if process.spread { run_ns.0 / u64::from(process.threads) } else { 0 }, 0, timeslices),
            };
            thread.state(TaskState::from_stat_char(process.state as u8)).with(|thread| {
                let (first, cpus) = process.moves_on.unwrap_or((0, self.cpus));
                thread.processor = first + (process.on_cpu - first + if process.moves { self.samples } else { 0 }) % cpus;
                thread.user_ticks = Counter(0);
                if index == 0 && process.system > 0.0 {
                    thread.user_ticks = self.read(&format!("task {pid} user"));
                    thread.system_ticks = self.read(&format!("task {pid} system"));
                }
                if index == 0 {
                    thread.major_faults = self.read(&format!("task {pid} major"));
                }
                thread.background = process.background;
                thread.scheduling = (process.policy.is_some() || process.nice.is_some()).then(|| Scheduling {
                    policy: process.policy.unwrap_or(0),
                    nice: process.nice.unwrap_or(0),
                    rt_priority: 0,
                });
                thread.last_timeslice_ns = match process.asleep_seconds {
                    Some(seconds) => Some(self.boottime_ns - (seconds * 1e9) as u64),
                    None => (process.cpu > 0.0).then_some(self.boottime_ns),
                };
                thread.wait.wchan = process.channel.as_deref().map(Name::from).ok_or(Absent::NotRead);
                thread.cpus_allowed_list = process.allowed.as_deref().map(Name::from);
            })
        };
        synthetic::process(pid, process.name.as_str())
            .started(start_ticks)
            .parent(process.parent)
            .ran(run_ns.0)
            .facts(ProcessFacts {
                executable: Ok(format!("/usr/bin/{}", process.name).as_str().into()),
                cgroup: process.cgroup.as_deref().map(synthetic::cgroup_id).ok_or(Absent::NoSuchFile),
                cmdline: process.title.as_deref().map(Name::from).ok_or(Absent::NotRead),
                ..ProcessFacts::default()
            })
            .threads((0..process.threads).map(thread))
            .with(|row| {
                row.kernel_thread = process.kernel_thread;
                row.children_cpu =
                    Some(ChildrenCpuTime { user_ticks: self.read(&format!("task {pid} ended")), system_ticks: Counter(0) });
                row.major_faults = self.read(&format!("task {pid} major"));
                row.resident_pages = 100;
                let io = |_| TaskIo { read_bytes: self.read(&format!("task {pid} read")), ..TaskIo::default() };
                row.io = process.read_kb.map(io).ok_or(Absent::NotRead);
            })
            .build()
    }

    pub(super) fn blocked(&self, phase: &Phase, index: u32, groups: &[GroupId]) -> Vec<BlockedWait> {
        let holders = phase.process.iter().filter_map(|process| Some((process, process.holder.as_ref()?)));
        let thread = |(process, holder): (&format::Process, &format::Holder)| {
            let grown = if holder.stays { f64::from(index) * phase.seconds } else { 0.0 };
            BlockedWait {
                group: group_index(process, groups),
                wchan: holder.channel.as_deref().map(Name::from),
                syscall: holder.call.map(|number| RawSyscall { number, arguments: [3, 0, 0] }),
                seen_count: holder.times,
                blocked_since_ns: self.boottime_ns - ((holder.seconds + grown) * 1e9) as u64,
                file: holder.file.as_deref().map(Name::from),
                disk: holder.disk.as_deref().map(|name| disk_id(phase, name)),
                mount: holder.mount.as_deref().map(Name::from),
                file_system: holder.file_system.as_deref().map(Name::from),
                ..synthetic::waits::blocked(synthetic::task_id(process.pid, process.pid), process.name.as_str())
            }
        };
        holders.map(thread).collect()
    }

    pub(super) fn exits(&self, phase: &Phase, ends: &[format::Exit]) -> Exits {
        let row = |end: &format::Exit| ExitedTasks {
            owner: Some(synthetic::process_id(end.of)),
            owner_name: end.of_name.as_str().into(),
            name: end.name.as_str().into(),
            are_threads: end.threads,
            count: (end.per_second * phase.seconds) as u32,
            // A clock that lacks the last moments, and one that is right on average.
            cpu: ExitCpuTime {
                run_ns: (end.cpu * 0.1 * phase.seconds * 1e9) as u64,
                tick_ns: (end.cpu * phase.seconds * 1e9) as u64,
            },
        };
        Exits { rows: ends.iter().map(row).collect(), lost_messages: self.read("lost"), ..Exits::default() }
    }
}

pub(super) fn groups(phase: &Phase) -> Vec<GroupId> {
    let mut groups: Vec<GroupId> = Vec::new();
    for group in phase.process.iter().map(group_of) {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    groups
}

fn group_of(process: &format::Process) -> GroupId {
    match process.parent > 2 && !process.kernel_thread {
        true => GroupId::Siblings { parent: process.parent, executable: format!("/usr/bin/{}", process.name).as_str().into() },
        false => GroupId::Process(synthetic::process_id(process.pid)),
    }
}

pub(super) fn group_index(process: &format::Process, groups: &[GroupId]) -> u16 {
    let id = group_of(process);
    u16::try_from(groups.iter().position(|group| *group == id).expect("its group")).unwrap()
}
