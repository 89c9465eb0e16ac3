//! Metric families as a request of OTLP.

use std::borrow::Cow;

use opentelemetry_proto::tonic::collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, Sum, exponential_histogram_data_point::Buckets, metric, number_data_point,
};
use prost::Message;

use super::names::{attribute_of, name_and_unit};
use super::{TelemetryResource, attribute};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::report::openmetrics::histogram::{SCHEMA, exponential_buckets, sum_seconds};
use crate::report::openmetrics::{Label, MetricFamily, MetricKind, Value};
use crate::sample::Instant;

/// The families as the body of a request to /v1/metrics. `at`: the end of their interval; `start`: the first sample.
pub fn metrics_request(families: &[MetricFamily], resource: &TelemetryResource, at: Instant, start: Instant) -> Vec<u8> {
    let times = Times {
        at: unix_ns(at),
        start: unix_ns(start),
        // The kernel's counters begin at boot.
        boot: unix_ns(at).saturating_sub(at.boottime_ns),
    };
    let metrics = families.iter().flat_map(|family| metrics_of(family, &times)).collect();
    let scope = ScopeMetrics { scope: Some(resource.scope()), metrics, ..ScopeMetrics::default() };
    let resource_metrics =
        ResourceMetrics { resource: Some(resource.resource()), scope_metrics: vec![scope], ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }.encode_to_vec()
}

/// 0 before 1970.
pub(super) fn unix_ns(at: Instant) -> u64 {
    u64::try_from(at.realtime_ns).unwrap_or(0)
}

/// Unix time in ns.
struct Times {
    at: u64,
    start: u64,
    boot: u64,
}

/// One metric, or two where only some of its series have a name in the conventions.
fn metrics_of(family: &MetricFamily, times: &Times) -> Vec<Metric> {
    let mut metrics = number_metrics(family, times);
    metrics.extend(histogram_metric(family, times));
    metrics
}

fn number_metrics(family: &MetricFamily, times: &Times) -> Vec<Metric> {
    let mut points: Vec<(Cow<'static, str>, &'static str, Vec<NumberDataPoint>)> = Vec::new();
    for (labels, value) in &family.series {
        let Some(value) = value.number() else { continue };
        let (name, unit) = name_and_unit(family.metric, labels);
        let point = data_point(family, labels, value, times);
        match points.iter_mut().find(|(known, _, _)| *known == name) {
            Some((_, _, points)) => points.push(point),
            None => points.push((name, unit, vec![point])),
        }
    }
    let metric = |(name, unit, data_points): (Cow<'static, str>, &str, Vec<NumberDataPoint>)| Metric {
        // A number of CPUs can be added up over hosts; it falls, too.
        data: Some(match family.metric.kind {
            MetricKind::Gauge if name == "system.cpu.logical.count" => sum(data_points, false),
            MetricKind::Gauge => metric::Data::Gauge(Gauge { data_points }),
            MetricKind::Counter | MetricKind::Total | MetricKind::Histogram => sum(data_points, true),
        }),
        name: name.into_owned(),
        description: family.metric.help.to_owned(),
        unit: unit.to_owned(),
        ..Metric::default()
    };
    points.into_iter().map(metric).collect()
}

/// `None`: the family has numbers.
fn histogram_metric(family: &MetricFamily, times: &Times) -> Option<Metric> {
    let points = family.series.iter().filter_map(|(labels, value)| match value {
        Value::Histogram(histogram) => Some(histogram_point(family, labels, histogram, times)),
        Value::Number(_) => None,
    });
    let data_points: Vec<ExponentialHistogramDataPoint> = points.collect();
    let (name, unit) = name_and_unit(family.metric, &family.series.first()?.0);
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    (!data_points.is_empty()).then(|| Metric {
        data: Some(metric::Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality })),
        name: name.into_owned(),
        description: family.metric.help.to_owned(),
        unit: unit.to_owned(),
        ..Metric::default()
    })
}

fn histogram_point(
    family: &MetricFamily,
    labels: &[Label],
    histogram: &LatencyHistogram,
    times: &Times,
) -> ExponentialHistogramDataPoint {
    let buckets = exponential_buckets(histogram);
    let first = buckets.first().map_or(0, |bucket| bucket.0);
    let mut bucket_counts = Vec::new();
    for (index, count) in buckets {
        bucket_counts.resize(usize::try_from(index - first).unwrap_or_default(), 0);
        bucket_counts.push(count);
    }
    ExponentialHistogramDataPoint {
        attributes: attributes(family, labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.at,
        count: histogram.requests(),
        sum: Some(sum_seconds(histogram)),
        scale: SCHEMA,
        // Bucket i of OpenTelemetry is bucket i + 1 of Prometheus.
        positive: Some(Buckets { offset: first - 1, bucket_counts }),
        ..ExponentialHistogramDataPoint::default()
    }
}

fn sum(data_points: Vec<NumberDataPoint>, is_monotonic: bool) -> metric::Data {
    metric::Data::Sum(Sum { data_points, aggregation_temporality: AggregationTemporality::Cumulative.into(), is_monotonic })
}

fn data_point(family: &MetricFamily, labels: &[Label], value: f64, times: &Times) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(family, labels),
        start_time_unix_nano: match family.metric.kind {
            MetricKind::Counter => times.boot,
            MetricKind::Total | MetricKind::Histogram => times.start,
            MetricKind::Gauge => 0,
        },
        time_unix_nano: times.at,
        value: Some(number_data_point::Value::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

fn attributes(family: &MetricFamily, labels: &[Label]) -> Vec<KeyValue> {
    let attributes = labels.iter().map(|label| {
        let (key, value) = attribute_of(family.metric, label);
        attribute(&key, &value)
    });
    attributes.collect()
}

/// What an accepted request's answer says about data points that were not stored: their number and why. `None`: all were stored, or
/// the answer cannot be read.
pub fn rejected_points(answer: &[u8]) -> Option<(i64, String)> {
    let partial = ExportMetricsServiceResponse::decode(answer).ok()?.partial_success?;
    (partial.rejected_data_points > 0).then_some((partial.rejected_data_points, partial.error_message))
}
