//! The triggers of other threads: signals, marks and pressure. Each wakes the sampling thread, and the command takes it with the next
//! sample.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::recent_triggers::RecentTriggers;
use super::trigger::{Trigger, TriggerCause};
use crate::app::sampling::{SamplerCommand, SamplerControl};
use crate::cli::pressure_trigger::PressureTrigger;
use crate::kernel;

/// Triggers that may wait for the next sample; further ones are dropped.
const CAPACITY: usize = 64;

/// A trigger that has come.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrived {
    pub trigger: Trigger,
    /// A mark whose text was captured within the last hour: it is recorded and captures nothing
    pub repeated: bool,
}

/// Clones share the triggers.
#[derive(Clone)]
pub struct Inbox {
    shared: Arc<Mutex<Shared>>,
    sampler: SamplerControl,
}

#[derive(Default)]
struct Shared {
    arrived: VecDeque<Arrived>,
    recent: RecentTriggers<RecentKey>,
}

/// What makes two triggers the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RecentKey {
    Mark(String),
    Pressure(PressureTrigger),
}

impl Inbox {
    pub fn new(sampler: SamplerControl) -> Inbox {
        Inbox { shared: Arc::default(), sampler }
    }

    /// Adds a trigger of now, unless it is pressure that was captured within the last hour. `false` if there is no room for it.
    pub fn add(&self, cause: TriggerCause) -> bool {
        self.add_at(Trigger { at: kernel::now().into(), cause })
    }

    pub fn add_at(&self, trigger: Trigger) -> bool {
        {
            let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
            if shared.arrived.len() >= CAPACITY {
                return false;
            }
            let at_ns = trigger.at.boottime_ns;
            let repeated = match &trigger.cause {
                TriggerCause::Mark(text) => !shared.recent.accept(RecentKey::Mark(text.clone()), at_ns),
                TriggerCause::Pressure(pressure) if !shared.recent.accept(RecentKey::Pressure(*pressure), at_ns) => {
                    return true;
                }
                // A signal is meant each time; findings are deduplicated where they are raised.
                TriggerCause::Pressure(_) | TriggerCause::Signal | TriggerCause::Finding { .. } => false,
            };
            shared.arrived.push_back(Arrived { trigger, repeated });
        }
        self.sampler.send(SamplerCommand::SampleNow);
        true
    }

    /// Takes the triggers that have come, in order.
    pub fn take_arrived(&self) -> Vec<Arrived> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).arrived.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Timestamp;

    #[test]
    fn marks_are_kept_repeated_pressure_is_dropped_and_signals_always_count() {
        let (control, commands) = SamplerControl::for_test();
        let inbox = Inbox::new(control);
        let add = |second: u64, cause: TriggerCause| {
            inbox.add_at(Trigger { at: Timestamp { boottime_ns: second * 1_000_000_000, realtime_ns: 0 }, cause })
        };
        let mark = || TriggerCause::Mark("deploy".to_owned());
        let pressure = || TriggerCause::Pressure(PressureTrigger::DEFAULT);
        for cause in [mark(), mark(), pressure(), pressure(), TriggerCause::Signal, TriggerCause::Signal] {
            assert!(add(5, cause));
        }
        let repeated: Vec<bool> = inbox.take_arrived().iter().map(|arrived| arrived.repeated).collect();
        assert_eq!(repeated, [false, true, false, false, false]);
        assert_eq!(commands.try_iter().count(), 5, "each wakes the sampling thread");
        assert!(add(3605, mark()) && add(3605, pressure()));
        assert_eq!(inbox.take_arrived().iter().filter(|arrived| !arrived.repeated).count(), 2);
        for _ in 0..CAPACITY {
            assert!(add(3606, TriggerCause::Signal));
        }
        assert!(!add(3606, TriggerCause::Signal) && inbox.take_arrived().len() == CAPACITY);
    }
}
