//! Detects a terminal slower than frames are drawn; the time between its frames.

use std::time::Duration;

use tokio::time::Instant;

use super::Accepted;

/// The shortest time between two frames of a slow terminal.
const SLOW_FRAME_INTERVAL: Duration = Duration::from_secs(2);
const MAX_SLOW_FRAME_INTERVAL: Duration = Duration::from_secs(10);

/// A terminal is slow when it has not accepted so many frames in a row within this time. One frame is a user who stopped it.
const SLOW_WRITE: Duration = Duration::from_millis(500);
const SLOW_FRAMES: u32 = 3;

/// It is also slow when it accepts a frame in at least so many partial writes, at fewer bytes a second than this: 57,600 baud.
const MIN_PARTIAL_WRITES: u32 = 10;
const SLOW_BYTES_PER_SECOND: f64 = 5_760.0;

/// How fast the terminal accepts frames.
#[derive(Debug, Default)]
pub struct LineSpeed {
    /// When the frame was drawn that the terminal has not accepted, and what it had accepted then
    begun: Option<(Instant, Accepted)>,
    /// Frames in a row that it was slow to accept
    slow_frames: u32,
    /// How long it took to accept the last frame
    last_frame: Duration,
}

impl LineSpeed {
    /// A frame has been drawn, and its first bytes written.
    pub fn frame_begins(&mut self, accepted: Accepted, now: Instant) {
        self.begun = Some((now, accepted));
    }

    /// Called after each write. Returns whether the terminal is slow. `is_pending`: bytes of the frame are left.
    pub fn is_slow(&mut self, accepted: Accepted, is_pending: bool, now: Instant) -> bool {
        let Some((begun, before)) = self.begun else { return false };
        let elapsed = now.saturating_duration_since(begun);
        if is_pending {
            let writes = accepted.writes.wrapping_sub(before.writes);
            let bytes = accepted.bytes.wrapping_sub(before.bytes);
            let rate = bytes as f64 / elapsed.as_secs_f64().max(1e-3);
            return elapsed >= SLOW_WRITE * SLOW_FRAMES && writes >= MIN_PARTIAL_WRITES && rate < SLOW_BYTES_PER_SECOND;
        }
        self.begun = None;
        self.last_frame = elapsed;
        self.slow_frames = if elapsed >= SLOW_WRITE { self.slow_frames + 1 } else { 0 };
        self.slow_frames >= SLOW_FRAMES
    }

    /// The time between two frames of a slow terminal: it is idle for half of it, so that the answer to a key does not wait for long.
    pub fn slow_frame_interval(&self) -> Duration {
        (self.last_frame * 2).clamp(SLOW_FRAME_INTERVAL, MAX_SLOW_FRAME_INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begun: Instant, milliseconds: u64) -> Instant {
        begun + Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_frame_that_is_accepted_little_by_little_is_slow() {
        let (mut speed, begun) = (LineSpeed::default(), Instant::now());
        speed.frame_begins(Accepted { bytes: 4096, writes: 1 }, begun);
        // 9,600 baud
        let at = |twentieth: usize| Accepted { bytes: 4096 + twentieth * 48, writes: 1 + twentieth as u32 };
        let slow = (1..100).find(|&twentieth| speed.is_slow(at(twentieth), true, after(begun, twentieth as u64 * 50)));
        assert_eq!(slow, Some(30));
    }

    /// A user who stops the terminal, and a connection that stalls once.
    #[test]
    fn a_terminal_that_stops_once_is_not_slow() {
        let (mut speed, begun) = (LineSpeed::default(), Instant::now());
        for bytes in [0, 2000] {
            speed.frame_begins(Accepted::default(), begun);
            let part = Accepted { bytes, writes: u32::from(bytes > 0) };
            assert!(!speed.is_slow(part, true, after(begun, 20_000)));
            assert!(!speed.is_slow(Accepted { bytes: 9000, writes: 3 }, false, after(begun, 20_000)));
        }
        assert_eq!(speed.slow_frame_interval(), MAX_SLOW_FRAME_INTERVAL);
        speed.frame_begins(Accepted::default(), begun);
        assert!(!speed.is_slow(Accepted { bytes: 9000, writes: 1 }, false, after(begun, 1)));
        assert_eq!(speed.slow_frame_interval(), SLOW_FRAME_INTERVAL);
    }
}
