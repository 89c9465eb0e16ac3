//! A metric family: a metric with its series.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::histogram;
use crate::interval::latency_histogram::LatencyHistogram;
use crate::report::formatting::printable;

/// Whether a metric only grows, and what its values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Of the kernel, since boot or since the device was made. Its series end with `_total`, as do those of the next kind
    Counter,
    /// A sum that stalltop makes, since it started
    Total,
    Gauge,
    /// Durations in seconds, counted since the probe was attached
    Histogram,
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// As in a query: of a counter with `_total`
    pub name: &'static str,
    pub kind: MetricKind,
    /// Names of the labels, in the order of the series'
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

impl Metric {
    pub(super) const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Counter, labels, help }
    }

    pub(super) const fn total(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Total, labels, help }
    }

    pub(super) const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Gauge, labels, help }
    }

    pub(super) const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
        Metric { name, kind: MetricKind::Histogram, labels, help }
    }
}

/// Name and value of a label.
pub type Label = (&'static str, String);

/// Bytes of a label value at most; longer ones are cut.
const MAX_VALUE_BYTES: usize = 128;

/// A label whose value is from outside: unprintable characters are escaped, and its length is limited.
pub(super) fn label(name: &'static str, value: &str) -> Label {
    let mut value = printable(value);
    if value.len() > MAX_VALUE_BYTES {
        value.truncate(value.floor_char_boundary(MAX_VALUE_BYTES));
        value.push('…');
    }
    (name, value)
}

/// The value of a series.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Number(f64),
    Histogram(LatencyHistogram),
}

impl Value {
    /// `None`: a histogram.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Histogram(_) => None,
        }
    }
}

/// One metric and its series.
#[derive(Debug)]
pub struct MetricFamily {
    pub metric: &'static Metric,
    /// No two have the same labels
    pub series: Vec<(Vec<Label>, Value)>,
}

impl MetricFamily {
    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Metric { name, kind, help, .. } = self.metric;
        // The encoder appends `_total`.
        let (name, metric_type) = match kind {
            MetricKind::Counter | MetricKind::Total => (name.trim_end_matches("_total"), MetricType::Counter),
            MetricKind::Gauge => (*name, MetricType::Gauge),
            MetricKind::Histogram => (*name, MetricType::Histogram),
        };
        let mut family = encoder.encode_descriptor(name, help, None, metric_type)?;
        self.series.iter().try_for_each(|(labels, value)| match labels.as_slice() {
            [] => encode_value(*kind, value, family.encode_family::<[Label; 0]>(&[])?),
            labels => encode_value(*kind, value, family.encode_family(&labels)?),
        })
    }
}

fn encode_value(kind: MetricKind, value: &Value, encoder: MetricEncoder<'_>) -> fmt::Result {
    match value {
        Value::Number(value) if kind == MetricKind::Gauge => ConstGauge::new(*value).encode(encoder),
        Value::Number(value) => ConstCounter::new(*value).encode(encoder),
        Value::Histogram(value) => histogram::encode(value, encoder),
    }
}

/// Families in the making, in the order in which they are first added to.
#[derive(Debug, Default)]
pub(super) struct FamilyList(Vec<MetricFamily>);

impl FamilyList {
    /// Adds a series. An unknown value has none; one with the labels of an earlier one is dropped.
    pub fn add(&mut self, metric: &'static Metric, labels: Vec<Label>, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.add_value(metric, labels, Value::Number(value));
        }
    }

    /// Adds a series of a histogram, likewise.
    pub fn add_histogram(&mut self, metric: &'static Metric, labels: Vec<Label>, value: LatencyHistogram) {
        self.add_value(metric, labels, Value::Histogram(value));
    }

    fn add_value(&mut self, metric: &'static Metric, labels: Vec<Label>, value: Value) {
        let at = self.0.iter().position(|family| std::ptr::eq(family.metric, metric));
        match at.and_then(|at| self.0.get_mut(at)) {
            None => self.0.push(MetricFamily { metric, series: vec![(labels, value)] }),
            Some(family) if family.series.iter().any(|(known, _)| *known == labels) => {}
            Some(family) => family.series.push((labels, value)),
        }
    }

    pub fn into_families(self) -> Vec<MetricFamily> {
        self.0
    }
}
