//! Whether some device came, went, or became another one: the number of the kernel's last uevent, one small read.
//!
//! What is known of devices is read again then, and not only after a while: a name that is given to another device within
//! one interval must not take over what was known of the old one.

use std::time::{Duration, Instant};

use nix::time::ClockId;

use super::clock;
use super::fields::sole_number;
use super::root::{KeptFile, Root};

/// On a box with thousands of devices, on which always something happens, looking again may be dear: what passes this much
/// CPU time is followed by a rest of so many times as long.
const CHEAP: Duration = Duration::from_millis(10);
const REST_TIMES: u32 = 100;

/// Remembers the last event, and what it cost to look at everything again.
#[derive(Debug)]
pub struct Uevents {
    file: KeptFile,
    buffer: Vec<u8>,
    last: Option<u64>,
    rests_until: Option<Instant>,
}

impl Default for Uevents {
    fn default() -> Uevents {
        Uevents { file: KeptFile::new("sys/kernel/uevent_seqnum"), buffer: Vec::new(), last: None, rests_until: None }
    }
}

impl Uevents {
    /// Whether there was an event since the last time it was said that there was one. Never while looking would be too dear:
    /// it is said later then.
    pub fn happened(&mut self, root: &Root) -> bool {
        let Some(now) = self.file.read(root, &mut self.buffer).ok().and_then(|()| sole_number(&self.buffer)) else {
            return false;
        };
        let Some(last) = self.last else {
            self.last = Some(now);
            return false;
        };
        let may = self.rests_until.is_none_or(|until| Instant::now() >= until);
        if now == last || !may {
            return false;
        }
        self.last = Some(now);
        true
    }

    /// Looks at everything again, and remembers what that costs.
    pub fn look<T>(&mut self, look: impl FnOnce() -> T) -> T {
        let begin = clock(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let seen = look();
        let cost = Duration::from_nanos(clock(ClockId::CLOCK_THREAD_CPUTIME_ID).saturating_sub(begin));
        self.rests_until = Instant::now().checked_add(cost.saturating_sub(CHEAP).saturating_mul(REST_TIMES));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_told_once() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sys/kernel")).unwrap();
        let number = |number: &str| std::fs::write(directory.path().join("sys/kernel/uevent_seqnum"), number).unwrap();
        let root = Root::at(directory.path().to_owned());
        let mut uevents = Uevents::default();
        assert!(!uevents.happened(&root), "no such file");
        number("7\n");
        assert!(!uevents.happened(&root), "nothing was known before");
        assert!(!uevents.happened(&root));
        number("9\n");
        assert!(uevents.happened(&root));
        assert!(!uevents.happened(&root));
        number("");
        assert!(!uevents.happened(&root));
    }

    #[test]
    fn what_is_dear_waits() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("sys/kernel")).unwrap();
        let number = |number: &str| std::fs::write(directory.path().join("sys/kernel/uevent_seqnum"), number).unwrap();
        let root = Root::at(directory.path().to_owned());
        let mut uevents = Uevents::default();
        number("1\n");
        uevents.happened(&root);
        uevents.rests_until = Instant::now().checked_add(Duration::from_secs(3600));
        number("2\n");
        assert!(!uevents.happened(&root));
        uevents.rests_until = None;
        assert!(uevents.happened(&root), "told later");
    }
}
