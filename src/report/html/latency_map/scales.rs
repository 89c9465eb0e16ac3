//! The two scales of a map of latencies: rows of about the same latency, and shades for numbers of requests.

use std::ops::RangeInclusive;

use crate::interval::latency_histogram::LatencyHistogram;
use crate::sample::histogram_bucket::HistogramBucket;
use crate::units::Millis;

/// The least and the most rows of a map, without the empty row at each end.
const MIN_ROWS: u8 = 14;
const MAX_ROWS: u8 = 46;

/// Labels at most.
const MAX_TICKS: usize = 9;

/// Latencies from bottom to top. A row is one, two, four or eight neighbouring buckets of the histogram, which has eight to each
/// power of two; all rows have the same height. The scale is logarithmic from one power of two to the next, and linear within one: the
/// difference is less than a tenth of a power of two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rows {
    /// The bottom row, counted in rows from bucket 0
    first: u8,
    last: u8,
    buckets_per_row: u8,
}

impl Rows {
    /// For the latencies of a histogram, in rows as narrow as `MAX_ROWS` permits; `None` if it is empty.
    pub fn new(histogram: &LatencyHistogram) -> Option<Rows> {
        let (low, high) = (histogram.buckets().next()?.0, histogram.buckets().last()?.0);
        let fits = |each: &u8| high / each - low / each < MAX_ROWS;
        let buckets_per_row = [1, 2, 4].into_iter().find(fits).unwrap_or(8);
        let (low, high) = (low / buckets_per_row, high / buckets_per_row);
        let missing = MIN_ROWS.saturating_sub(high - low + 1);
        let first = low.saturating_sub(missing / 2 + 1);
        let last = high.saturating_add(missing.div_ceil(2) + 1).min(u8::MAX / buckets_per_row);
        Some(Rows { first, last, buckets_per_row })
    }

    pub fn count(self) -> usize {
        usize::from(self.last - self.first) + 1
    }

    /// The row of a bucket, from the bottom.
    pub fn row(self, bucket: u8) -> usize {
        usize::from((bucket / self.buckets_per_row).saturating_sub(self.first))
    }

    /// The position of a latency, in rows from the lower edge of the bottom one.
    pub fn position(self, latency: Millis) -> f64 {
        let ns = latency.0 * 1e6;
        let bucket = (0..=u8::MAX).rev().find(|&bucket| bucket.edges_ns().start as f64 <= ns).unwrap_or(0);
        let edges = bucket.edges_ns();
        let within = ((ns - edges.start as f64) / (edges.end - edges.start) as f64).clamp(0.0, 1.0);
        let position = (f64::from(bucket) + within) / f64::from(self.buckets_per_row) - f64::from(self.first);
        position.clamp(0.0, self.count() as f64)
    }

    /// Round latencies: powers of ten, with 2 and 5 times these where there is room.
    pub fn ticks(self) -> Vec<Millis> {
        let edge = |row: u8| row.saturating_mul(self.buckets_per_row).edges_ns().start as f64 / 1e6;
        let range: RangeInclusive<f64> = edge(self.first)..=edge(self.last);
        let ticks = |digits: &[f64]| -> Vec<Millis> {
            let all = (-4..=7).flat_map(|power| digits.iter().map(move |digit| digit * 10_f64.powi(power)));
            all.filter(|tick| range.contains(tick)).map(Millis).collect()
        };
        let fine = ticks(&[1.0, 2.0, 5.0]);
        if fine.len() <= MAX_TICKS { fine } else { ticks(&[1.0]) }
    }
}

/// Shades of the page's style, `s0` to `s9`.
const SHADES: usize = 10;

/// Shades by the number of requests, on a logarithmic scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Shades {
    /// The least number of requests of each level
    pub levels: Vec<u64>,
}

impl Shades {
    /// For cells with up to that many requests: 1, 2, 4, 8 … where those are enough, otherwise 1, 3, 10, 30 … or 1, 10, 100 …
    pub fn new(most: u64) -> Shades {
        let series: [fn(u32) -> u64; 3] = [
            |level| 2_u64.saturating_pow(level),
            |level| 10_u64.saturating_pow(level / 2) * if level % 2 == 0 { 1 } else { 3 },
            |level| 10_u64.saturating_pow(level),
        ];
        let levels =
            |least: fn(u32) -> u64| -> Vec<u64> { (0..=SHADES as u32).map(least).take_while(|&least| least <= most).collect() };
        let [binary, halves, decades] = series.map(levels);
        let mut levels = [binary, halves].into_iter().find(|levels| levels.len() <= SHADES).unwrap_or(decades);
        levels.truncate(SHADES);
        Shades { levels }
    }

    /// The shade of a cell; `None` without requests.
    pub fn shade(&self, requests: u64) -> Option<usize> {
        let level = self.levels.partition_point(|&least| least <= requests).checked_sub(1)?;
        Some(self.of_level(level))
    }

    /// The shade of a level, spread evenly from the palest to the darkest.
    pub fn of_level(&self, level: usize) -> usize {
        match self.levels.len() {
            0 | 1 => SHADES / 2,
            levels => level * (SHADES - 1) / (levels - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(ticks: &[Millis]) -> Vec<f64> {
        ticks.iter().map(|tick| (tick.0 * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn rows_are_as_narrow_as_there_is_room() {
        assert_eq!(Rows::new(&LatencyHistogram::default()), None);
        // One bucket: from 524,288 ns.
        let rows = Rows::new(&LatencyHistogram::new([(80, 1)])).unwrap();
        assert_eq!((rows.count(), rows.row(80)), (16, 7));
        assert_eq!(milliseconds(&rows.ticks()), [0.5, 1.0]);
        // From 2 µs to half a second: 18 powers of two, two rows each.
        let rows = Rows::new(&LatencyHistogram::new([(16, 1), (159, 1)])).unwrap();
        assert_eq!((rows.count(), [155, 156, 159, 160].map(|bucket| rows.row(bucket))), (38, [35, 36, 36, 37]));
        assert_eq!(milliseconds(&rows.ticks()), [0.01, 0.1, 1.0, 10.0, 100.0]);
        // All that there is.
        let rows = Rows::new(&LatencyHistogram::new([(0, 1), (255, 1)])).unwrap();
        assert_eq!((rows.count(), rows.row(255)), (32, 31));
    }

    #[test]
    fn a_latency_stands_in_the_row_of_its_bucket() {
        for buckets in [[(80, 1), (90, 1)], [(16, 1), (159, 1)], [(0, 1), (255, 1)]] {
            let histogram = LatencyHistogram::new(buckets);
            let rows = Rows::new(&histogram).unwrap();
            for (bucket, (middle, _)) in buckets.iter().map(|bucket| bucket.0).zip(histogram.counts()) {
                assert_eq!(rows.position(middle) as usize, rows.row(bucket));
            }
        }
    }

    #[test]
    fn shades_are_round_numbers_of_requests() {
        let levels = |most: u64| Shades::new(most).levels;
        assert_eq!((levels(1), levels(9)), (vec![1], vec![1, 2, 4, 8]));
        assert_eq!(levels(1023).last(), Some(&512));
        assert_eq!(levels(5000), [1, 3, 10, 30, 100, 300, 1000, 3000]);
        assert_eq!(levels(2_000_000), [1, 10, 100, 1000, 10_000, 100_000, 1_000_000]);
        assert_eq!(levels(u64::MAX).len(), SHADES);
        let shades = Shades::new(9);
        assert_eq!([0, 1, 3, 8, 9].map(|requests| shades.shade(requests)), [None, Some(0), Some(3), Some(9), Some(9)]);
    }
}
