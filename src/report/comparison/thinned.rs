//! The values of one figure over a recording of any length, in bounded room.

/// More values than this say no more of a median, of a 95th percentile, or of how two recordings overlap.
const MOST: usize = 1 << 14;

/// All values of a short recording; of a long one each second, fourth, … one, evenly over all of it.
#[derive(Clone, Debug)]
pub struct Thinned {
    values: Vec<f64>,
    /// One in so many is kept
    one_in: usize,
    seen: usize,
}

impl Default for Thinned {
    fn default() -> Thinned {
        Thinned { values: Vec::new(), one_in: 1, seen: 0 }
    }
}

impl Thinned {
    pub fn push(&mut self, value: f64) {
        if self.seen.is_multiple_of(self.one_in) {
            if self.values.len() == MOST {
                let mut index = 0;
                self.values.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.one_in *= 2;
            }
            if self.seen.is_multiple_of(self.one_in) {
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
        for count in [0, 1, MOST, MOST + 1, 86_400, 1_000_000] {
            let mut thinned = Thinned::default();
            (0..count).for_each(|value| thinned.push(value as f64));
            let kept = thinned.values();
            assert!(kept.len() <= MOST && kept.len() >= count.min(MOST / 2), "{count}: {}", kept.len());
            let step = count.next_power_of_two().max(MOST) / MOST;
            let even = kept.iter().enumerate().all(|(index, &value)| value == (index * thinned.one_in) as f64);
            assert!(even && thinned.one_in <= step.max(1) && (count <= MOST) == (thinned.one_in == 1), "{count}");
        }
    }
}
