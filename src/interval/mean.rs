//! A time-weighted mean of a figure that may be missing in some intervals.

/// The sum of value × seconds over the intervals that had a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeWeightedMean {
    sum: f64,
    seconds: f64,
}

impl TimeWeightedMean {
    /// Adds the value of an interval of that many seconds; `None` leaves the mean as it is.
    pub fn add(&mut self, value: Option<f64>, seconds: f64) {
        if let Some(value) = value {
            self.sum += value * seconds;
            self.seconds += seconds;
        }
    }

    /// `None` without any value.
    pub fn mean(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }

    /// Value × seconds, added up.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The seconds of the intervals that had a value.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_weighs_by_time_and_skips_missing_values() {
        let mut mean = TimeWeightedMean::default();
        assert_eq!(mean.mean(), None);
        mean.add(Some(1.0), 1.0);
        mean.add(None, 10.0);
        mean.add(Some(0.0), 3.0);
        assert_eq!(mean.mean(), Some(0.25));
    }
}
