//! Threads that start and end: each sample has those that exist.

use std::fs;

use super::machine::{Machine, ThreadFiles, one};
use crate::sample::task::Tasks;

fn tids(tasks: &Tasks) -> Vec<u32> {
    tasks.processes[0].threads.iter().map(|thread| thread.tid).collect()
}

#[test]
fn threads_that_begin_and_end_are_found() {
    let mut machine = Machine::new(true);
    machine.put(40, "server", 5, 30_000_000, &[one(40), one(41), one(42)]);
    assert_eq!(tids(&machine.scan()), [40, 41, 42]);
    machine.put(40, "server", 5, 40_000_000, &[one(40), one(42), one(43), one(44)]);
    assert_eq!(tids(&machine.scan()), [40, 42, 43, 44]);
    // As many as before, but others: one that cannot be read any more shows it.
    machine.put(40, "server", 5, 50_000_000, &[one(40), one(42), one(44), one(45)]);
    assert_eq!(tids(&machine.scan()), [40, 42, 44, 45]);
}

/// A thread ends and another starts; a sub-sample that finds the former gone accounts for the whole clock. The scan must list the threads.
#[test]
fn a_thread_that_begins_while_another_ends_between_two_samples_is_found() {
    let mut machine = Machine::new(true);
    machine.keep_no_files_open();
    machine.put(40, "jobs", 5, 30_000_000, &[one(40), one(41), one(42)]);
    machine.scan();
    let worked = ThreadFiles { timeslices: 6, ..one(40) };
    machine.put(40, "jobs", 5, 60_000_000, &[worked, one(41), one(42)]);
    assert_eq!(tids(&machine.scan()), [40, 41, 42]);
    machine.put(40, "jobs", 5, 90_000_000, &[ThreadFiles { timeslices: 7, ..one(40) }, one(42), one(43)]);
    machine.scanner.sub_sample(machine.now_ns + 1);
    assert_eq!(tids(&machine.scan()), [40, 42, 43]);
}

/// The kernel may omit a thread from a directory in which another one ends while it is listed.
#[test]
fn a_thread_that_the_kernel_did_not_list_is_looked_for_again() {
    let mut machine = Machine::new(true);
    // At discovery, and after more have started.
    for (clock_ns, all) in [(30_000_000, &[40, 41, 42][..]), (60_000_000, &[40, 41, 42, 43, 44])] {
        let threads: Vec<ThreadFiles<'_>> = all.iter().map(|&tid| one(tid)).collect();
        machine.put(40, "jobs", 5, clock_ns, &threads);
        let last = all.len() - 1;
        let (unlisted, aside) = (machine.path(&format!("40/task/{}", all[last])), machine.path("aside"));
        fs::rename(&unlisted, &aside).unwrap();
        assert_eq!(tids(&machine.scan()), all[..last]);
        fs::rename(&aside, &unlisted).unwrap();
        assert_eq!(tids(&machine.scan()), *all);
    }
}

/// It ends between the listing of its threads and the first reading.
#[test]
fn a_process_of_which_no_thread_can_be_read_is_gone() {
    let mut machine = Machine::new(true);
    machine.keep_no_files_open();
    machine.put(40, "jobs", 5, 30_000_000, &[one(40), one(41)]);
    machine.put(50, "other", 5, 30_000_000, &[one(50)]);
    let unread = |machine: &Machine, pid: u32, tids: &[u32]| {
        for tid in tids {
            fs::remove_file(machine.path(&format!("{pid}/task/{tid}/stat"))).unwrap();
        }
    };
    let pids = |tasks: &Tasks| tasks.processes.iter().map(|process| process.pid).collect::<Vec<_>>();
    unread(&machine, 40, &[40, 41]);
    assert_eq!(pids(&machine.scan()), [50], "when it is seen for the first time");
    machine.put(60, "jobs", 5, 30_000_000, &[one(60), one(61)]);
    assert_eq!(pids(&machine.scan()), [50, 60]);
    machine.put(60, "jobs", 5, 60_000_000, &[ThreadFiles { timeslices: 7, ..one(60) }, one(61), one(62)]);
    unread(&machine, 60, &[60, 61, 62]);
    assert_eq!(pids(&machine.scan()), [50], "when it has run");
}
