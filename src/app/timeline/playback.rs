//! Times the playback of a recording: when the next interval is to be shown.

use std::time::Duration;

use tokio::time::Instant;

use crate::recording::Timestamp;

/// A longer time without samples is played as this long.
const MAX_GAP: Duration = Duration::from_secs(3);

/// Slower is not played.
const MIN_SPEED: f64 = 0.001;

pub struct PlaybackTimer {
    is_paused: bool,
    /// 1.0 is as fast as it was recorded
    speed: f64,
    /// When the interval on the screen was due
    shown_since: Instant,
    /// The end has been reached and reported.
    is_end_reported: bool,
    /// The nominal time between samples
    interval: Duration,
}

impl PlaybackTimer {
    pub fn new(speed: f64, interval: Duration) -> PlaybackTimer {
        PlaybackTimer { is_paused: false, speed, shown_since: Instant::now(), is_end_reported: false, interval }
    }

    pub fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    pub fn set_speed(&mut self, speed: f64) {
        self.speed = speed;
    }

    /// The next sample is due as long after this time as the two are apart.
    pub fn restart_at(&mut self, at: Instant) {
        self.shown_since = at;
    }

    /// The end has been reached. Whether it is to be reported: once, until `clear_end`.
    pub fn reach_end(&mut self) -> bool {
        !std::mem::replace(&mut self.is_end_reported, true)
    }

    /// An earlier sample may be shown again.
    pub fn clear_end(&mut self) {
        self.is_end_reported = false;
    }

    /// When to show the sample after the one on the screen; `None` while paused.
    pub fn due(&self, shown: Timestamp, next: Timestamp) -> Option<Instant> {
        let apart = Duration::from_nanos(next.boottime_ns.saturating_sub(shown.boottime_ns));
        let apart = apart.min(MAX_GAP.max(self.interval * 2));
        (!self.is_paused).then(|| self.shown_since + apart.div_f64(self.speed.max(MIN_SPEED)))
    }

    /// After a wait at the end of a growing recording, new samples are due from now on.
    pub fn skip_wait(&mut self, due: Instant, now: Instant) {
        if due + MAX_GAP < now {
            self.shown_since = now;
        }
    }
}
