//! What `serve --otlp` sends: the metrics of `openmetrics` and the findings, as messages of the OpenTelemetry protocol (OTLP).
//! Metrics have the names of the semantic conventions where those have one (`names`); findings are log records (`logs`).
//! docs/serve.md.

mod logs;
mod metrics;
mod names;

use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;

pub use logs::{FindingLogRecords, rejected_findings};
pub use metrics::{metrics_request, rejected_points};
pub use names::names_table;

/// Where the telemetry comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetryResource {
    /// Name of the host
    pub host: String,
    /// Version of the program
    pub version: &'static str,
}

impl TelemetryResource {
    fn resource(&self) -> Resource {
        let attributes = vec![
            attribute("service.name", "stalltop"),
            attribute("service.version", self.version),
            attribute("host.name", &self.host),
            attribute("os.type", "linux"),
        ];
        Resource { attributes, ..Resource::default() }
    }

    fn scope(&self) -> InstrumentationScope {
        let (name, version) = ("stalltop".to_owned(), self.version.to_owned());
        InstrumentationScope { name, version, ..InstrumentationScope::default() }
    }
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(text(value)), ..KeyValue::default() }
}

fn text(value: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) }
}

fn number(value: f64) -> AnyValue {
    AnyValue { value: Some(any_value::Value::DoubleValue(value)) }
}
