//! Real workloads with a known truth: `stalltop check --json` during each must report it, and nothing else.
//!
//! The truth is measured beside stalltop in the same seconds, by plain reads of /proc (`proc`, `watch`) or by the tools of the
//! system, never by stalltop. Each test says what its load is; an attempt in which the load was something else, or in
//! which others used the CPUs, is repeated (`attempt`).
//!
//! `STALLTOP_LAB_LONG=1` adds variants, and similar loads that must not raise these findings.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

mod armed;
#[path = "../commands/armed/armed_recorder.rs"]
mod armed_recorder;
mod attempt;
mod baseline;
mod block_latency;
mod blocked;
mod cgroups;
mod chain;
mod check_result;
#[path = "../support/child_guard.rs"]
mod child_guard;
mod combined;
mod cpu;
mod crowded;
mod dead_hosts;
mod deadlocks;
mod delayed_holders;
mod delays;
mod disk;
mod disk_load;
#[path = "../support/executable.rs"]
mod executable;
mod figures;
mod fleet;
mod freezer;
mod frozen;
#[allow(dead_code, reason = "tests/commands/pty.rs uses all of it")]
#[path = "../support/pty_harness.rs"]
mod harness;
mod held;
mod held_truth;
mod holders;
mod java;
mod kernel_contention;
mod kernel_holders;
mod kernel_locks;
mod limits;
mod network;
mod nicstat;
mod pipelines;
mod postgres;
mod proc;
mod programs;
mod prometheus;
#[path = "../support/prometheus.rs"]
mod prometheus_server;
mod read_write_locks;
mod relays;
mod scenario;
#[path = "../commands/serve/server.rs"]
mod serve;
mod servers;
mod softirq;
mod starved;
mod stress;
mod tables;
mod traces;
mod unnamed_holders;
#[path = "../support/until.rs"]
mod until;
mod wakers;
mod watch;

/// Whether variants of other loads are enabled; otherwise prints that they are skipped.
fn long() -> bool {
    let long = std::env::var_os("STALLTOP_LAB_LONG").is_some();
    if !long {
        println!("skipped: STALLTOP_LAB_LONG is not set");
    }
    long
}
