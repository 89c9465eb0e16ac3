//! What the sub-samples of a scenario see of single threads: at the end of a chain, beside storage, beside other processes of their group.

use stalltop::ids::GroupId;
use stalltop::sample::waits::{ThreadWait, WaitClass};

use super::SUB_SAMPLES;
use super::tasks::group_index;
use super::waits::lock_queues;
use crate::format::{self, Phase};
use crate::synthetic;

/// Threads at the end of a chain that wait for the lock themselves in other sub-samples.
pub(super) fn queuing(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let holders = phase.process.iter().filter_map(|process| Some((process, process.holder.as_ref()?)));
    let rows = holders.filter(|(_, holder)| holder.queues > 0).flat_map(|(process, holder)| {
        let seen = [(WaitClass::Lock, holder.queues), (WaitClass::Disk, holder.times)];
        let task = synthetic::task_id(process.pid, process.pid);
        synthetic::waits::thread(task, group_index(process, groups), &seen)
    });
    let sleepers = phase.process.iter().filter_map(|process| Some((process, process.sleeps_in?)));
    let asleep = sleepers.flat_map(|(process, class)| {
        let task = |pid| synthetic::task_id(pid, pid);
        let seen = [(WaitClass::Running, 5), (class, 5)];
        let pids = process.pid..process.pid + process.count;
        pids.flat_map(move |pid| synthetic::waits::thread(task(pid), group_index(process, groups), &seen))
    });
    let turns = phase.process.iter().flat_map(|process| {
        let task = |at| synthetic::task_id(process.pid, process.pid + at);
        let seen = [(WaitClass::Lock, 9), (WaitClass::Timer, 1)];
        (0..process.turns).flat_map(move |at| synthetic::waits::thread(task(at), group_index(process, groups), &seen))
    });
    let on_storage = phase.process.iter().flat_map(|process| {
        let task = |at| synthetic::task_id(process.pid, process.pid + at);
        let seen = [(WaitClass::Disk, 10)];
        (0..process.seen_on_storage).flat_map(move |at| synthetic::waits::thread(task(at), group_index(process, groups), &seen))
    });
    let mut rows: Vec<ThreadWait> = rows
        .chain(on_storage)
        .chain(asleep)
        .chain(turns)
        .chain(beside_storage(phase, groups))
        .chain(running_siblings(phase, groups))
        .collect();
    rows.sort_by_key(|row| (row.task, row.wait));
    rows
}

/// In groups of several processes: those that run, all sightings of a process as those of one thread.
fn running_siblings(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let is_sibling = |process: &&format::Process| {
        let group = group_index(process, groups);
        phase.process.iter().filter(|other| group_index(other, groups) == group).count() > 1
            && !process.waits.running.is_empty()
    };
    let siblings = phase.process.iter().filter(is_sibling);
    siblings
        .map(|process| {
            let seen_count = (0..SUB_SAMPLES as usize).map(|at| process.waits.running[at % process.waits.running.len()]).sum();
            let task = synthetic::task_id(process.pid, process.pid);
            ThreadWait { task, wait: WaitClass::Running as u32, group: group_index(process, groups), seen_count }
        })
        .collect()
}

/// In groups with threads that may wait for a lock, by inference, and threads on storage: each of them, in one sub-sample on storage if
/// they take turns there.
fn beside_storage(phase: &Phase, groups: &[GroupId]) -> Vec<ThreadWait> {
    let mut rows = Vec::new();
    for process in &phase.process {
        let group = group_index(process, groups);
        let of_group = || phase.process.iter().filter(|other| group_index(other, groups) == group);
        let storage: u16 = of_group().map(|other| other.waits.storage).sum();
        let by_call = |process: &format::Process| if process.waits.private { process.waits.lock_by_call } else { 0 };
        let crowd: u16 = of_group().map(|other| other.waits.lock_by_inference + by_call(other)).sum();
        let waits = &process.waits;
        let times = waits.storage_times.unwrap_or(10);
        if storage == 0 || crowd == 0 {
            continue;
        }
        let takes_turns = waits.lock_by_inference > 0 && !waits.no_turns;
        for at in 0..u32::from(waits.storage) {
            let task = synthetic::task_id(process.pid, process.pid + 50_000 + at);
            if !takes_turns {
                rows.extend(synthetic::waits::thread(task, group, &[(WaitClass::Disk, times)]));
            }
        }
        for at in 0..u32::from(waits.lock_by_inference) {
            let task = synthetic::task_id(process.pid, process.pid + 60_000 + at);
            let turn = u16::from(takes_turns && at < u32::from(times));
            rows.extend(synthetic::waits::thread(task, group, &[(WaitClass::Disk, turn)]));
            let of_queue = lock_queues(phase).find(|(_, other, queue)| other.pid == process.pid && queue.kind == "rust-mutex");
            let wait = match of_queue {
                Some((id, ..)) => id,
                None if waits.private => synthetic::waits::PRIVATE_FUTEX,
                None => WaitClass::Futex as u32,
            };
            rows.push(ThreadWait { task, wait, group, seen_count: 10 - turn });
        }
        for at in 0..u32::from(by_call(process)) {
            let task = synthetic::task_id(process.pid, process.pid + 70_000 + at);
            rows.push(ThreadWait { task, wait: synthetic::waits::MUTEX, group, seen_count: 10 });
        }
    }
    rows
}
