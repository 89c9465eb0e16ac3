//! Metrics for Prometheus: families of series by its naming conventions (base units, `_total`), made from each evaluated interval
//! and encoded as OpenMetrics, in Prometheus' text format, or (feature `native-histograms`) in its protobuf format. docs/serve.md.
//!
//! The number of series is bounded on every machine: subjects by `selection`, names of processes by `process_names`; pids are no
//! labels. `names` has every metric once.

mod cgroups;
mod disks;
mod exporter;
mod family;
mod findings;
pub mod histogram;
mod host;
pub mod names;
mod network;
mod process_names;
mod selection;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
#[cfg(feature = "native-histograms")]
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::{DescriptorEncoder, prometheus_text, text};
use prometheus_client::registry::Registry;

pub use exporter::{Exporter, SamplingStatus};
pub use family::{Label, Metric, MetricFamily, MetricKind, Value};

/// The formats that Prometheus reads, the one with most last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4
    Text,
    /// OpenMetrics 1.0
    OpenMetrics,
    /// Prometheus' messages `MetricFamily`, each with its length: the only one with native histograms
    #[cfg(feature = "native-histograms")]
    Protobuf,
}

/// The value of the header Content-Type.
pub fn content_type(format: Format) -> &'static str {
    match format {
        Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        Format::Text => prometheus_text::CONTENT_TYPE,
        #[cfg(feature = "native-histograms")]
        Format::Protobuf => "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited",
    }
}

/// The families in a format.
pub fn encode(families: &Arc<[MetricFamily]>, format: Format) -> Vec<u8> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(Arc::clone(families))));
    let mut body = String::new();
    // Writing to memory cannot fail.
    let _ = match format {
        Format::OpenMetrics => text::encode(&mut body, &registry),
        Format::Text => prometheus_text::encode(&mut body, &registry),
        #[cfg(feature = "native-histograms")]
        Format::Protobuf => return prometheus_protobuf::encode_to_vec(&registry).unwrap_or_default(),
    };
    body.into_bytes()
}

#[derive(Debug)]
struct Families(Arc<[MetricFamily]>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}
