//! `serve`: what it says to Prometheus is read back by independent parsers, the number of series is bounded, slow and hostile
//! clients do not keep others out. The real Prometheus is in tests/lab/prometheus.rs.

mod assets;
mod clients;
mod metrics;
#[cfg(all(feature = "native-histograms", not(target_arch = "x86")))]
mod native_histograms;
mod otlp;
#[cfg(not(target_arch = "x86"))]
mod probes;
mod server;
mod web_config;
