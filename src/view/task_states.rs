//! The time of a task by state, as the segments of a bar.

use super::theme::StyleRole;
use super::widgets::bar::Segment;
use crate::interval::Interval;
use crate::interval::task::Microstates;
use crate::interval::throttling::throttling;
use crate::sample::task::Process;

/// The part of the run-queue wait of these threads of a process in which a CPU quota throttled them.
pub fn throttled_threads(interval: &Interval, process: &Process, states: &Microstates, threads: u32) -> f64 {
    let of_time = |share: f64| (share * f64::from(threads)).min(states.run_queue);
    throttling(interval, process).map_or(0.0, |throttling| of_time(throttling.share))
}

/// The time by state; a whole bar is the whole time. `throttled` is a part of the run-queue wait.
pub fn state_segments(states: &Microstates, throttled: f64) -> [Segment<StyleRole>; 9] {
    let whole = (states.non_sleep() + states.sleep + states.unknown).max(f64::MIN_POSITIVE);
    let part = |time: f64, glyph, style| Segment { share: time / whole, glyph, style };
    [
        // Not a whole block: rows above each other do not fuse.
        part(states.user, '▇', StyleRole::User),
        part(states.system, '▓', StyleRole::System),
        part(states.run_queue - throttled, '░', StyleRole::RunQueue),
        part(throttled, '‖', StyleRole::Warning),
        part(states.disk, '▒', StyleRole::Disk),
        part(states.lock, '╱', StyleRole::Lock),
        part(states.other_blocked, '╳', StyleRole::OtherBlocked),
        part(states.unknown, '?', StyleRole::Dim),
        part(states.sleep, '·', StyleRole::Free),
    ]
}
