//! Kernel stacks of stuck threads in a fixture tree.

use stalltop::ids::TaskId;
use stalltop::sample::Name;
use stalltop::sample::stacks::{MAX_STACKS, ThreadStack};

use crate::proc_tree::{FIRST_PID, SampledTree};

const FLUSH: &str =
    "[<0>] submit_bio_wait+0x5d/0x90\n[<0>] ext4_sync_file.isra.0+0x1d5/0x3a0 [ext4]\n[<0>] do_syscall_64+0x71/0x280\n";

fn stack(pid: u32, text: &str) -> ThreadStack {
    ThreadStack { task: TaskId { pid, tid: pid, start_ticks: 2457 }, kernel: Ok(Name::from(text)) }
}

/// A tree in which each process has this stack.
fn tree_with(processes: u32, text: &str) -> SampledTree {
    let mut tree = SampledTree::new(processes, 1);
    for pid in FIRST_PID..FIRST_PID + processes {
        tree.stack(pid, text);
    }
    assert_eq!(tree.sample().stacks, Ok(Vec::new()), "no thread is stuck");
    tree
}

/// Runs for a moment, and is in D afterwards.
fn run_and_block(tree: &mut SampledTree, pid: u32, run_ms: u64) {
    tree.run(pid, pid, run_ms);
    tree.clock(pid, run_ms);
    tree.block(pid, "submit_bio_wait");
}

#[test]
fn a_thread_in_d_has_its_stack_until_it_runs_again() {
    let mut tree = tree_with(3, FLUSH);
    let pid = FIRST_PID + 1;
    run_and_block(&mut tree, pid, 1);
    let flush = "submit_bio_wait\next4_sync_file [ext4]\ndo_syscall_64";
    assert_eq!(tree.sample().stacks, Ok(vec![stack(pid, flush)]));
    // It has not run: its stack is not read again.
    tree.stack(pid, "[<0>] another+0x1/0x2\n");
    assert_eq!(tree.sample().stacks, Ok(vec![stack(pid, flush)]));
    run_and_block(&mut tree, pid, 2);
    assert_eq!(tree.sample().stacks, Ok(vec![stack(pid, "another")]));
    // Its file is empty while it runs.
    tree.stack(pid, "");
    run_and_block(&mut tree, pid, 3);
    assert_eq!(tree.sample().stacks, Ok(Vec::new()));
    // It was woken and preempted.
    tree.stack(pid, "[<0>] exit_to_user_mode_loop+0x5a/0x100\n[<0>] do_syscall_64+0x1fb/0x280\n");
    run_and_block(&mut tree, pid, 4);
    assert_eq!(tree.sample().stacks, Ok(Vec::new()));
    tree.run(pid, pid, 5);
    tree.clock(pid, 5);
    assert_eq!(tree.sample().stacks, Ok(Vec::new()));
}

#[test]
fn of_many_stuck_threads_a_part_is_read() {
    let processes = MAX_STACKS as u32 + 6;
    let mut tree = tree_with(processes, FLUSH);
    for pid in FIRST_PID..FIRST_PID + processes {
        run_and_block(&mut tree, pid, 1);
    }
    let stacks = tree.sample().stacks.clone().unwrap();
    assert_eq!(stacks.len(), MAX_STACKS);
    assert!(stacks.is_sorted_by_key(|row| row.task));
}
