//! stalltop says why a machine is slow although its CPUs are idle: which threads are blocked, on what, and behind which other thread.
//!
//! ```text
//!     kernel ──┐                  ┌── recorder ── file, pipe
//!              ├──► sample ───────┤
//!     replayer ┘                  └──► interval ─► findings ─► figures ─► state ─► view ── terminal
//!                                         └─► baseline ─┘                     └──► report ─ lines, JSON
//! ```
//!
//! A sample is a point, raw and cumulative; an interval is the span between two samples; a finding is a judgement on intervals; a
//! frame is a function of state. A module imports only layers below its own (tests/architecture.rs checks it).
//! docs/ARCHITECTURE.md follows two figures from the kernel to the screen.

pub mod units;

pub mod ids;

pub mod sample;

pub mod kernel;
pub mod recording;

pub mod interval;

pub mod baseline;

pub mod findings;

pub mod figures;

pub mod state;

pub mod report;
pub mod view;

pub mod cli;

pub mod app;

// Unit tests share the builders of made-up machines with the integration tests, which see this crate from outside.
#[cfg(test)]
extern crate self as stalltop;
#[cfg(test)]
#[path = "../tests/support/child_guard.rs"]
mod child_guard;
#[cfg(test)]
#[path = "../tests/support/documented_keys.rs"]
mod documented_keys;
#[cfg(test)]
#[path = "../tests/support/proc_tree.rs"]
mod proc_tree;
#[cfg(test)]
#[path = "../tests/support/synthetic.rs"]
mod synthetic;
#[cfg(test)]
#[path = "../tests/support/until.rs"]
mod until;
