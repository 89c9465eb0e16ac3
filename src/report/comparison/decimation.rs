//! The values of one figure over a recording of any length, in bounded memory.

/// Values kept at most: enough for a median, a 95th percentile and the overlap of two recordings.
const MAX_VALUES: usize = 1 << 13;

/// All values of a short recording; of a long one every 2nd, 4th, … value.
#[derive(Clone, Debug)]
pub struct DecimatedValues {
    values: Vec<f64>,
    /// Every n-th value is kept
    stride: usize,
    seen: usize,
}

impl Default for DecimatedValues {
    fn default() -> DecimatedValues {
        DecimatedValues { values: Vec::new(), stride: 1, seen: 0 }
    }
}

impl DecimatedValues {
    pub fn push(&mut self, value: f64) {
        if self.seen.is_multiple_of(self.stride) {
            if self.values.len() == MAX_VALUES {
                let mut index = 0;
                self.values.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.values.push(value);
            }
        }
        self.seen += 1;
    }

    /// In the order of time.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_lies_evenly_over_all_of_it() {
        for count in [0, 1, MAX_VALUES, MAX_VALUES + 1, 86_400, 1_000_000] {
            let mut thinned = DecimatedValues::default();
            (0..count).for_each(|value| thinned.push(value as f64));
            let kept = thinned.values();
            assert!(kept.len() <= MAX_VALUES && kept.len() >= count.min(MAX_VALUES / 2), "{count}: {}", kept.len());
            let step = count.next_power_of_two().max(MAX_VALUES) / MAX_VALUES;
            let even = kept.iter().enumerate().all(|(index, &value)| value == (index * thinned.stride) as f64);
            assert!(even && thinned.stride <= step.max(1) && (count <= MAX_VALUES) == (thinned.stride == 1), "{count}");
        }
    }
}
