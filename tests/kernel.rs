//! Readers of the kernel against captured and hand-made trees of many kernels, and against the running one.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "clippy.toml allows them in tests, but does not know a test's helpers as such"
)]

#[path = "kernel/damage.rs"]
mod damage;
#[path = "kernel/kernels.rs"]
mod kernels;
#[path = "kernel/live.rs"]
mod live;
#[path = "kernel/made.rs"]
mod made;
#[path = "kernel/tree.rs"]
mod tree;
