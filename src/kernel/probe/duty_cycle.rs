//! Decides when a program that would exceed its share of a CPU is attached: for a part of the time, so that it costs that share.
//! While it is detached it costs nothing. What it counts is then a sample of the events.

use crate::kernel::waits::budget::CpuBudget;

/// CPU time to attach and to detach a program: 0.2 ms each with two CPUs, docs/cost.md.
const SWITCH_NS: u64 = 400_000;
/// Shorter times say too little of the rate of events.
const MIN_MEASURED_NS: u64 = 50_000_000;

/// Of a limited program so much of the time between two updates is charged at most: it is updated ten times a second, unless the machine
/// was suspended, or this program was stopped.
const MAX_CHARGED_NS: u64 = 1_000_000_000;

/// What is left of the share may be saved up for so long.
const SAVED_NS: f64 = 500_000_000.0;

/// Decides when a program is attached. Times are of CLOCK_BOOTTIME.
#[derive(Debug)]
pub struct DutyCycle {
    /// CPU time of the program for one event
    ns_per_event: u64,
    /// Of one CPU, and what of it is left; `None`: the program is always attached
    limit: Option<(f64, CpuBudget)>,
    /// Of one CPU, while the program is attached, as last measured
    cost_share: f64,
    is_attached: bool,
    /// Up to here the cost is taken from the budget
    updated_ns: u64,
    /// Since the rate was last measured: for how long it was attached, and the events that it had counted then
    attached_ns: u64,
    events: u64,
}

impl DutyCycle {
    /// For a program that is attached now. `max_cpu_share` is of one CPU; `None`: any.
    pub fn new(ns_per_event: u64, max_cpu_share: Option<f64>, now_ns: u64) -> DutyCycle {
        DutyCycle {
            ns_per_event,
            limit: max_cpu_share.map(|share| (share, CpuBudget::new(share).with_capacity(share * SAVED_NS))),
            cost_share: 0.0,
            is_attached: true,
            updated_ns: now_ns,
            attached_ns: 0,
            events: 0,
        }
    }

    /// Whether it is attached for a part of the time only.
    pub fn is_limited(&self) -> bool {
        self.limit.as_ref().is_some_and(|(share, _)| self.cost_share > *share)
    }

    /// Updates the event rate; `events`: counted so far.
    pub fn measure(&mut self, events: u64, now_ns: u64) {
        self.spend(now_ns);
        if self.attached_ns < MIN_MEASURED_NS {
            return;
        }
        let grown = events.saturating_sub(self.events);
        self.cost_share = grown.saturating_mul(self.ns_per_event) as f64 / self.attached_ns as f64;
        (self.events, self.attached_ns) = (events, 0);
    }

    /// Whether the program is to be attached from now on.
    pub fn update(&mut self, now_ns: u64) -> bool {
        self.spend(now_ns);
        let is_limited = self.is_limited();
        let Some((_, budget)) = &mut self.limit else {
            self.is_attached = true;
            return true;
        };
        let is_wanted = !is_limited || budget.allows(now_ns);
        if is_wanted && !self.is_attached {
            budget.spend(now_ns, SWITCH_NS);
        }
        self.is_attached = is_wanted;
        is_wanted
    }

    /// The program could not be attached; `update` says when to try again.
    pub fn attach_failed(&mut self) {
        self.is_attached = false;
    }

    /// Takes what the program has cost since the last call from the budget.
    fn spend(&mut self, now_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.updated_ns, now_ns));
        if !self.is_attached {
            return;
        }
        self.attached_ns = self.attached_ns.saturating_add(elapsed_ns);
        let cost_ns = elapsed_ns.min(MAX_CHARGED_NS) as f64 * self.cost_share;
        if self.is_limited()
            && let Some((_, budget)) = &mut self.limit
        {
            budget.spend(now_ns, cost_ns as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS_PER_EVENT: u64 = 125;
    const TICK_NS: u64 = 100_000_000;
    const LIMIT: f64 = 0.01;

    /// A program at that many events a second, updated ten times a second and measured each second.
    struct Machine {
        cycle: DutyCycle,
        is_attached: bool,
        ticks: u64,
        events: u64,
    }

    impl Machine {
        fn new(limit: Option<f64>) -> Machine {
            Machine { cycle: DutyCycle::new(NS_PER_EVENT, limit, 0), is_attached: true, ticks: 0, events: 0 }
        }

        /// The share of this time in which it was attached, and how often that changed.
        fn run(&mut self, seconds: u64, events_per_second: u64) -> (f64, u32) {
            let (mut attached, mut switches) = (0, 0);
            for _ in 0..seconds * 10 {
                let was_attached = self.is_attached;
                if was_attached {
                    attached += 1;
                    self.events += events_per_second / 10;
                }
                self.ticks += 1;
                let now_ns = self.ticks * TICK_NS;
                if self.ticks.is_multiple_of(10) {
                    self.cycle.measure(self.events, now_ns);
                }
                self.is_attached = self.cycle.update(now_ns);
                switches += u32::from(self.is_attached != was_attached);
            }
            (f64::from(attached) / (seconds * 10) as f64, switches)
        }
    }

    #[test]
    fn a_cheap_program_is_always_attached() {
        assert_eq!(Machine::new(Some(LIMIT)).run(100, 79_000), (1.0, 0));
        assert_eq!(Machine::new(None).run(100, 10_000_000), (1.0, 0));
    }

    #[test]
    fn an_expensive_program_keeps_to_its_share_of_a_cpu() {
        for rate in [100_000, 300_000, 1_000_000, 10_000_000] {
            let mut machine = Machine::new(Some(LIMIT));
            // The rate is first known after a second.
            machine.run(1, rate);
            let (share, switches) = machine.run(200, rate);
            let cost = share * (rate * NS_PER_EVENT) as f64 / 1e9 + f64::from(switches) / 2.0 * SWITCH_NS as f64 / 1e9 / 200.0;
            assert!((0.8 * LIMIT..1.05 * LIMIT).contains(&cost), "{rate}/s: attached for {share}, which costs {cost}");
            assert!(switches < 200 * 6, "{rate}/s: {switches}");
        }
    }

    /// CLOCK_BOOTTIME goes on while the machine is suspended, in which the program does not run.
    #[test]
    fn the_time_of_a_suspend_is_not_charged() {
        let mut machine = Machine::new(Some(LIMIT));
        machine.run(20, 300_000);
        while !machine.is_attached {
            machine.run(1, 300_000);
        }
        machine.ticks += 8 * 3600 * 10;
        // At most a second at 3.75 % of a CPU: 3.75 seconds at 1 %.
        machine.run(10, 300_000);
        assert!(machine.run(20, 300_000).0 > 0.1);
    }

    #[test]
    fn the_time_in_which_it_could_not_be_attached_says_nothing_of_its_rate() {
        let mut cycle = DutyCycle::new(NS_PER_EVENT, Some(LIMIT), 0);
        for second in 1..=10 {
            cycle.attach_failed();
            assert!(cycle.update(second * 10 * TICK_NS), "it is tried again");
        }
        cycle.measure(300_000, 11 * 10 * TICK_NS);
        assert!(cycle.is_limited(), "it was attached for one second");
    }

    #[test]
    fn when_the_rate_falls_it_is_always_attached_again() {
        let mut machine = Machine::new(Some(LIMIT));
        let (share, _) = machine.run(20, 300_000);
        assert!(share < 0.4, "{share}");
        machine.run(3, 1000);
        assert_eq!(machine.run(20, 1000), (1.0, 0));
    }
}
