//! `record --armed`: what starts a capture, what is in it, what is kept of the directory, and the command of `--on-finding`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "armed/armed_recorder.rs"]
mod armed_recorder;
#[path = "armed/bounds.rs"]
mod bounds;
#[path = "armed/captures.rs"]
mod captures;
#[path = "armed/on_finding.rs"]
mod on_finding;
