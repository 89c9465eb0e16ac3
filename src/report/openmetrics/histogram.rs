//! A latency histogram as Prometheus has it: cumulative classic buckets for the text formats, and the exponential buckets of a native
//! histogram, which the protobuf format has too. The exponential ones are OpenTelemetry's as well.
//!
//! A bucket of ours is counted at its middle, within 6.25 % of all in it.

use std::fmt;

use prometheus_client::encoding::{MetricEncoder, NativeHistogram, NativeHistogramBuckets, NoLabelSet};

use crate::interval::latency_histogram::LatencyHistogram;

/// Upper bounds of the classic buckets in seconds: few, since each is a series.
const BOUNDS: [f64; 8] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0];

/// 16 buckets to a power of two. Middles of adjacent buckets of ours differ by 6.6 % or more, those of this schema by 4.4 %: none has
/// two of ours.
pub const SCHEMA: i32 = 4;

/// As recommended by Prometheus: 2^-128. No latency is shorter.
const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// The middle of each bucket in seconds, and the number in it, the shortest first.
fn seconds(histogram: &LatencyHistogram) -> impl Iterator<Item = (f64, u64)> {
    histogram.counts().map(|(middle, count)| (middle.0 / 1e3, count))
}

/// The sum of all in seconds, within 6.25 %.
pub fn sum_seconds(histogram: &LatencyHistogram) -> f64 {
    seconds(histogram).map(|(seconds, count)| seconds * count as f64).sum()
}

/// Indices of exponential buckets and their counts, more than none, in order. Bucket i has durations of more than 2^((i-1)/16)
/// seconds, up to 2^(i/16).
pub fn exponential_buckets(histogram: &LatencyHistogram) -> Vec<(i32, u64)> {
    let per_octave = f64::from(1 << SCHEMA);
    let index = |seconds: f64| (libm::log2(seconds) * per_octave).ceil() as i32;
    let mut buckets: Vec<(i32, u64)> = Vec::new();
    for (seconds, count) in seconds(histogram) {
        match buckets.last_mut().filter(|last| last.0 == index(seconds)) {
            Some(last) => last.1 = last.1.saturating_add(count),
            None => buckets.push((index(seconds), count)),
        }
    }
    buckets
}

/// Upper bounds, the last infinite, and how many are between each and the one before.
fn classic_buckets(histogram: &LatencyHistogram) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = BOUNDS.into_iter().chain([f64::INFINITY]).map(|bound| (bound, 0)).collect();
    for (seconds, count) in seconds(histogram) {
        if let Some(bucket) = buckets.iter_mut().find(|bucket| seconds <= bucket.0) {
            bucket.1 = bucket.1.saturating_add(count);
        }
    }
    buckets
}

/// Runs of adjacent buckets, as the gap before each and its length, and the difference of each count to the one before.
fn spans_and_deltas(buckets: &[(i32, u64)]) -> (Vec<(i32, u32)>, Vec<i64>) {
    let (mut spans, mut deltas): (Vec<(i32, u32)>, Vec<i64>) = Default::default();
    // The gap of the first is its index.
    let (mut next, mut before) = (0, 0);
    for &(index, count) in buckets {
        match spans.last_mut().filter(|_| index == next) {
            Some(span) => span.1 += 1,
            None => spans.push((index - next, 1)),
        }
        next = index + 1;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        deltas.push(count - before);
        before = count;
    }
    (spans, deltas)
}

/// Writes it as a series of a histogram family.
pub fn encode(histogram: &LatencyHistogram, mut encoder: MetricEncoder<'_>) -> fmt::Result {
    let (spans, deltas) = spans_and_deltas(&exponential_buckets(histogram));
    let native = NativeHistogram {
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        zero_count: 0,
        negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
        positive: NativeHistogramBuckets { spans: &spans, deltas: &deltas },
        created: None,
    };
    let (sum, count) = (sum_seconds(histogram), histogram.requests());
    encoder.encode_histogram_with_native::<NoLabelSet>(sum, count, &classic_buckets(histogram), None, native)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_of_ours_has_an_exponential_one_of_its_own_that_contains_its_middle() {
        let all = LatencyHistogram::new((0..=u8::MAX).map(|bucket| (bucket, u64::from(bucket) + 1)));
        let buckets = exponential_buckets(&all);
        assert_eq!(buckets.len(), 256);
        for ((index, count), (seconds, expected)) in buckets.iter().zip(seconds(&all)) {
            let bound = |index: i32| libm::exp2(f64::from(index) / 16.0);
            assert!(bound(index - 1) < seconds && seconds <= bound(*index), "{index}: {seconds}");
            assert_eq!(*count, expected);
        }
    }

    #[test]
    fn spans_and_deltas_are_read_back_as_the_buckets() {
        let buckets = [(-213, 5), (-212, 1), (-209, 1), (-20, 700), (3, 2)];
        let (spans, deltas) = spans_and_deltas(&buckets);
        assert_eq!(spans, [(-213, 2), (2, 1), (188, 1), (22, 1)]);
        assert_eq!(deltas, [5, -4, 0, 699, -698]);
        assert_eq!(spans_and_deltas(&[]), (vec![], vec![]));
    }

    #[test]
    fn classic_buckets_have_each_request_once() {
        // 2.2 µs, 557 µs, 18 minutes
        let histogram = LatencyHistogram::new([(16, 64), (80, 3), (u8::MAX - 8, 1)]);
        let counts: Vec<u64> = classic_buckets(&histogram).iter().map(|bucket| bucket.1).collect();
        assert_eq!(counts, [64, 0, 3, 0, 0, 0, 0, 0, 1]);
        let without: u64 = classic_buckets(&LatencyHistogram::default()).iter().map(|bucket| bucket.1).sum();
        assert_eq!(without, 0);
    }
}
