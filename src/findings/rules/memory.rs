//! Rules about memory: tasks that wait for it, swapping, OOM kills.

pub mod cgroup_thrashing;
pub mod oom_kill;
pub mod page_waits;
pub mod pressure;
pub mod swapping;
