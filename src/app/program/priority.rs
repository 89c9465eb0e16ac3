//! The priority of the sampling thread. On a machine without a free CPU a thread of normal priority waits seconds for one, so that
//! samples are late just when they matter.
//!
//! The thread asks for SCHED_RR at its lowest priority, which stays below every other real-time thread; where that is not permitted,
//! for a negative nice value. The throttle of samples and the CPU budget of sub-samples limit what it uses. Children inherit neither
//! (SCHED_RESET_ON_FORK). Where the user has started the program with another policy or a nice value, that is kept.

use std::fs;

use crate::app::sys;
use crate::kernel::sys::set_nice;

/// SCHED_RR priority: the lowest.
const REAL_TIME_PRIORITY: libc::c_int = 1;
/// Without real-time priority: 9 times the share of a thread of nice 0.
const NICE: libc::c_int = -10;

/// The priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPriority {
    RealTime,
    /// A nice value below 0
    Raised,
    /// It may not be raised: no CAP_SYS_NICE, and RLIMIT_RTPRIO and RLIMIT_NICE do not allow it.
    Normal,
    /// It is not raised: set by the user who started the program.
    Kept,
}

/// Raises the priority of the calling thread as far as this user may.
pub fn raise() -> ThreadPriority {
    if scheduling().is_some_and(|(nice, policy)| nice != 0 || policy != libc::SCHED_OTHER) {
        return ThreadPriority::Kept;
    }
    if sys::set_scheduler(libc::SCHED_RR, REAL_TIME_PRIORITY).is_ok() {
        return ThreadPriority::RealTime;
    }
    if sys::set_scheduler(libc::SCHED_OTHER, 0).is_ok() && set_nice(NICE).is_ok() {
        return ThreadPriority::Raised;
    }
    ThreadPriority::Normal
}

/// Nice value and policy of the calling thread: fields 19 and 41 of /proc/thread-self/stat.
fn scheduling() -> Option<(libc::c_int, libc::c_int)> {
    let stat = fs::read_to_string("/proc/thread-self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_ascii_whitespace().collect();
    // The first of them is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some((field(19)?, field(41)?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_child_does_not_inherit_the_priority_of_the_thread() {
        let raised = std::thread::spawn(|| {
            let raised = raise();
            let own = scheduling().unwrap();
            // Fields 19 and 41 of the child's own stat.
            let child = Command::new("cut").args(["-d", " ", "-f", "19,41", "/proc/self/stat"]).output().unwrap();
            (raised, own, String::from_utf8(child.stdout).unwrap())
        });
        let (raised, (nice, policy), child) = raised.join().unwrap();
        match raised {
            ThreadPriority::RealTime => assert_eq!((nice, policy), (0, libc::SCHED_RR)),
            ThreadPriority::Raised => assert_eq!((nice, policy), (NICE, libc::SCHED_OTHER)),
            ThreadPriority::Normal => assert_eq!((nice, policy), (0, libc::SCHED_OTHER)),
            ThreadPriority::Kept => return println!("skipped: the tests do not run at normal priority"),
        }
        assert_eq!(child, "0 0\n", "{raised:?}");
    }
}
