//! `fleet` with local processes as hosts: a script in place of ssh runs the command of the host here. Among them are hosts that print a
//! banner, hang, die, print garbage, or have no stalltop.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "fleet/copy.rs"]
mod copy;
#[allow(dead_code, reason = "shared with tests/pty.rs, which uses all of it")]
#[path = "pty/harness.rs"]
mod harness;
#[path = "fleet/host_script.rs"]
mod host_script;
#[path = "fleet/once.rs"]
mod once;
#[path = "fleet/replay.rs"]
mod replay;
#[path = "fleet/screen.rs"]
mod screen;
