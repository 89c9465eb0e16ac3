//! Real workloads with a known truth: `stalltop check --json` during each must say what is so, and nothing else.
//!
//! What is true is measured beside stalltop in the same seconds, by plain reads of /proc (`machine`, `watch`) or the tools
//! that come with the system; what each load is known to be stands at its test, and a look at which it was something else,
//! or in which others used the CPUs, is taken again (`look`). Nothing here asks stalltop what is true.
//!
//! `STALLTOP_LAB_LONG=1` adds the loads that are like these but are not these.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

mod baseline;
mod blocked;
mod cgroups;
mod chain;
mod cpu;
mod delays;
mod disk;
mod figures;
mod frozen;
mod ground;
mod judgement;
mod look;
mod machine;
mod network;
mod nicstat;
mod programs;
mod scenario;
mod softirq;
mod stress;
mod tables;
mod together;
mod watch;

/// Whether the loads are asked for that make the whole longer than ten minutes; says so when they are not.
fn long() -> bool {
    let long = std::env::var_os("STALLTOP_LAB_LONG").is_some();
    if !long {
        println!("skipped: STALLTOP_LAB_LONG is not set");
    }
    long
}
