//! How much CPU time sub-samples may take. A look that cost too much is paid for by leaving out the next ones.

/// One per cent of one CPU.
pub const DEFAULT_SHARE: f64 = 0.01;

/// So much may be saved up, so that a pause is not followed by a burst.
const MAX_BALANCE_NS: f64 = 5_000_000.0;

/// The account, in nanoseconds of CPU time.
#[derive(Debug)]
pub struct CpuBudget {
    share: f64,
    balance_ns: f64,
    updated_ns: Option<u64>,
}

impl CpuBudget {
    /// `share` of one CPU.
    pub fn new(share: f64) -> CpuBudget {
        CpuBudget { share, balance_ns: MAX_BALANCE_NS, updated_ns: None }
    }

    /// Whether the account is not overdrawn at that time (CLOCK_MONOTONIC).
    pub fn allows(&self, now_ns: u64) -> bool {
        self.balance_at(now_ns) > 0.0
    }

    /// Pays for a look.
    pub fn spend(&mut self, now_ns: u64, cost_ns: u64) {
        self.balance_ns = self.balance_at(now_ns) - cost_ns as f64;
        self.updated_ns = Some(now_ns);
    }

    fn balance_at(&self, now_ns: u64) -> f64 {
        let passed = now_ns.saturating_sub(self.updated_ns.unwrap_or(now_ns));
        (self.balance_ns + passed as f64 * self.share).min(MAX_BALANCE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks taken in 100 s when one is due ten times a second.
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
    fn cheap_looks_are_all_taken_and_costly_ones_keep_to_the_share() {
        assert_eq!(taken(900_000), 1000);
        let within = |cost_ns| (taken(cost_ns) * cost_ns) as f64 / 100e9;
        for cost_ns in [2_000_000, 15_000_000, 120_000_000] {
            let share = within(cost_ns);
            assert!((0.009..0.0125).contains(&share), "{cost_ns} ns each: {share}");
        }
    }
}
