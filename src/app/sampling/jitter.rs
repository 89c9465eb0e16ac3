//! When within its tenth of a second a sub-sample looks.
//!
//! What goes on in a fixed beat (a timer's, a scheduler's slice of 100 ms) meets looks in a fixed beat at the same moment each
//! time: ten looks would be one, and say 0 or 100 % of what is 30. So each comes a little earlier or later than its tenth, by
//! the golden ratio: over any few looks in a row the moments spread evenly, and two are never closer than 61 ms.

use std::time::{Duration, Instant};

/// How far apart the earliest and the latest moment are: the time between two looks, so that a beat as long is met everywhere.
const JITTER_SPAN: Duration = super::SUB_SAMPLE_INTERVAL;

/// The moments of the looks to come.
#[derive(Debug, Default)]
pub struct Jitter {
    /// In parts of 2³² of `SPREAD`
    fraction: u32,
}

impl Jitter {
    /// The moment of the next look, which is due then: at most half of `SPREAD` before or after.
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

    /// The moments of so many looks, in ms from a first due time on.
    fn moments(count: u32) -> Vec<f64> {
        let (begin, mut phase) = (Instant::now() + TENTH, Jitter::default());
        (1..=count).map(|look| (phase.jittered(begin + TENTH * look) - begin).as_secs_f64() * 1000.0).collect()
    }

    #[test]
    fn a_look_stays_in_its_tenth_and_away_from_the_others() {
        let moments = moments(500);
        assert!(moments.iter().zip(1..).all(|(at, look)| (at - 100.0 * f64::from(look)).abs() <= 50.0), "{moments:?}");
        let apart = moments.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(apart.clone().all(|apart| (61.0..162.0).contains(&apart)), "{:?}", apart.collect::<Vec<f64>>());
    }

    /// What is there in 30 % of each beat is seen by about as many looks of each second, whenever in the beat it begins.
    #[test]
    fn a_fixed_beat_is_seen_as_often_as_it_is_there() {
        let moments = moments(90);
        for beat in [100.0, 50.0, 40.0, 25.0, 20.0, 10.0] {
            let seen = |looks: &[f64], begins: f64| {
                let there = looks.iter().filter(|&at| ((at - begins) / beat).rem_euclid(1.0) < 0.3).count();
                there as f64 / looks.len() as f64
            };
            for begins in [0.0, 0.2, 0.4, 0.6, 0.8].map(|part| part * beat) {
                let each: Vec<f64> = moments.chunks(9).map(|looks| seen(looks, begins)).collect();
                assert!(each.iter().all(|share| (0.0..0.7).contains(share)), "beat {beat} from {begins}: {each:?}");
                let all = seen(&moments, begins);
                assert!((0.25..0.35).contains(&all), "beat {beat} from {begins}: {all}");
            }
        }
    }
}
