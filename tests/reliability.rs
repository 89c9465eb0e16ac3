//! Damage that recordings survive, with figures: `cargo test --release --test reliability -- --nocapture` prints a line for each
//! kind of damage; with `STALLTOP_FULL=1` all damage is tried (minutes), without it a part (seconds). docs/reliability.md.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "support/counting_allocator.rs"]
mod counting_allocator;
#[path = "reliability/damage.rs"]
mod damage;
#[path = "reliability/damaged_bytes.rs"]
mod damaged_bytes;
#[path = "reliability/disks.rs"]
mod disks;
#[path = "recording/generator.rs"]
mod generator;
#[path = "reliability/hostile.rs"]
mod hostile;
#[path = "reliability/kills.rs"]
mod kills;
#[path = "reliability/measure.rs"]
mod measure;
#[path = "recording/payload.rs"]
mod payload;
#[path = "reliability/power.rs"]
mod power;
#[path = "reliability/program.rs"]
mod program;
#[path = "support/program.rs"]
mod program_under_test;
#[path = "reliability/recorded.rs"]
mod recorded;
#[path = "reliability/status.rs"]
mod status;
#[path = "recording/support.rs"]
mod support;
#[path = "support/synthetic.rs"]
mod synthetic;
#[path = "recording/varint.rs"]
mod varint;
