//! Frames and key actions on synthetic machines: golden frames at several sizes, every size without a panic, hostile names,
//! colors, and the effect of each key.

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
mod bytes;
mod cgroup_tasks;
mod clocks;
mod colors;
mod demo;
mod fleet;
mod golden;
mod hostile;
mod keys;
mod labs;
mod machine;
mod matrix;
mod network;
mod other_keys;
mod overview;
mod palette;
mod pressure;
mod recorded;
mod scenes;
mod screen;
mod settings;
mod sideways;
mod signals;
mod sizes;
#[path = "../support/synthetic.rs"]
mod synthetic;
mod time;
mod timeline;
