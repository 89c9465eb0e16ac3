//! Takes fewer samples where they are expensive: if a sample takes more CPU time than a quarter of its interval, samples are
//! taken only at every second or third due time, so that stalltop does not add to the load of an overloaded machine.

use std::time::Duration;

use nix::time::ClockId;

use crate::kernel::scan::read_clock_ns;

/// The share of one CPU that samples may take. Sub-samples have a smaller limit of their own.
const MAX_CPU_SHARE: f64 = 0.25;
/// A sample is taken at least at every tenth due time.
const MAX_STRIDE: u32 = 10;

/// The recent cost of samples.
#[derive(Debug, Default)]
pub struct Throttle {
    /// CPU time of the last sample
    last: Option<Duration>,
    /// The first sample fills caches and is not counted
    first_done: bool,
}

impl Throttle {
    /// The number of due times to the next sample, after one of that CPU time. A single expensive sample changes nothing.
    pub fn stride(&mut self, cpu_time: Duration, interval: Duration) -> u32 {
        if !std::mem::replace(&mut self.first_done, true) {
            return 1;
        }
        let typical = self.last.replace(cpu_time).map_or(Duration::ZERO, |last| last.min(cpu_time));
        let intervals = typical.as_secs_f64() / (interval.as_secs_f64().max(0.001) * MAX_CPU_SHARE);
        (intervals.ceil() as u32).clamp(1, MAX_STRIDE)
    }
}

/// The result of `work`, and the CPU time of this thread that it took.
pub fn with_cpu_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let clock = || read_clock_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
    let start = clock();
    let result = work();
    (result, Duration::from_nanos(clock().saturating_sub(start)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_keep_to_their_cpu_share_and_one_expensive_sample_changes_nothing() {
        let mut throttle = Throttle::default();
        let mut stride = |ms: u64| throttle.stride(Duration::from_millis(ms), Duration::from_secs(1));
        let strides = [3000, 10, 900, 10, 240, 250, 260, 600, 600, 9000, 9000, 5].map(&mut stride);
        assert_eq!(strides, [1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 10, 1]);
    }
}
