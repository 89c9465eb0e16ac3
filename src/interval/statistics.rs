//! What can be said of the values of a figure: its middle, its bad end, and whether one set of values lies above another.
//!
//! Values of neighbouring intervals are alike (what is slow now was slow a second ago), so that a thousand of them are less
//! than a thousand observations. Whoever forgets that is sure of everything.

/// All values of one figure in one recording.
#[derive(Clone, Debug)]
pub struct Distribution {
    sorted: Vec<f64>,
    mean: f64,
    /// How many independent values would say as much
    effective_sample_size: f64,
}

/// How one distribution lies beside another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Superiority {
    /// The chance that a value of the new one is above a value of the base, ties counted half: 0.5 where they lie alike,
    /// 1 where they do not overlap (the common-language effect size, U ÷ nm of Mann and Whitney)
    pub probability: f64,
    /// By how many standard deviations that is away from 0.5, for as many independent values as there are
    pub z_score: f64,
}

/// How sure it is that two distributions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// It may be chance
    Unclear,
    Likely,
    /// Chance does this once in two thousand times: seldom enough for the hundred figures of a recording
    Certain,
}

/// Two-sided, 1 in 2,000.
const CERTAIN_Z_SCORE: f64 = 3.5;
/// Two-sided, 1 in 80.
const LIKELY_Z_SCORE: f64 = 2.5;

impl Distribution {
    /// Of values in the order of time; `None` where there are none.
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

    /// Between the two values that stand next to it, in proportion.
    pub fn quantile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * (self.sorted.len() - 1) as f64;
        let at = |index: usize| self.sorted.get(index).copied().unwrap_or(self.mean);
        let (low, high) = (at(place.floor() as usize), at(place.ceil() as usize));
        low + (high - low) * place.fract()
    }

    /// How the values of `new` lie beside these.
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
        // All values equal: no variance, and no distance either.
        let deviations = if variance > 0.0 { distance / variance.sqrt() } else { 0.0 };
        Superiority { probability, z_score: deviations }
    }

    /// Which share of the variance equal values take away: Σ(t³ − t) ÷ (N³ − N).
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
    pub fn certainty(&self) -> Certainty {
        match self.z_score.abs() {
            far if far >= CERTAIN_Z_SCORE => Certainty::Certain,
            far if far >= LIKELY_Z_SCORE => Certainty::Likely,
            _ => Certainty::Unclear,
        }
    }
}

/// n·(1 − r)/(1 + r), with r the correlation of each value with the one before it.
fn effective_sample_size(values: &[f64], mean: f64) -> f64 {
    /// Fewer say nothing of how alike neighbours are.
    const MIN_VALUES: usize = 8;
    let count = values.len() as f64;
    let spread: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if values.len() < MIN_VALUES || spread <= 0.0 {
        return count;
    }
    let alike: f64 = values.iter().zip(values.iter().skip(1)).map(|(a, b)| (a - mean) * (b - mean)).sum();
    let correlation = (alike / spread).clamp(0.0, 0.99);
    (count * (1.0 - correlation) / (1.0 + correlation)).max(2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Distribution {
        Distribution::from_values(&values.into_iter().collect::<Vec<_>>()).unwrap()
    }

    /// Values without any order that anybody could see: a multiplicative walk through 1 … 10006.
    fn noise(seed: u64, count: usize) -> impl Iterator<Item = f64> {
        std::iter::successors(Some(seed), |last| Some(last * 1_759 % 10_007)).skip(1).take(count).map(|value| value as f64)
    }

    #[test]
    fn median_and_p95_are_interpolated() {
        let values = of((0..=100).map(f64::from));
        assert_eq!((values.median(), values.p95(), values.mean()), (50.0, 95.0, 50.0));
        assert_eq!(of([3.0]).p95(), 3.0);
        assert_eq!(of([1.0, 2.0]).median(), 1.5);
        assert!(Distribution::from_values(&[]).is_none() && Distribution::from_values(&[f64::NAN]).is_none());
    }

    #[test]
    fn superiority_is_the_chance_of_being_above() {
        // By hand: of 3 × 3 pairs 6 are above and 2 are equal.
        let beside = of([1.0, 2.0, 3.0]).superiority_of(&of([2.0, 3.0, 4.0]));
        assert!((beside.probability - 7.0 / 9.0).abs() < 1e-12, "{beside:?}");
        let apart = of((0..10).map(f64::from)).superiority_of(&of((20..30).map(f64::from)));
        assert_eq!(apart.probability, 1.0);
        let alike = of([5.0; 20]).superiority_of(&of([5.0; 20]));
        assert_eq!((alike.probability, alike.certainty()), (0.5, Certainty::Unclear));
    }

    #[test]
    fn the_z_score_is_that_of_the_mann_whitney_test() {
        // n = m = 10, no ties, nothing alike: σ of U is √(nm(n+m+1)/12) = 13.229, U = 100, mean 50.
        let odd = [1.0, 9.0, 3.0, 7.0, 5.0, 2.0, 10.0, 4.0, 8.0, 6.0];
        let (base, new) = (of(odd), of(odd.map(|value| value + 100.0)));
        assert!((base.superiority_of(&new).z_score - 50.0 / 13.229).abs() < 0.01, "{:?}", base.superiority_of(&new));
        assert_eq!(base.superiority_of(&new).certainty(), Certainty::Certain);
    }

    #[test]
    fn autocorrelation_reduces_the_effective_sample_size() {
        let (loud, other) = (of(noise(17, 400)), of(noise(4242, 400).map(|value| value + 1500.0)));
        assert!(loud.effective_sample_size > 250.0, "{}", loud.effective_sample_size);
        assert!(loud.superiority_of(&other).z_score > 5.0);
        // Two slow waves of the same height, one of which was caught on its way up: nothing is certain.
        let wave = |shift: f64| of((0..400).map(|at| (f64::from(at) / 250.0 + shift).sin()));
        let beside = wave(0.0).superiority_of(&wave(0.6));
        assert!(wave(0.0).effective_sample_size < 10.0, "{}", wave(0.0).effective_sample_size);
        assert!(beside.certainty() < Certainty::Certain, "{beside:?}");
    }

    #[test]
    fn the_same_noise_twice_is_no_difference() {
        let certain = (1..200).filter(|seed| {
            let (base, new) = (of(noise(*seed, 60)), of(noise(seed + 5000, 60)));
            base.superiority_of(&new).certainty() == Certainty::Certain
        });
        assert!(certain.count() <= 1);
    }
}
