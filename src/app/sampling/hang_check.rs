//! Decides that a read of a process does not return: no sample comes, and the sampling thread is in the same read for seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::TimedSample;
use crate::kernel::task::read_watch::{HungRead, ReadInProgress, TaskRead};

/// How long without a sample before the thread is looked at, and how long after that it must still be in the same read.
const PATIENCE: Duration = Duration::from_secs(3);

pub struct HangCheck {
    due: Instant,
    last_sample_at: Option<Instant>,
    seen: Option<ReadInProgress>,
    /// What a new thread leaves out, until its first sample
    left_out: Option<Arc<str>>,
}

impl HangCheck {
    pub fn new(now: Instant) -> HangCheck {
        HangCheck { due: now + PATIENCE, last_sample_at: None, seen: None, left_out: None }
    }

    /// When to call `check`, unless a sample comes before.
    pub fn due(&self) -> Instant {
        self.due
    }

    pub fn last_sample_at(&self) -> Option<Instant> {
        self.last_sample_at
    }

    /// A sample has come. That of a new thread says what is left out, and how many were due since the last sample.
    pub fn received(&mut self, sample: TimedSample, interval: Duration, now: Instant) -> TimedSample {
        let (last, left_out) = (self.last_sample_at.replace(now), self.left_out.take());
        (self.due, self.seen) = (now + PATIENCE, None);
        if left_out.is_none() {
            return sample;
        }
        let intervals = last.map_or(0, |last| (now - last).as_nanos() / interval.as_nanos().max(1));
        let missed = u64::try_from(intervals).unwrap_or(u64::MAX).saturating_sub(1);
        TimedSample { missed: sample.missed.saturating_add(missed), left_out, ..sample }
    }

    /// The read that does not return. `current`: the one that the thread is in now.
    pub fn check(&mut self, current: Option<ReadInProgress>, now: Instant) -> Option<HungRead> {
        let before = std::mem::replace(&mut self.seen, current);
        self.due = now + PATIENCE;
        current.filter(|_| current == before).map(|read| read.hung)
    }

    /// Another thread has taken the place of the one in this read, which is of the process of that name.
    pub fn replaced_without(&mut self, hung: HungRead, name: Option<&str>) {
        let HungRead { pid, read } = hung;
        let process = name.map_or_else(|| format!("process {pid}"), |name| format!("{name} ({pid})"));
        let line = match read {
            TaskRead::Files => {
                format!("{process} is left out: a read of its files in /proc does not return (it hangs in execve)")
            }
            TaskRead::Memory => {
                format!("the memory of {process} is left out: a read of it does not return (a page fault hangs)")
            }
        };
        // Another one may hang before there is a sample.
        let line = self.left_out.as_ref().map_or(line.clone(), |before| format!("{before}; {line}"));
        (self.seen, self.left_out) = (None, Some(line.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::task::read_watch::{LeftOut, ReadWatch, watched};
    use crate::sample::{Instant as SampleInstant, Sample};

    #[test]
    fn a_thread_hangs_if_it_is_in_the_same_read_twice_and_the_next_sample_says_it() {
        let watch = ReadWatch::new(LeftOut::default());
        watch.install();
        let read = || watched(7, TaskRead::Files, || watch.current()).flatten();
        let sample = || TimedSample::new(Arc::new(Sample::empty(SampleInstant::default())), 0);
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut check = HangCheck::new(begin);
        assert_eq!(check.received(sample(), second, begin).missed, 0);
        let (first, other) = (read(), read());
        assert_eq!(check.check(first, begin + second * 3), None);
        assert_eq!(check.check(other, begin + second * 6), None, "it has gone on");
        assert_eq!(check.check(None, begin + second * 9), None, "it waits for the next sample");
        assert_eq!(check.check(other, begin + second * 12), None);
        let hung = HungRead { pid: 7, read: TaskRead::Files };
        assert_eq!(check.check(other, begin + second * 15), Some(hung));
        check.replaced_without(hung, Some("app"));
        let first = check.received(sample(), second, begin + second * 16);
        let line = "app (7) is left out: a read of its files in /proc does not return (it hangs in execve)";
        assert_eq!((first.missed, first.left_out.as_deref()), (15, Some(line)));
        let next = check.received(sample(), second, begin + second * 17);
        assert_eq!((next.missed, next.left_out), (0, None));
    }
}
