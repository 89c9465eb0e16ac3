//! Buckets of histograms of times, as the eBPF programs count them (assets/probe/histogram_buckets.h): one scheme, in two resolutions.

use std::fmt::Debug;
use std::ops::Range;

const UNIT_NS: u64 = 128;

/// One of `COUNT` buckets: 2×`SUB_BUCKETS` of 128 ns each, then `SUB_BUCKETS` for each power of two; the last also has all longer
/// times.
pub trait HistogramBucket: Copy + Ord + Debug {
    /// A bucket is at most its lower edge ÷ this wide.
    const SUB_BUCKETS: u16;
    const COUNT: usize = 32 * Self::SUB_BUCKETS as usize;

    /// Its place, from 0
    fn number(self) -> u16;

    /// The times in it, in nanoseconds.
    fn edges_ns(self) -> Range<u64> {
        let sub_buckets = u64::from(Self::SUB_BUCKETS);
        let lower = |number: u64| match number / sub_buckets {
            0 => number * UNIT_NS,
            power => ((sub_buckets + number % sub_buckets) << (power - 1)) * UNIT_NS,
        };
        let number = u64::from(self.number());
        lower(number)..lower(number + 1)
    }
}

/// Of block requests and waits for a CPU, up to 37 minutes: the middle of a bucket is within 6.25 % of all in it.
impl HistogramBucket for u8 {
    const SUB_BUCKETS: u16 = 8;

    fn number(self) -> u16 {
        u16::from(self)
    }
}

/// Of queries, up to 2.4 hours: a bucket is at most 3.2 % wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FineBucket(u16);

impl HistogramBucket for FineBucket {
    const SUB_BUCKETS: u16 = 32;

    fn number(self) -> u16 {
        self.0
    }
}

impl FineBucket {
    /// All of them, the shortest times first.
    pub fn all() -> impl Iterator<Item = FineBucket> {
        (0..32 * Self::SUB_BUCKETS).map(FineBucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_adjacent<B: HistogramBucket>(buckets: &[B]) {
        assert_eq!(buckets.len(), B::COUNT);
        assert_eq!(buckets.first().map(|first| first.edges_ns()), Some(0..128));
        for pair in buckets.windows(2) {
            let [this, next] = [pair[0].edges_ns(), pair[1].edges_ns()];
            assert_eq!(this.end, next.start);
            let is_linear = pair[0].number() < B::SUB_BUCKETS;
            assert!(is_linear || (this.end - this.start) * u64::from(B::SUB_BUCKETS) <= this.start, "{pair:?}");
        }
    }

    #[test]
    fn buckets_are_adjacent_and_no_wider_than_they_say() {
        assert_adjacent(&(0..=u8::MAX).collect::<Vec<u8>>());
        assert_eq!([0_u8, 7, 8, 16].map(HistogramBucket::edges_ns), [0..128, 896..1024, 1024..1152, 2048..2304]);
        assert_eq!(u8::MAX.edges_ns().end, 1 << 41);
        let fine = FineBucket::all().collect::<Vec<FineBucket>>();
        assert_adjacent(&fine);
        assert_eq!([31, 32, 64].map(|number: usize| fine[number].edges_ns()), [3968..4096, 4096..4224, 8192..8448]);
        assert_eq!(fine[1023].edges_ns().end, 1 << 43);
    }
}
