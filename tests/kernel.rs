//! Readers of the kernel against captured and hand-made trees of many kernels, and against the running one.

#[path = "kernel/live.rs"]
mod live;
