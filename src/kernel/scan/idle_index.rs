//! The processes in a row, each with the little that a sweep asks of one at rest: has its clock moved? What else is known of a
//! process is long, and in several places: going through that of thousands costs as much as a fifth of asking their clocks.

use super::process::KnownProcess;

/// One process of `Sweep::processes`, at the same place there.
#[derive(Clone, Copy, Debug)]
pub struct IdleEntry {
    pub pid: u32,
    /// Threads whose wait channel the kernel keeps from us, and those without schedstat
    pub hidden: (u32, u32),
    /// The clock of one of which nothing is to be known as long as that stands still
    idle_clock_ns: Option<u64>,
    /// To be struck off the roll, and from the processes
    pub is_gone: bool,
}

impl IdleEntry {
    /// After a look at it: where nobody need look at it again, it lies down.
    pub fn park_and_index(known: &mut KnownProcess, now_ns: u64) -> IdleEntry {
        known.park(now_ns);
        IdleEntry { pid: known.pid, hidden: known.hidden, idle_clock_ns: known.idle_clock_ns(now_ns), is_gone: false }
    }

    /// Whether there is nothing to be done about it before it runs.
    pub fn is_idle(&self) -> bool {
        self.idle_clock_ns.is_some()
    }

    /// Whether it has not run since it came to rest.
    pub fn is_still_idle(&self, clock_ns: Option<u64>) -> bool {
        self.idle_clock_ns.is_some() && self.idle_clock_ns == clock_ns
    }
}
