//! Pressure stall information (PSI): /proc/pressure.

use super::{Absent, Reading};
use crate::units::Counter;

/// The stall times of each resource. They are cross-checks, not findings: PSI io reads ~100 % on an idle io_uring service
/// before Linux 6.15.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    pub cpu: Reading<Stall>,
    pub io: Reading<Stall>,
    pub memory: Reading<Stall>,
    /// Since 6.1, `full` only.
    pub irq: Reading<Stall>,
}

impl Pressure {
    /// All readings missing for the same reason.
    pub fn absent(why: Absent) -> Pressure {
        Pressure { cpu: Err(why), io: Err(why), memory: Err(why), irq: Err(why) }
    }
}

/// The lines `some` (at least one task was stalled) and `full` (all non-idle tasks were).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stall {
    pub some: Option<StallLine>,
    pub full: Option<StallLine>,
}

/// One line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StallLine {
    /// Per cent over the last 10, 60, 300 seconds, as the kernel averaged them.
    pub avg10: f32,
    pub avg60: f32,
    pub avg300: f32,
    /// Stalled time since boot, microseconds.
    pub total_us: Counter,
}
