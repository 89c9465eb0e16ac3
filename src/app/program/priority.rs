//! The priority of the sampling thread, and of those for which it or the result of `check` waits. On a machine without a free CPU a
//! thread of normal priority waits seconds for one, so that samples are late just when they matter.
//!
//! The thread asks for nice -20, as atop does. Not for SCHED_RR: a thread of a low real-time priority gets no CPU at all beside
//! real-time threads that fill all CPUs, since the kernel reserves 5 % for normal threads only (with a SCHED_FIFO loop on each of two
//! CPUs there was one sample in 8 s). The throttle of samples and the CPU budget of sub-samples limit what it uses. Children do not
//! inherit it (SCHED_RESET_ON_FORK). Where the user has started the program with another policy or a nice value, that is kept.

use std::fs;

use crate::app::sys;
use crate::kernel::sys::set_nice;

const NICE: libc::c_int = -20;

/// The priority of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPriority {
    /// `NICE`
    Raised,
    /// It may not be raised: no CAP_SYS_NICE, and RLIMIT_NICE does not allow it.
    Normal,
    /// It is not raised: set by the user who started the program.
    Kept,
}

/// Raises the priority of the calling thread, if this user may.
pub fn raise() -> ThreadPriority {
    if scheduling().is_some_and(|(nice, policy)| nice != 0 || policy != libc::SCHED_OTHER) {
        return ThreadPriority::Kept;
    }
    // Without the flag a child would inherit it.
    match sys::reset_scheduling_on_fork().is_ok() && set_nice(NICE).is_ok() {
        true => ThreadPriority::Raised,
        false => ThreadPriority::Normal,
    }
}

/// Lowers the priority of the calling thread: keys and frames come before what it computes.
pub fn lower() {
    const LOWER_NICE: libc::c_int = 10;
    if scheduling().is_some_and(|(nice, _)| nice == 0) {
        // A thread of normal priority is only slower.
        let _ = set_nice(LOWER_NICE);
    }
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
            ThreadPriority::Raised => assert_eq!((nice, policy), (NICE, libc::SCHED_OTHER)),
            ThreadPriority::Normal => assert_eq!((nice, policy), (0, libc::SCHED_OTHER)),
            ThreadPriority::Kept => return println!("skipped: the tests do not run at normal priority"),
        }
        assert_eq!(child, "0 0\n", "{raised:?}");
    }
}
