//! Threads that wait, by inference, for one that writes for them.

use super::*;
use crate::sample::task::Schedstat;
use crate::sample::waits::{BlockedWait, WaitClass};

/// Ten sub-samples of an idle CPU in the second before this one, each with this row.
fn sub_samples(second: u64, end_ns: u64, row: &GroupWaits) -> Vec<SubSample> {
    let sub = |before: u64| SubSample {
        boottime_ns: end_ns - before * 100_000_000,
        cpu: Some(times(0, 0, second * 100 - before * 10, 0)),
        in_flight: Some(1),
        waits: synthetic::waits::group(row),
    };
    (0..10).rev().map(sub).collect()
}

/// One process: a thread in fdatasync at all of ten sub-samples, and eight in condition variables. `ran`: timeslices of each of these for
/// 100 of the first.
fn blocked(ran: u64) -> (f64, f64) {
    let sample = |second: u64| {
        let total = times(0, 0, second * 100, 0);
        let thread = |index: u32| {
            let timeslices = Counter(second * if index == 0 { 100 } else { ran });
            synthetic::thread(50 + index, "db").with(|thread| {
                thread.schedstat = Some(Schedstat { run_ns: Counter(0), run_delay_ns: Counter(0), timeslices });
            })
        };
        let process = synthetic::process(50, "db").threads((0..9).map(thread));
        let mut sample = synthetic::sample(second as f64).cpus([total]).processes([process]).build();
        let row = GroupWaits { group: 0, storage: 1, lock_inferred: 8, ..GroupWaits::default() };
        let task = |index: u32| synthetic::task_id(50, 50 + index);
        let seen = |index| if index == 0 { [(WaitClass::Disk, 10)] } else { [(WaitClass::Futex, 10)] };
        sample.waits = Waits {
            sub_samples: sub_samples(second, sample.at.boottime_ns, &row),
            observed: synthetic::waits::observed(),
            groups: vec![GroupId::Process(synthetic::process_id(50))],
            threads: (0..9).flat_map(|index| synthetic::waits::thread(task(index), 0, &seen(index))).collect(),
            ..Waits::default()
        };
        sample
    };
    let interval = between(&sample(10), &sample(11));
    let blocked = interval.idle_blocked.expect("sub-samples");
    let group = blocked.groups.first().expect("a thread on storage");
    (group.lock_inferred.round(), group.lock_unconfirmed.round())
}

#[test]
fn threads_that_run_in_step_with_one_that_writes_wait_for_it() {
    assert_eq!(blocked(50), (8.0, 8.0), "no thread takes a turn: it stays unconfirmed");
    assert_eq!(blocked(1), (0.0, 0.0), "idle workers");
    assert_eq!(blocked(1000), (0.0, 0.0), "busy workers");
}

/// Processes with one thread each: the first one has been in one flush for 1.5 s, the others are in a futex that they share.
#[test]
fn a_long_flush_of_one_process_holds_those_that_share_a_futex() {
    let blocked = |processes: u32| {
        let sample = |second: u64| {
            let task = |index: u32| synthetic::task_id(50 + index, 50 + index);
            let processes_of = (0..processes).map(|index| synthetic::process(50 + index, "pg"));
            let total = times(0, 0, second * 100, 0);
            let mut sample = synthetic::sample(second as f64).cpus([total]).processes(processes_of).build();
            let others = u16::try_from(processes - 1).expect("a few");
            let row = GroupWaits { group: 0, storage: 1, lock_inferred: others, ..GroupWaits::default() };
            let end_ns = sample.at.boottime_ns;
            let seen = |index| if index == 0 { [(WaitClass::Disk, 10)] } else { [(WaitClass::Futex, 10)] };
            let flush = BlockedWait {
                wchan: Some("submit_bio_wait".into()),
                blocked_since_ns: end_ns - 1_500_000_000,
                ..synthetic::waits::blocked(task(0), "pg")
            };
            sample.waits = Waits {
                sub_samples: sub_samples(second, sample.at.boottime_ns, &row),
                observed: synthetic::waits::observed(),
                groups: vec![GroupId::Siblings { parent: 9, executable: "/usr/bin/pg".into() }],
                threads: (0..processes).flat_map(|index| synthetic::waits::thread(task(index), 0, &seen(index))).collect(),
                blocked: vec![flush],
                ..Waits::default()
            };
            sample
        };
        let interval = between(&sample(10), &sample(11));
        let group = interval.idle_blocked.expect("sub-samples").groups.into_iter().next().expect("a thread on storage");
        (group.lock_inferred.round(), group.lock_unconfirmed.round())
    };
    assert_eq!(blocked(9), (8.0, 0.0));
    assert_eq!(blocked(3), (2.0, 2.0), "too few to tell");
}
