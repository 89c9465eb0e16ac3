//! What triggered in the last hour: the same sentence counts once an hour, so that a problem that comes and goes does not fill the
//! directory and send a mail each time.

use std::collections::BTreeMap;
use std::time::Duration;

/// The same sentence counts again after this time.
pub const REPEAT_AFTER: Duration = Duration::from_secs(3600);

/// By key: triggers of one key are the same.
#[derive(Debug)]
pub struct RecentTriggers<K> {
    /// CLOCK_BOOTTIME at which each was accepted last
    accepted_ns: BTreeMap<K, u64>,
}

impl<K> Default for RecentTriggers<K> {
    fn default() -> RecentTriggers<K> {
        RecentTriggers { accepted_ns: BTreeMap::new() }
    }
}

impl<K: Ord> RecentTriggers<K> {
    /// Accepts it, unless the same one was accepted within the last hour. `at_ns`: CLOCK_BOOTTIME.
    pub fn accept(&mut self, key: K, at_ns: u64) -> bool {
        self.accepted_ns.retain(|_, accepted_ns| u128::from(at_ns.saturating_sub(*accepted_ns)) < REPEAT_AFTER.as_nanos());
        let is_new = !self.accepted_ns.contains_key(&key);
        if is_new {
            self.accepted_ns.insert(key, at_ns);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_one_counts_once_an_hour() {
        let mut recent = RecentTriggers::default();
        let mut accept = |key: &'static str, minutes: u64| recent.accept(key, minutes * 60_000_000_000);
        assert_eq!([accept("a", 10), accept("a", 10), accept("b", 11), accept("a", 69)], [true, false, true, false]);
        assert_eq!([accept("a", 70), accept("b", 70), accept("a", 71)], [true, false, false], "an hour after the first one");
        assert_eq!([accept("b", 71), accept("c", 200)], [true, true]);
    }
}
