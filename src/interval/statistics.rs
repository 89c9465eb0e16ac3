//! Statistics of the values of a figure: mean, median, p95, and a rank test (Mann-Whitney) for the difference of two recordings.
//!
//! Values of consecutive intervals are correlated, so that n values count as fewer than n independent observations. The test
//! uses the effective sample size: with n it would find nearly every difference significant.

/// All values of one figure in one recording.
#[derive(Clone, Debug)]
pub struct Distribution {
    sorted: Vec<f64>,
    mean: f64,
    /// Number of independent values with the same information
    effective_sample_size: f64,
}

/// Result of comparing two distributions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Superiority {
    /// Probability that a value of the new recording is above one of the base, ties counted half: 0.5 for equal distributions,
    /// 1 or 0 without overlap (common-language effect size, U ÷ nm of Mann and Whitney)
    pub probability: f64,
    /// Distance of `probability` from 0.5 in standard deviations, for the effective sample sizes
    pub z_score: f64,
}

/// Significance of the difference of two distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// |z| below 2.5
    Unclear,
    /// |z| from 2.5: by chance once in 80 comparisons
    Likely,
    /// |z| from 3.5: by chance once in 2,000 comparisons, few enough for the hundred figures of a recording
    Certain,
}

/// Two-sided, 1 in 2,000.
const CERTAIN_Z_SCORE: f64 = 3.5;
/// Two-sided, 1 in 80.
const LIKELY_Z_SCORE: f64 = 2.5;

impl Distribution {
    /// The distribution of values in time order; `None` without values.
    pub fn from_values(values: &[f64]) -> Option<Distribution> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        if sorted.is_empty() {
            return None;
        }
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        let effective = effective_sample_size(&sorted, mean);
        sorted.sort_by(f64::total_cmp);
        Some(Distribution { sorted, mean, effective_sample_size: effective })
    }

    /// Number of values.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    pub fn mean(&self) -> f64 {
        self.mean
    }

    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub fn p95(&self) -> f64 {
        self.quantile(0.95)
    }

    /// The quantile for `share` from 0 to 1, interpolated linearly.
    pub fn quantile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f64;
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(self.mean);
        let (low, high) = (at(place.floor() as usize), at(place.ceil() as usize));
        low + (high - low) * place.fract()
    }

    /// Compares the values of `new` with these, the base.
    pub fn superiority_of(&self, new: &Distribution) -> Superiority {
        let (n, m) = (self.sorted.len() as f64, new.sorted.len() as f64);
        let mut above = 0.0;
        for value in &new.sorted {
            let less = self.sorted.partition_point(|base| base < value);
            let not_above = self.sorted.partition_point(|base| base <= value);
            above += less as f64 + (not_above - less) as f64 / 2.0;
        }
        let probability = above / (n * m);
        let (en, em) = (self.effective_sample_size, new.effective_sample_size);
        let variance = (en + em + 1.0) / (12.0 * en * em) * (1.0 - self.tie_correction(new));
        let distance = probability - 0.5;
        // Without variance all values are equal.
        let deviations = if variance > 0.0 { distance / variance.sqrt() } else { 0.0 };
        Superiority { probability, z_score: deviations }
    }

    /// Share of the variance that ties remove: Σ(t³ − t) ÷ (N³ − N).
    fn tie_correction(&self, new: &Distribution) -> f64 {
        let mut all: Vec<f64> = self.sorted.iter().chain(&new.sorted).copied().collect();
        all.sort_by(f64::total_cmp);
        let cubed = |count: f64| count.powi(3) - count;
        let tied: f64 = all.chunk_by(|a, b| a == b).map(|equal| cubed(equal.len() as f64)).sum();
        let whole = cubed(all.len() as f64);
        if whole > 0.0 { tied / whole } else { 0.0 }
    }
}

impl Superiority {
    /// Significance by `z_score`.
    pub fn certainty(&self) -> Certainty {
        match self.z_score.abs() {
            far if far >= CERTAIN_Z_SCORE => Certainty::Certain,
            far if far >= LIKELY_Z_SCORE => Certainty::Likely,
            _ => Certainty::Unclear,
        }
    }
}

