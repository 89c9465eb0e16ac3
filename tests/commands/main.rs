//! The program as users run it, as a child process. One test binary: these tests wait more than they compute, so that they overlap.

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
mod baseline;
#[path = "../support/busy.rs"]
mod busy;
mod cast;
mod check;
#[path = "../support/child_guard.rs"]
mod child_guard;
mod cli;
mod completions;
mod configuration;
mod containers;
mod docs;
mod doctor;
#[path = "../support/documented_keys.rs"]
mod documented_keys;
mod every_command;
#[path = "../support/executable.rs"]
mod executable;
mod fleet;
#[path = "../support/pty_harness.rs"]
mod harness;
mod install;
#[cfg(feature = "native-histograms")]
#[path = "../support/loop_device.rs"]
mod loop_device;
mod operations;
mod other_users;
#[path = "../support/output.rs"]
mod output;
#[cfg(feature = "native-histograms")]
#[path = "../support/prometheus.rs"]
mod prometheus_server;
mod pty;
mod segments;
mod serve;
mod service;
#[path = "../support/synthetic.rs"]
mod synthetic;
#[path = "../support/until.rs"]
mod until;
