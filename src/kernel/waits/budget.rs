//! The CPU budget of sub-samples: a token bucket. After an expensive sub-sample the next ones are skipped.

/// 1 % of one CPU.
pub const DEFAULT_SHARE: f64 = 0.01;

/// Capacity of the bucket, so that no burst follows a pause.
const CAPACITY_NS: f64 = 5_000_000.0;

/// The bucket; its tokens are ns of CPU time.
#[derive(Debug)]
pub struct CpuBudget {
    share: f64,
    capacity_ns: f64,
    tokens_ns: f64,
    updated_ns: Option<u64>,
}

impl CpuBudget {
    /// `share` of one CPU.
    pub fn new(share: f64) -> CpuBudget {
        CpuBudget { share, capacity_ns: CAPACITY_NS, tokens_ns: CAPACITY_NS, updated_ns: None }
    }

    /// A full bucket of this capacity.
    pub fn with_capacity(self, capacity_ns: f64) -> CpuBudget {
        CpuBudget { capacity_ns, tokens_ns: capacity_ns, ..self }
    }

    /// Whether a sub-sample may be taken at this time (CLOCK_MONOTONIC).
    pub fn allows(&self, now_ns: u64) -> bool {
        self.tokens_at(now_ns) > 0.0
    }

    /// CPU time that may be used now, ns.
    pub fn available_ns(&self, now_ns: u64) -> u64 {
        self.tokens_at(now_ns).max(0.0) as u64
    }

    /// Takes the CPU time of a sub-sample from the budget.
    pub fn spend(&mut self, now_ns: u64, cost_ns: u64) {
        self.tokens_ns = self.tokens_at(now_ns) - cost_ns as f64;
        self.updated_ns = Some(now_ns);
    }

    fn tokens_at(&self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.updated_ns.unwrap_or(now_ns));
        (self.tokens_ns + passed as f64 * self.share).min(self.capacity_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sub-samples taken in 100 s if one is due ten times a second.
    fn taken(cost_ns: u64) -> u64 {
        let mut budget = CpuBudget::new(DEFAULT_SHARE);
        let mut taken = 0;
        for tick in 0..1000_u64 {
            let now_ns = tick * 100_000_000;
            if budget.allows(now_ns) {
                budget.spend(now_ns, cost_ns);
                taken += 1;
            }
        }
        taken
    }

    #[test]
    fn cheap_sub_samples_are_all_taken_and_costly_ones_keep_to_the_share() {
        assert_eq!(taken(900_000), 1000);
        let within = |cost_ns| (taken(cost_ns) * cost_ns) as f64 / 100e9;
        for cost_ns in [2_000_000, 15_000_000, 120_000_000] {
            let share = within(cost_ns);
            assert!((0.009..0.0125).contains(&share), "{cost_ns} ns each: {share}");
        }
    }
}
