//! Readers of the running kernel, one file a subject. (Sampler: to be written)

pub mod cgroup;
pub mod cpu;
pub mod disk;
pub mod fields;
pub mod host;
pub mod memory;
pub mod mounts;
pub mod network;
pub mod pressure;
pub mod root;
pub mod users;
