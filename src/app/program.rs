//! The program as the system sees it: its memory, its rights, its signals, where its lines go, how it ends.

pub mod allocation;
pub mod exit;
pub mod panics;
pub mod patience;
pub mod rights;
pub mod signals;
pub mod stdout;
pub mod zone;