/// n·(1 − r)/(1 + r), where r is the correlation of each value with the one before it (lag 1).
fn effective_sample_size(values: &[f64], mean: f64) -> f64 {
    /// With fewer values the correlation cannot be estimated.
    const MIN_VALUES: usize = 8;
    let count = values.len() as f64;
    let spread: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() < MIN_VALUES || spread <= 0.0 {
        return count;
    }
    let covariance: f64 = values.iter().zip(values.iter().skip(1)).map(|(a, b)| (a - mean) * (b - mean)).sum();
    let correlation = (covariance / spread).clamp(0.0, 0.99);
    (count * (1.0 - correlation) / (1.0 + correlation)).max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distribution(values: impl IntoIterator<Item = f64>) -> Distribution {
        Distribution::from_values(&values.into_iter().collect::<Vec<_>>()).unwrap()
    }

    /// Pseudo-random values: a multiplicative generator over 1 … 10006.
    fn noise(seed: u64, count: usize) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(seed), |last| Some(last * 1_759 % 10_007)).skip(1).take(count).map(|value| value as f64)
    }

    #[test]
    fn median_and_p95_are_interpolated() {
        let values = distribution((0..=100).map(f64::from));
        assert_eq!((values.median(), values.p95(), values.mean()), (50.0, 95.0, 50.0));
        assert_eq!(distribution([3.0]).p95(), 3.0);
        assert_eq!(distribution([1.0, 2.0]).median(), 1.5);
        assert!(Distribution::from_values(&[]).is_none() && Distribution::from_values(&[f64::NAN]).is_none());
    }

    #[test]
    fn superiority_is_the_chance_of_being_above() {
        // Of 3 × 3 pairs 6 are above and 2 are equal.
        let beside = distribution([1.0, 2.0, 3.0]).superiority_of(&distribution([2.0, 3.0, 4.0]));
        assert!((beside.probability - 7.0 / 9.0).abs() < 1e-12, "{beside:?}");
        let apart = distribution((0..10).map(f64::from)).superiority_of(&distribution((20..30).map(f64::from)));
        assert_eq!(apart.probability, 1.0);
        let equal = distribution([5.0; 20]).superiority_of(&distribution([5.0; 20]));
        assert_eq!((equal.probability, equal.certainty()), (0.5, Certainty::Unclear));
    }

    #[test]
    fn the_z_score_is_that_of_the_mann_whitney_test() {
        // n = m = 10, no ties, no two values equal: σ of U is √(nm(n+m+1)/12) = 13.229, U = 100, mean 50.
        let odd = [1.0, 9.0, 3.0, 7.0, 5.0, 2.0, 10.0, 4.0, 8.0, 6.0];
        let (base, new) = (distribution(odd), distribution(odd.map(|value| value + 100.0)));
        assert!((base.superiority_of(&new).z_score - 50.0 / 13.229).abs() < 0.01, "{:?}", base.superiority_of(&new));
        assert_eq!(base.superiority_of(&new).certainty(), Certainty::Certain);
    }

    #[test]
    fn autocorrelation_reduces_the_effective_sample_size() {
        let (noisy, other) = (distribution(noise(17, 400)), distribution(noise(4242, 400).map(|value| value + 1500.0)));
        assert!(noisy.superiority_of(&other).z_score > 5.0);
        // Two slow waves of the same amplitude with different phases: the difference is not significant.
        let wave = |shift: f64| distribution((0..400).map(|at| (f64::from(at) / 250.0 + shift).sin()));
        let beside = wave(0.0).superiority_of(&wave(0.6));
        assert!(beside.probability > 0.7 && beside.certainty() < Certainty::Certain, "{beside:?}");
    }

    #[test]
    fn the_same_noise_twice_is_no_difference() {
        let certain = (1..200).filter(|seed| {
            let (base, new) = (distribution(noise(*seed, 60)), distribution(noise(seed + 5000, 60)));
            base.superiority_of(&new).certainty() == Certainty::Certain
        });
        assert!(certain.count() <= 1);
    }
}
