//! Recordings: what is written is read back, whatever happens to the bytes in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "recording/byte_order.rs"]
mod byte_order;
#[path = "recording/copy.rs"]
mod copy;
#[path = "recording/decode_ahead.rs"]
mod decode_ahead;
#[path = "recording/frame_summary.rs"]
mod frame_summary;
#[path = "recording/generator.rs"]
mod generator;
#[path = "recording/golden.rs"]
mod golden;
#[path = "recording/recorder.rs"]
mod recorder;
#[path = "recording/round_trip.rs"]
mod round_trip;
#[path = "recording/runs.rs"]
mod runs;
#[path = "recording/support.rs"]
mod support;
#[path = "support/synthetic.rs"]
mod synthetic;
