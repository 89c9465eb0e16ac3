//! Moves each sub-sample within its tenth of a second.
//!
//! Periodic work (a timer, a time slice of 100 ms) would meet sub-samples of the same period at the same phase each time: ten of
//! them would count as one, and show 0 or 100 % of what is 30 %. So each is taken a little earlier or later than it is due. The
//! offsets follow the golden ratio: any few in a row are spread evenly, and two sub-samples are at least 61 ms apart.

use std::time::{Duration, Instant};

/// From the earliest to the latest offset: the time between sub-samples, so that every phase of such a period is met.
const JITTER_SPAN: Duration = super::sampling_loop::SUB_SAMPLE_INTERVAL;

/// The sequence of offsets.
#[derive(Debug, Default)]
pub struct Jitter {
    /// In 1/2³² of `JITTER_SPAN`
    fraction: u32,
}

impl Jitter {
    /// When to take the next sub-sample, which is due at that time: at most half of `JITTER_SPAN` before or after.
    pub fn jittered(&mut self, due: Instant) -> Instant {
        const GOLDEN: u32 = 0x9E37_79B9;
        self.fraction = self.fraction.wrapping_add(GOLDEN);
        let shift = JITTER_SPAN.mul_f64(f64::from(self.fraction) / (f64::from(u32::MAX) + 1.0));
        due.checked_sub(JITTER_SPAN / 2).unwrap_or(due) + shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    /// The times of that many sub-samples, in ms after the first due time.
    fn times(count: u32) -> Vec<f64> {
        let (start, mut jitter) = (Instant::now() + TENTH, Jitter::default());
        (1..=count).map(|number| (jitter.jittered(start + TENTH * number) - start).as_secs_f64() * 1000.0).collect()
    }

    #[test]
    fn a_sub_sample_stays_in_its_tenth_and_apart_from_the_others() {
        let times = times(500);
        assert!(times.iter().zip(1..).all(|(at, number)| (at - 100.0 * f64::from(number)).abs() <= 50.0), "{times:?}");
        let apart = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.clone().all(|apart| (61.0..162.0).contains(&apart)), "{:?}", apart.collect::<Vec<f64>>());
    }

    /// Work in 30 % of each period is met by about 30 % of the sub-samples of each second, at whatever phase it starts.
    #[test]
    fn periodic_work_is_met_in_proportion() {
        let times = times(90);
        for period in [100.0, 50.0, 40.0, 25.0, 20.0, 10.0] {
            let met = |times: &[f64], start: f64| {
                let busy = times.iter().filter(|&at| ((at - start) / period).rem_euclid(1.0) < 0.3).count();
                busy as f64 / times.len() as f64
            };
            for start in [0.0, 0.2, 0.4, 0.6, 0.8].map(|part| part * period) {
                let each: Vec<f64> = times.chunks(9).map(|times| met(times, start)).collect();
                assert!(each.iter().all(|share| (0.0..0.7).contains(share)), "period {period} from {start}: {each:?}");
                let all = met(&times, start);
                assert!((0.25..0.35).contains(&all), "period {period} from {start}: {all}");
            }
        }
    }
}
