//! Readers of the kernel against captured and hand-made trees of many kernels, and against the running one.

#[path = "kernel/damage.rs"]
mod damage;
#[path = "kernel/kernels.rs"]
mod kernels;
#[path = "kernel/live.rs"]
mod live;

#[path = "kernel/tree.rs"]
mod tree;
