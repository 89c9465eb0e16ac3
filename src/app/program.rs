//! The program as the system sees it: its memory, its rights, its signals, where its lines go, how it ends.

pub mod allocator;
pub mod exit;
pub mod panics;
pub mod privileges;
pub mod progress;
pub mod signals;
pub mod stdio;
pub mod timeout;
