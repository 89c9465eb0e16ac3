//! A distribution of latencies: how many were in each bucket of `sample/histogram_bucket`, their sum, mean and quantiles. A quantile is the
//! middle of its bucket; that of a block request is within 6.25 % of the exact one.

use crate::sample::histogram_bucket::{FineBucket, HistogramBucket};
use crate::units::Millis;

/// Of block requests and waits for a CPU.
pub type LatencyHistogram = Histogram<u8>;
/// Of queries.
pub type QueryHistogram = Histogram<FineBucket>;

/// Counts of requests by latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram<B> {
    /// Buckets and requests in them, more than none; sorted
    counts: Vec<(B, u64)>,
}

impl<B> Default for Histogram<B> {
    fn default() -> Histogram<B> {
        Histogram { counts: Vec::new() }
    }
}

impl<B: HistogramBucket> Histogram<B> {
    /// From buckets in their order, and the number in each.
    pub fn new(counts: impl IntoIterator<Item = (B, u64)>) -> Histogram<B> {
        let mut histogram = Histogram::default();
        for (bucket, count) in counts {
            histogram.add(bucket, count);
        }
        histogram
    }

    /// The sum of several.
    pub fn sum<'a>(all: impl Iterator<Item = &'a Histogram<B>>) -> Histogram<B>
    where
        B: 'a,
    {
        let mut sum = Histogram::default();
        all.for_each(|histogram| sum.merge(histogram));
        sum
    }

    /// Those that are not among `part`.
    pub fn without(&self, part: &Histogram<B>) -> Histogram<B> {
        Histogram::new(self.counts.iter().map(|&(bucket, count)| (bucket, count.saturating_sub(part.count(bucket)))))
    }

    fn count(&self, bucket: B) -> u64 {
        let place = self.counts.binary_search_by_key(&bucket, |known| known.0).ok();
        place.and_then(|place| self.counts.get(place)).map_or(0, |known| known.1)
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Requests in it.
    pub fn requests(&self) -> u64 {
        self.counts.iter().map(|count| count.1).fold(0, u64::saturating_add)
    }

    /// The latency that this share of the requests, 0 to 1, did not exceed; `None` without requests.
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        let rank = (self.requests() as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0_u64;
        let bucket = self.counts.iter().find(|&&(_, count)| {
            sum = sum.saturating_add(count);
            sum >= rank
        })?;
        Some(middle(bucket.0))
    }

    /// As `quantile`, but within its bucket by rank, as if the bucket's requests were spread evenly: closer than the middle where a
    /// bucket has many.
    pub fn interpolated_quantile(&self, share: f64) -> Option<Millis> {
        let rank = (self.requests() as f64 * share).ceil().max(1.0);
        let mut sum = 0.0;
        let &(bucket, count) = self.counts.iter().find(|&&(_, count)| {
            sum += count as f64;
            sum >= rank
        })?;
        let edges = bucket.edges_ns();
        let within = (rank - 0.5 - (sum - count as f64)) / count as f64;
        Some(Millis((edges.start as f64 + within * (edges.end - edges.start) as f64) / 1e6))
    }

    /// The longest latency, as the middle of its bucket; `None` without requests.
    pub fn max(&self) -> Option<Millis> {
        self.counts.last().map(|&(bucket, _)| middle(bucket))
    }

    /// Their times added up.
    pub fn total(&self) -> Millis {
        Millis(self.counts().map(|(middle, count)| middle.0 * count as f64).sum())
    }

    /// The mean time, from the middles of the buckets; `None` if it is empty.
    pub fn mean(&self) -> Option<Millis> {
        let count = self.requests();
        (count > 0).then(|| Millis(self.total().0 / count as f64))
    }

    /// The middle of each bucket with requests, and how many, the shortest first.
    pub fn counts(&self) -> impl Iterator<Item = (Millis, u64)> {
        self.counts.iter().map(|&(bucket, count)| (middle(bucket), count))
    }

    /// Each bucket with requests, and how many, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (B, u64)> {
        self.counts.iter().copied()
    }

    /// Adds the requests of another histogram.
    pub fn merge(&mut self, other: &Histogram<B>) {
        let mut place = 0;
        for &(bucket, count) in &other.counts {
            while self.counts.get(place).is_some_and(|known| known.0 < bucket) {
                place += 1;
            }
            match self.counts.get_mut(place).filter(|known| known.0 == bucket) {
                Some(known) => known.1 = known.1.saturating_add(count),
                None => self.counts.insert(place, (bucket, count)),
            }
        }
    }

    /// Adds a bucket behind all others.
    pub(super) fn add(&mut self, bucket: B, count: u64) {
        if count > 0 {
            self.counts.push((bucket, count));
        }
    }
}

fn middle<B: HistogramBucket>(bucket: B) -> Millis {
    let edges = bucket.edges_ns();
    Millis((edges.start + edges.end) as f64 / 2.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_histograms_have_the_requests_of_both() {
        let (one, other) = (LatencyHistogram::new([(16, 64), (80, 1)]), LatencyHistogram::new([(7, 2), (16, 3), (90, 5)]));
        let mut merged = one.clone();
        merged.merge(&other);
        assert_eq!(merged, LatencyHistogram::sum([&one, &other].into_iter()));
        assert_eq!(merged.buckets().collect::<Vec<_>>(), [(7, 2), (16, 67), (80, 1), (90, 5)]);
    }

    #[test]
    fn an_interpolated_quantile_is_within_its_bucket_by_rank() {
        // 2,048 to 2,304 ns, and 524,288 to 589,824 ns
        let histogram = LatencyHistogram::new([(16, 64), (80, 1)]);
        let ns = |share| histogram.interpolated_quantile(share).map(|latency| (latency.0 * 1e6).round());
        assert_eq!([ns(0.0), ns(0.5), ns(64.0 / 65.0), ns(1.0)], [2050.0, 2178.0, 2302.0, 557_056.0].map(Some));
        let without = histogram.without(&LatencyHistogram::new([(16, 64), (17, 3)]));
        assert_eq!((without.requests(), without.max()), (1, Some(middle(80_u8))));
        assert_eq!(LatencyHistogram::default().interpolated_quantile(0.5), None);
    }
}
