//! Microstates: the time of a thread by state, as in Solaris's `prstat -mL`.

use super::wait::OffCpuShares;
use crate::sample::task::TaskState;
use crate::sample::waits::WaitClass;
use crate::units::Ratio;

/// A thread that did not sleep in less than this share of the time is drawn as asleep. docs/metrics.md, "Fixed thresholds".
pub const MIN_AWAKE_SHARE: f64 = 0.1;

/// Shares of Δt by state, which add up to 1 for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Microstates {
    pub user: f64,
    pub system: f64,
    pub run_queue: f64,
    pub disk: f64,
    pub lock: f64,
    pub other_blocked: f64,
    pub sleep: f64,
    /// The rest of a thread that the older sample does not contain, or whose CPU time cannot be read; and waits for completions while
    /// requests in flight could not be read
    pub unknown: f64,
}

impl Microstates {
    /// Adds the time of other threads.
    pub fn add(&mut self, other: &Microstates) {
        self.user += other.user;
        self.system += other.system;
        self.run_queue += other.run_queue;
        self.disk += other.disk;
        self.lock += other.lock;
        self.other_blocked += other.other_blocked;
        self.sleep += other.sleep;
        self.unknown += other.unknown;
    }

    /// The sum without `sleep` and `unknown`.
    pub fn non_sleep(&self) -> f64 {
        self.user + self.system + self.run_queue + self.disk + self.lock + self.other_blocked
    }
}

/// CPU and run-queue time are exact; the rest of the time is divided in the proportion of the sub-samples that saw the thread in a wait.
pub(super) fn microstates(
    cpu: Option<Ratio>,
    user: Option<f64>,
    run_queue: Option<Ratio>,
    waits: Option<OffCpuShares>,
    state: TaskState,
    class: WaitClass,
    ran: bool,
) -> Microstates {
    let known = cpu.is_some();
    let cpu = cpu.map_or(0.0, |cpu| cpu.0.min(1.0));
    let run_queue = run_queue.map_or(0.0, |wait| wait.0.min(1.0 - cpu));
    let left = (1.0 - cpu - run_queue).max(0.0);
    let user = user.unwrap_or(1.0);
    let mut states = Microstates { user: cpu * user, system: cpu * (1.0 - user), run_queue, ..Microstates::default() };
    match waits {
        Some(shares) => {
            states.disk = left * shares.disk;
            states.lock = left * shares.lock;
            states.other_blocked = left * shares.other_blocked;
            states.sleep = left * shares.sleep;
            states.unknown = left * shares.unknown;
        }
        None => match (state, class) {
            (_, WaitClass::Disk) => states.disk = left,
            (_, WaitClass::Lock) => states.lock = left,
            (TaskState::Blocked, _) => states.other_blocked = left,
            // Runnable all the time without a CPU: the kernel adds the run delay only when the thread gets one.
            (TaskState::Running, _) if !ran => states.run_queue += left,
            _ => states.sleep = left,
        },
    }
    // It may have run.
    if !known {
        states.unknown += std::mem::take(&mut states.sleep);
    }
    states
}
