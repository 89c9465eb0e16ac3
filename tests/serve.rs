//! `serve`: what it says to Prometheus is read back by independent parsers, the number of series is bounded, slow and hostile
//! clients do not keep others out. The real Prometheus is in tests/lab/prometheus.rs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_wrap,
    reason = "a test may fail loudly, and says why it skips"
)]

#[path = "serve/assets.rs"]
mod assets;
#[path = "serve/clients.rs"]
mod clients;
#[path = "serve/metrics.rs"]
mod metrics;
#[path = "serve/otlp.rs"]
mod otlp;
#[path = "serve/server.rs"]
mod server;
#[path = "support/synthetic.rs"]
mod synthetic;
#[path = "serve/web_config.rs"]
mod web_config;
