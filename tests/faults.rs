//! What the program must survive: the cases of docs/faults.md that are not tested beside their code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "faults/again.rs"]
mod again;
#[path = "support/busy.rs"]
mod busy;
#[path = "support/child_guard.rs"]
mod child_guard;
#[path = "kernel/copied.rs"]
mod copied;
#[path = "support/executable.rs"]
mod executable;
#[path = "support/fuse_mount.rs"]
mod fuse_mount;
#[path = "support/pty_harness.rs"]
#[allow(dead_code, reason = "tests/commands/pty.rs uses all of it")]
mod harness;
#[path = "faults/identities.rs"]
mod identities;
#[path = "support/load_process.rs"]
mod load_process;
#[path = "support/loop_device.rs"]
mod loop_device;
#[path = "faults/namespaces.rs"]
mod namespaces;
#[path = "faults/opened.rs"]
mod opened;
#[path = "faults/page.rs"]
mod page;
#[path = "support/proc_tree.rs"]
mod proc_tree;
#[path = "faults/processes.rs"]
mod processes;
#[path = "support/quota_group.rs"]
mod quota_group;
#[path = "faults/rights.rs"]
mod rights;
#[path = "faults/spoken.rs"]
mod spoken;
#[path = "faults/stopped.rs"]
mod stopped;
#[path = "support/succeeds.rs"]
mod succeeds;
#[path = "faults/supply.rs"]
mod supply;
#[path = "faults/traced.rs"]
mod traced;
#[path = "faults/tree.rs"]
mod tree;
#[path = "support/until.rs"]
mod until;
