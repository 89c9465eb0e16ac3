//! Latencies of single requests of a device: median and 99th percentile of what is evaluated, and of what becomes a baseline.
//! Known where the eBPF program counts requests. docs/metrics.md, "Latency of single requests against its baseline".

use std::collections::VecDeque;
use std::sync::Arc;

use super::latency_window::DeviceLoad;
use super::{MIN_COMPLETIONS, SizeClass};
use crate::interval::disk::{DiskSpan, Operation};
use crate::interval::latency_histogram::LatencyHistogram;
use crate::units::Millis;

/// Fewest requests of a 99th percentile: one of fewer is their maximum, or nearly that.
pub const MIN_TAIL_REQUESTS: u64 = 100;

/// Median and 99th percentile of at least `MIN_TAIL_REQUESTS` requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantiles {
    pub p50: Millis,
    pub p99: Millis,
}

impl Quantiles {
    /// `None` with fewer than `MIN_TAIL_REQUESTS`.
    pub fn new(histogram: &LatencyHistogram) -> Option<Quantiles> {
        if histogram.requests() < MIN_TAIL_REQUESTS {
            return None;
        }
        Some(Quantiles { p50: histogram.quantile(0.5)?, p99: histogram.quantile(0.99)? })
    }

    /// p50 and p99 as multiples of those of a baseline; `None` if that is 0, as in a damaged file.
    pub(super) fn multiples(&self, baseline: &Quantiles) -> Option<(f64, f64)> {
        let is_positive = baseline.p50.0 > 0.0 && baseline.p99.0 > 0.0;
        is_positive.then(|| (self.p50.0 / baseline.p50.0, self.p99.0 / baseline.p99.0))
    }
}

/// The latencies of single requests against their baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestStatus {
    pub baseline: Quantiles,
    /// Of the evaluated requests; `None` if there are too few
    pub window: Option<RequestWindow>,
}

impl RequestStatus {
    /// The evaluated requests beside their baseline; `None` if there are too few of them.
    pub fn compared(&self) -> Option<ComparedRequests> {
        let window = self.window?;
        let (p50_multiple, p99_multiple) = window.quantiles.multiples(&self.baseline)?;
        Some(ComparedRequests { window, baseline: self.baseline, p50_multiple, p99_multiple })
    }
}

/// The evaluated requests beside their baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComparedRequests {
    pub window: RequestWindow,
    pub baseline: Quantiles,
    pub p50_multiple: f64,
    pub p99_multiple: f64,
}

/// The evaluated requests: those of the latest interval and, up to a second, of as many before it as are needed for a p99.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestWindow {
    pub quantiles: Quantiles,
    pub requests: u64,
    /// Σ (latency − p99 of the baseline) of the requests above it, per second. Unmeasured requests count alike.
    pub lost_seconds_per_second: f64,
}

/// Of one interval, by operation: what was measured, and how many operations were not
type Histograms = Arc<[(Operation, LatencyHistogram, u64)]>;

/// Latencies of the requests of one device in the last second.
#[derive(Clone, Debug, Default)]
pub struct RequestLatencies {
    /// Of the latest intervals, oldest first: length in seconds, and histograms
    recent: VecDeque<(f64, Histograms)>,
    /// Of the second that is not an observation yet
    accumulating: Vec<(Operation, LatencyHistogram)>,
    /// Of uncontended seconds under light load that together have too few requests for a p99
    learning: Vec<(Operation, SizeClass, LatencyHistogram)>,
    /// Those that have enough now
    finished: Vec<(Operation, SizeClass, Quantiles)>,
}

impl RequestLatencies {
    /// Adds the next interval; `kept`: that many intervals are evaluated, this one included.
    pub(super) fn push(&mut self, span: &DiskSpan, seconds: f64, kept: usize) {
        let histograms = span.operations().map(|(operation, _)| {
            let measured = span.latency(operation).map(|known| known.total.clone()).unwrap_or_default();
            (operation, measured, span.unmeasured(operation))
        });
        self.recent.push_back((seconds, histograms.collect()));
        self.recent.drain(..self.recent.len().saturating_sub(kept));
        self.finished.clear();
        for latency in &span.latencies {
            match self.accumulating.iter_mut().find(|known| known.0 == latency.operation) {
                Some((_, sum)) => sum.merge(&latency.total),
                None => self.accumulating.push((latency.operation, latency.total.clone())),
            }
        }
    }

    /// Ends a second with that load.
    pub(super) fn finish_second(&mut self, load: &DeviceLoad) {
        for (operation, latencies) in std::mem::take(&mut self.accumulating) {
            let is_learnable =
                load.completed(operation) >= MIN_COMPLETIONS && load.is_uncontended(operation) && load.is_lightly_loaded();
            if !is_learnable {
                continue;
            }
            let size = SizeClass::from_mean_kib(load.request_kib(operation));
            // Requests of another size have another baseline.
            self.learning.retain(|known| known.0 != operation || known.1 == size);
            match self.learning.iter_mut().find(|known| known.0 == operation) {
                Some((.., sum)) => sum.merge(&latencies),
                None => self.learning.push((operation, size, latencies)),
            }
        }
        let finished = &mut self.finished;
        self.learning.retain(|(operation, size, latencies)| match Quantiles::new(latencies) {
            Some(quantiles) => {
                finished.push((*operation, *size, quantiles));
                false
            }
            None => true,
        });
    }

    /// Whether requests are kept that may become a part of a baseline.
    pub(super) fn is_learning(&self) -> bool {
        !self.learning.is_empty() || !self.finished.is_empty()
    }

    /// The quantiles that a finished second gives for learning.
    pub(super) fn finished(&self, operation: Operation, size: SizeClass) -> Option<Quantiles> {
        self.finished.iter().find(|known| (known.0, known.1) == (operation, size)).map(|known| known.2)
    }

    /// The requests by which an operation is evaluated against a baseline.
    pub(super) fn window(&self, operation: Operation, baseline: &Quantiles) -> Option<RequestWindow> {
        let mut sum = LatencyHistogram::default();
        let (mut seconds, mut unmeasured) = (0.0, 0_u64);
        let quantiles = self.recent.iter().rev().find_map(|(length, histograms)| {
            seconds += length;
            let of_operation = histograms.iter().filter(|known| known.0 == operation);
            of_operation.for_each(|(_, latencies, missing)| {
                sum.merge(latencies);
                unmeasured = unmeasured.saturating_add(*missing);
            });
            Quantiles::new(&sum)
        })?;
        let lost_ms: f64 = sum.counts().map(|(latency, count)| (latency.0 - baseline.p99.0).max(0.0) * count as f64).sum();
        let requests = sum.requests();
        let lost_of_all_ms = lost_ms * requests.saturating_add(unmeasured) as f64 / requests as f64;
        let lost_seconds_per_second = if seconds > 0.0 { lost_of_all_ms / 1000.0 / seconds } else { 0.0 };
        Some(RequestWindow { quantiles, requests, lost_seconds_per_second })
    }
}
