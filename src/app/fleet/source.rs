//! Where the time of the fleet comes from: the clocks of this machine, or the replay of recordings.

use super::replay::ReplayControl;
use crate::kernel;
use crate::state::fleet::{FleetEffect, FleetEvent};

pub enum FleetSource {
    Live,
    Replay(ReplayControl),
}

impl FleetSource {
    /// The present time, as the state takes it.
    pub fn time_events(&self) -> Vec<FleetEvent> {
        match self {
            FleetSource::Live => {
                let now = kernel::now();
                vec![FleetEvent::Now { clock_ns: now.boottime_ns, now_ns: now.boottime_ns, realtime_ns: now.realtime_ns }]
            }
            FleetSource::Replay(control) => control.time_events(),
        }
    }

    /// Pauses, moves or speeds up a replay.
    pub fn control(&self, effect: FleetEffect) {
        if let FleetSource::Replay(control) = self {
            control.send(effect);
        }
    }
}
