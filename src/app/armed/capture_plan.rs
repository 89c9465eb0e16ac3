//! When a capture samples ten times a second, when it goes back to the ordinary interval, and when it ends. Times are CLOCK_BOOTTIME, ns.

use std::time::Duration;

use crate::units::time::nanos;

/// How long a capture samples ten times a second after a trigger.
pub const EVENT: Duration = Duration::from_secs(30);

/// Time between samples then.
pub const EVENT_INTERVAL: Duration = Duration::from_millis(100);

/// Further triggers prolong the event, or begin it again, for at most this time in the same capture.
const MAX_FURTHER_EVENT: Duration = Duration::from_secs(60);

/// Further triggers extend a capture to at most this many times its planned length.
const MAX_LENGTH_FACTOR: u32 = 3;

/// What a capture does at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Samples come every 100 ms
    Event,
    /// Samples come at the ordinary interval
    After,
    Over,
}

/// The course of one capture.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    event_until_ns: u64,
    ends_ns: u64,
    /// Whatever triggers meanwhile
    latest_end_ns: u64,
    further_event_left_ns: u64,
    after_ns: u64,
}

impl CapturePlan {
    /// A capture whose trigger came at that time. `after`: how long it goes on after the event.
    pub fn new(at_ns: u64, after: Duration) -> CapturePlan {
        let length_ns = nanos(EVENT) + nanos(after);
        CapturePlan {
            event_until_ns: at_ns + nanos(EVENT),
            ends_ns: at_ns + length_ns,
            latest_end_ns: at_ns + length_ns * u64::from(MAX_LENGTH_FACTOR),
            further_event_left_ns: nanos(MAX_FURTHER_EVENT),
            after_ns: nanos(after),
        }
    }

    /// Something else triggers: the event goes on, or begins again, for `EVENT` from now, and the time after it follows.
    pub fn extend(&mut self, at_ns: u64) {
        let from_ns = self.event_until_ns.max(at_ns);
        let more_ns = (at_ns + nanos(EVENT)).saturating_sub(from_ns).min(self.further_event_left_ns);
        self.further_event_left_ns -= more_ns;
        if more_ns > 0 {
            self.event_until_ns = from_ns + more_ns;
        }
        let ends_ns = self.event_until_ns.max(at_ns) + self.after_ns;
        self.ends_ns = self.ends_ns.max(ends_ns).min(self.latest_end_ns);
    }

    pub fn phase(&self, at_ns: u64) -> Phase {
        match at_ns {
            _ if at_ns >= self.ends_ns => Phase::Over,
            _ if at_ns < self.event_until_ns => Phase::Event,
            _ => Phase::After,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Phase::{After, Event, Over};
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The phases at those seconds after the trigger.
    fn phases(plan: &CapturePlan, seconds: &[u64]) -> Vec<Phase> {
        seconds.iter().map(|second| plan.phase((1000 + second) * SECOND)).collect()
    }

    #[test]
    fn an_event_is_followed_by_the_time_after_it() {
        let plan = CapturePlan::new(1000 * SECOND, Duration::from_secs(300));
        assert_eq!(phases(&plan, &[0, 29, 30, 329, 330, 9999]), [Event, Event, After, After, Over, Over]);
    }

    #[test]
    fn a_further_trigger_extends_it_and_that_is_bounded() {
        let mut plan = CapturePlan::new(1000 * SECOND, Duration::from_secs(60));
        plan.extend(1000 * SECOND);
        assert_eq!(phases(&plan, &[29, 30, 89, 90]), [Event, After, After, Over], "another finding of the same sample");
        plan.extend(1020 * SECOND);
        assert_eq!(phases(&plan, &[49, 50, 109, 110]), [Event, After, After, Over]);
        plan.extend(1060 * SECOND);
        assert_eq!(phases(&plan, &[51, 60, 89, 90, 149, 150]), [Event, Event, Event, After, After, Over]);
        plan.extend(1100 * SECOND);
        assert_eq!(phases(&plan, &[109, 110, 169, 170]), [Event, After, After, Over], "a minute of events was added");
        plan.extend(1120 * SECOND);
        assert_eq!(phases(&plan, &[121, 179, 180]), [After, After, Over], "from now on only the end moves");
        for second in 130..2000 {
            plan.extend((1000 + second) * SECOND);
        }
        assert_eq!(phases(&plan, &[269, 270]), [After, Over], "three times its planned length of 90 s");
    }
}
