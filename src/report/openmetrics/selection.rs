//! Which disks, interfaces or cgroups have series, where there are more than a limit. The choice changes slowly: a series that comes
//! and goes is of no use to `rate()`, and each new one stays in Prometheus' index.

/// One of the most active is chosen only if another one was not among them for so long.
const MIN_STAY_NS: u64 = 600_000_000_000;

/// The chosen ones.
#[derive(Clone, Debug)]
pub struct Selection<K> {
    limit: usize,
    /// With the time at which each was last among the most active
    chosen: Vec<(K, u64)>,
}

impl<K: Clone + PartialEq> Selection<K> {
    /// At most `limit` are chosen.
    pub fn new(limit: usize) -> Selection<K> {
        Selection { limit, chosen: Vec::new() }
    }

    /// Chooses among those that exist now, `candidates`, the most active first. `now_ns`: CLOCK_BOOTTIME. Returns how many are left out.
    pub fn update(&mut self, candidates: &[K], now_ns: u64) -> usize {
        self.chosen.retain(|(known, _)| candidates.contains(known));
        for candidate in candidates.iter().take(self.limit) {
            if let Some((_, last)) = self.chosen.iter_mut().find(|(known, _)| known == candidate) {
                *last = now_ns;
            }
        }
        for candidate in candidates.iter().take(self.limit) {
            if self.contains(candidate) {
                continue;
            }
            if self.chosen.len() >= self.limit {
                let oldest = self.chosen.iter().enumerate().min_by_key(|(_, (_, last))| *last);
                match oldest.map(|(at, (_, last))| (at, *last)) {
                    Some((at, last)) if now_ns.saturating_sub(last) >= MIN_STAY_NS => drop(self.chosen.remove(at)),
                    _ => break,
                }
            }
            self.chosen.push((candidate.clone(), now_ns));
        }
        candidates.len().saturating_sub(self.chosen.len())
    }

    pub fn contains(&self, candidate: &K) -> bool {
        self.chosen.iter().any(|(known, _)| known == candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_choice_stays_for_ten_minutes() {
        let mut selection = Selection::new(2);
        assert_eq!(selection.update(&["a", "b", "c"], 0), 1);
        assert_eq!(selection.update(&["c", "b", "a"], 60 * SECOND), 1, "a was active a minute ago");
        assert!(selection.contains(&"a") && !selection.contains(&"c"));
        selection.update(&["c", "b", "a"], 660 * SECOND);
        assert!(!selection.contains(&"a") && selection.contains(&"c"));
        assert_eq!(selection.update(&["a", "b"], 661 * SECOND), 0, "c is gone");
        assert!(selection.contains(&"a"));
    }
}
