//! Which wait events show that a process writes a server's log (WAL): their numbers differ between versions.

use crate::sample::waits::WaitEvent;

/// From so many processes on that were seen to write the log with this event it is known: one may have changed while it was read.
const MIN_SIGHTINGS: u32 = 2;
/// Events of one server: WALWrite, WALSync, and two that a read in between took for them.
const MAX_EVENTS: usize = 4;

/// Events with which processes were seen to write the log, and how often.
#[derive(Debug, Default)]
pub struct LogEvents {
    sightings: Vec<(WaitEvent, u32)>,
}

impl LogEvents {
    /// A process with this event was in a system call that wrote the log.
    pub fn add(&mut self, event: WaitEvent) {
        if let Some((_, count)) = self.sightings.iter_mut().find(|(seen, _)| *seen == event) {
            *count = count.saturating_add(1);
        } else if self.sightings.len() < MAX_EVENTS {
            self.sightings.push((event, 1));
        }
    }

    /// A process with this event was in another system call: it is no event of the log.
    pub fn remove(&mut self, event: WaitEvent) {
        self.sightings.retain(|(seen, _)| *seen != event);
    }

    /// Whether a process with this event writes the log, whatever it does at the moment.
    pub fn is_known(&self, event: WaitEvent) -> bool {
        self.sightings.iter().any(|&(seen, count)| seen == event && count >= MIN_SIGHTINGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_when_two_processes_wrote_the_log_with_it_and_none_did_anything_else() {
        let (sync, read) = (WaitEvent(0x0a00_0042), WaitEvent(0x0a00_0017));
        let mut events = LogEvents::default();
        events.add(sync);
        assert!(!events.is_known(sync));
        events.add(sync);
        assert!(events.is_known(sync) && !events.is_known(read));
        (0..2).for_each(|_| events.add(read));
        events.remove(read);
        assert!(events.is_known(sync) && !events.is_known(read), "it was read between two writes");
    }

    #[test]
    fn few_events_are_kept() {
        let mut events = LogEvents::default();
        for number in 0..100 {
            (0..2).for_each(|_| events.add(WaitEvent(0x0a00_0000 + number)));
        }
        assert_eq!((0..100).filter(|&number| events.is_known(WaitEvent(0x0a00_0000 + number))).count(), MAX_EVENTS);
    }
}
