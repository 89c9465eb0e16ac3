//! The process: memory, privileges, threads, signals, standard streams, panics and exit codes.

pub mod allocator;
pub mod cpu_wait;
pub mod exit;
pub mod panics;
pub mod priority;
pub mod privileges;
pub mod progress;
pub mod question;
pub mod signals;
pub mod stdio;
pub mod threads;
