//! Whether a program may be attached: where its events are too many it would take too much of a CPU.

use crate::units::Counter;

/// For so long it is not attached again where it would take too much.
const DETACHED_NS: u64 = 60_000_000_000;

/// Events per second above which a program takes more of a CPU than it may.
#[derive(Debug, Default)]
pub struct CostLimit {
    /// Of one CPU; `None`: any
    max_cpu_share: Option<f64>,
    /// At the last update, with its CLOCK_BOOTTIME
    last: Option<(Counter, u64)>,
    /// CLOCK_BOOTTIME until which it is not attached
    detached_until_ns: u64,
}

impl CostLimit {
    pub fn new(max_cpu_share: Option<f64>) -> CostLimit {
        CostLimit { max_cpu_share, ..CostLimit::default() }
    }

    pub fn allows(&self, now_ns: u64) -> bool {
        now_ns >= self.detached_until_ns
    }

    /// `events`: so far, for example context switches of the machine.
    pub fn update(&mut self, events: Option<Counter>, ns_per_event: u64, now_ns: u64) {
        let before = std::mem::replace(&mut self.last, events.map(|count| (count, now_ns)));
        let (Some(limit), Some(count), Some((older, older_ns))) = (self.max_cpu_share, events, before) else { return };
        let elapsed_ns = now_ns.saturating_sub(older_ns);
        let cost_ns = count.0.saturating_sub(older.0).saturating_mul(ns_per_event);
        if cost_ns as f64 > elapsed_ns as f64 * limit {
            self.detached_until_ns = now_ns.saturating_add(DETACHED_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_many_switches_is_spared() {
        let mut limit = CostLimit::new(Some(0.01));
        let second = 1_000_000_000;
        limit.update(Some(Counter(0)), 70, second);
        limit.update(Some(Counter(140_000)), 70, 2 * second);
        assert!(limit.allows(2 * second), "0.98 % of a CPU");
        limit.update(Some(Counter(500_000)), 70, 3 * second);
        assert!(!limit.allows(3 * second) && limit.allows(64 * second));
        limit.update(Some(Counter(500_000)), 107, 64 * second);
        limit.update(Some(Counter(600_000)), 107, 65 * second);
        assert!(!limit.allows(65 * second), "without BTF it takes more: 1.07 %");
    }
}
