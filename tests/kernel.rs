//! The readers of the kernel on captured and made-up trees of many kernels, and on the running one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "kernel/block_latencies.rs"]
mod block_latencies;
#[path = "support/busy.rs"]
mod busy;
#[path = "kernel/cgroups.rs"]
mod cgroups;
#[path = "support/child_guard.rs"]
mod child_guard;
#[path = "kernel/copied.rs"]
mod copied;
#[path = "kernel/damage.rs"]
mod damage;
#[path = "kernel/kernels.rs"]
mod kernels;
#[path = "kernel/left_out.rs"]
mod left_out;
#[path = "kernel/live.rs"]
mod live;
#[path = "support/loop_device.rs"]
mod loop_device;
#[path = "kernel/made.rs"]
mod made;
#[path = "kernel/network_namespaces.rs"]
mod network_namespaces;
#[path = "support/proc_tree.rs"]
mod proc_tree;
#[path = "support/program.rs"]
mod program;
#[path = "support/quota_group.rs"]
mod quota_group;
#[path = "kernel/stacks.rs"]
mod stacks;
#[path = "kernel/structs.rs"]
mod structs;
#[path = "support/succeeds.rs"]
mod succeeds;
#[path = "kernel/taskstats.rs"]
mod taskstats;
#[path = "kernel/tree.rs"]
mod tree;
#[path = "support/until.rs"]
mod until;
