//! When a screen is drawn next, or what is left of its last frame is written.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The shortest time between two frames that answer keys or the mouse.
const MIN_ANSWER_INTERVAL: Duration = Duration::from_millis(8);

/// The time between two writes to a terminal that did not accept all of a frame.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// What has changed since the last frame.
pub struct FrameSchedule {
    is_due: bool,
    answers_input: bool,
    last_written: Option<Instant>,
    /// The terminal was initialized again, and no frame has been drawn since
    reinitialized: bool,
}

impl FrameSchedule {
    /// The first frame is due at once.
    pub fn new() -> FrameSchedule {
        FrameSchedule { is_due: true, answers_input: false, last_written: None, reinitialized: false }
    }

    /// What is shown has changed.
    pub fn request_frame(&mut self) {
        self.is_due = true;
    }

    /// The next frame answers a key or the mouse.
    pub fn answer_input(&mut self) {
        self.answers_input = true;
    }

    /// The terminal is initialized again.
    pub fn terminal_reinitialized(&mut self) {
        self.reinitialized = true;
    }

    /// Whether no frame has been drawn since the terminal was initialized again.
    pub fn was_reinitialized(&self) -> bool {
        self.reinitialized
    }

    /// Whether something has changed since the last frame.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// A frame was drawn; the terminal may not have accepted all of it.
    pub fn frame_drawn(&mut self) {
        (self.is_due, self.answers_input, self.reinitialized) = (false, false, false);
    }

    /// Bytes were written to the terminal.
    pub fn bytes_written(&mut self) {
        self.last_written = Some(Instant::now());
    }

    /// When to draw a frame or write pending bytes; `None` if neither is needed. `frame_interval`: the shortest time between two frames.
    pub fn next_draw(&self, has_pending_bytes: bool, frame_interval: Duration) -> Option<Instant> {
        let interval = match (has_pending_bytes, self.answers_input) {
            (true, _) => WRITE_RETRY_INTERVAL,
            (false, true) => MIN_ANSWER_INTERVAL,
            (false, false) => frame_interval,
        };
        let is_needed = self.is_due || has_pending_bytes;
        is_needed.then(|| self.last_written.map_or_else(Instant::now, |written| written + interval))
    }
}

/// Waits until then; forever without a time. Cancel-safe.
pub async fn sleep_until_some(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_pending_bytes_do_not_wait_for_the_interval_of_frames() {
        let second = Duration::from_secs(1);
        let mut schedule = FrameSchedule::new();
        schedule.bytes_written();
        let written = schedule.last_written.unwrap();
        let delay = |schedule: &FrameSchedule, pending| schedule.next_draw(pending, second).map(|at| at - written);
        assert_eq!(delay(&schedule, false), Some(second));
        schedule.answer_input();
        assert_eq!(delay(&schedule, false), Some(MIN_ANSWER_INTERVAL));
        schedule.frame_drawn();
        assert_eq!((delay(&schedule, false), delay(&schedule, true)), (None, Some(WRITE_RETRY_INTERVAL)));
    }
}
