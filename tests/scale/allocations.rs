//! The number of allocations of a sample depends on how many tasks ran, not on how many there are.

use crate::counting_allocator::allocations;
use crate::proc_tree::{FIRST_PID, SampledTree};

/// Allocations for each process that ran: what is kept of it, and its part of lists that grow by doubling.
const A_TASK_THAT_RAN: u64 = 6;

#[test]
fn tasks_that_did_not_run_cost_no_allocation() {
    let [few, many] = [200, 2000].map(|processes| {
        let mut tree = SampledTree::new(processes, 1);
        let sample = fewest_of_a_sample(&mut tree);
        let sub_sample = allocations(|| tree.sub_sample());
        println!("{processes} processes asleep: {sample} allocations a sample, {sub_sample} a sub-sample");
        (sample, sub_sample)
    });
    assert_eq!(few, many, "a sample and a sub-sample of a tenth of the processes");
    let mut threads = SampledTree::new(1, 2000);
    assert_eq!(fewest_of_a_sample(&mut threads), few.0, "a process with 2,000 threads asleep");
}

/// Limits are read every five seconds: in one of five samples.
fn fewest_of_a_sample(tree: &mut SampledTree) -> u64 {
    let counts = (0..5).map(|_| {
        allocations(|| {
            tree.sample();
        })
    });
    counts.min().unwrap()
}

#[test]
fn tasks_that_ran_cost_a_bounded_number_each() {
    let mut tree = SampledTree::new(2000, 1);
    let asleep = allocations(|| {
        tree.sample();
    });
    for round in 1..6 {
        for ran in [20, 200] {
            for pid in FIRST_PID..FIRST_PID + ran {
                tree.run(pid, pid, round * 2 + u64::from(ran == 200));
                tree.clock(pid, round * 2 + u64::from(ran == 200));
            }
            let asked = allocations(|| {
                tree.sample();
            }) - asleep;
            println!("{ran} of 2000 ran: {asked} allocations more");
            assert!(asked <= u64::from(ran) * A_TASK_THAT_RAN + 40, "{asked} for {ran} processes that ran");
        }
    }
}

#[test]
fn of_a_process_with_many_threads_only_those_that_ran_are_read() {
    const THREADS: u32 = 2000;
    let mut tree = SampledTree::new(1, THREADS);
    let mut asked = 0;
    let mut read = 0;
    for round in 1..8 {
        for tid in FIRST_PID..FIRST_PID + 50 {
            tree.run(FIRST_PID, tid, round);
        }
        tree.clock(FIRST_PID, round * 50);
        asked = allocations(|| read = tree.sample().cost.tasks_read);
    }
    println!("50 of {THREADS} threads ran: {asked} allocations, {read} tasks read");
    assert!(asked < 50 * A_TASK_THAT_RAN + 200, "{asked} allocations");
    // The threads that ran, and the process itself.
    assert_eq!(read, 51);
}
