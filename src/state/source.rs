//! Where the samples come from, what that source supports, and whether the next sample is overdue.

use super::State;
use super::event::Effect;
use crate::sample::Instant;

/// Where the samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Live,
    /// A recording that arrives on standard input; `name` is displayed in the header
    Pipe {
        name: String,
    },
    /// Another machine, through the fleet; `name` is displayed in the header
    Host {
        name: String,
    },
    /// A recording; `name` is displayed in the header
    Replay {
        name: String,
    },
}

/// What the source of the samples supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// New samples arrive whatever interval is displayed; a pause stops only the screen
    pub follows_newest: bool,
    /// The sampling interval can be set
    pub set_interval: bool,
    /// Intervals are played at a speed that can be set
    pub set_speed: bool,
    /// The samples in memory can be saved, recorded and marked
    pub record: bool,
}

impl Source {
    pub fn capabilities(&self) -> Capabilities {
        let in_memory = !matches!(self, Source::Replay { .. });
        Capabilities {
            follows_newest: in_memory,
            set_interval: *self == Source::Live,
            set_speed: !in_memory,
            record: in_memory,
        }
    }
}

/// Whether more samples will come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SourceStatus {
    #[default]
    Open,
    /// End of the recording or of the pipe
    Ended,
    /// The source failed with this error
    Failed(String),
}

/// Whether more samples will come, and since when the next one is expected.
#[derive(Clone, Debug, Default)]
pub struct SampleArrival {
    pub status: SourceStatus,
    /// Current time, as of the last `Event::Now`
    pub(super) now: Option<Instant>,
    /// The first `Event::Now` after the start, the first sample or the newest interval: what the next one is waited for since. Another
    /// machine has another clock.
    pub(super) waiting_since: Option<Instant>,
    pub has_first_sample: bool,
}

impl State {
    /// What the source of the samples supports.
    pub fn capabilities(&self) -> Capabilities {
        self.setup.source.capabilities()
    }

    /// The current time; a new frame is needed if another delay is displayed.
    pub(super) fn set_now(&mut self, now: Instant) -> Effect {
        let late = |state: &State| state.late_seconds().or(state.first_interval_late_seconds()).map(|late| late as u64);
        let displayed = late(self);
        self.arrival.now = Some(now);
        self.arrival.waiting_since.get_or_insert(now);
        if late(self) == displayed { Effect::Nothing } else { Effect::Redraw }
    }

    pub(super) fn set_first_sample(&mut self) {
        self.arrival.has_first_sample = true;
        self.arrival.waiting_since = self.arrival.now;
    }

    /// Before the first interval: seconds since the start or the first sample, if the next sample is overdue.
    pub fn first_interval_late_seconds(&self) -> Option<f64> {
        let waits = self.current().is_none() && self.capabilities().follows_newest;
        self.overdue_seconds(self.arrival.waiting_since.filter(|_| waits)?)
    }

    /// Seconds since then, if they are more than an interval by enough.
    fn overdue_seconds(&self, since: Instant) -> Option<f64> {
        let waited = self.arrival.now?.seconds_since(since);
        let due = self.setup.interval_ms as f64 / 1000.0;
        (self.arrival.status == SourceStatus::Open && waited > due * 1.5 + 1.0).then_some(waited)
    }

    /// Live: seconds since the newest sample, if the next one is overdue.
    pub fn late_seconds(&self) -> Option<f64> {
        let newest = self.playback.newest.as_ref().or(self.current())?;
        let arrived = match self.setup.source {
            Source::Live => newest.interval.at(),
            Source::Host { .. } => self.arrival.waiting_since?,
            Source::Pipe { .. } | Source::Replay { .. } => return None,
        };
        self.overdue_seconds(arrived)
    }
}
