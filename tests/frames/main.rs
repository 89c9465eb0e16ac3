//! Frames from machines made by hand: golden ones at several sizes, all sizes without a panic, hostile names, no colour,
//! and what each key does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

mod agreement;
mod clocks;
mod colours;
mod golden;
mod hostile;
mod keys;
mod machine;
mod network;
mod scenes;
mod screen;
mod sizes;
mod strip;
#[path = "../support/synthetic.rs"]
mod synthetic;
