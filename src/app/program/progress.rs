//! Prints the progress of reading a recording, in one line on standard error if that is a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use super::stdio;
use crate::units::format::width;

/// A command that takes less shows nothing.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Time between two lines.
const SHOWN_EVERY: Duration = Duration::from_millis(200);

/// The line that is overwritten as the work goes on.
pub struct Progress {
    /// `None`: nothing is shown
    label: Option<String>,
    next_line: Instant,
    /// Characters of the line that is on the terminal
    width: usize,
}

impl Progress {
    pub fn hidden() -> Progress {
        Progress { label: None, next_line: Instant::now(), width: 0 }
    }

    /// Shown where standard error is a terminal.
    pub fn on_terminal(label: String) -> Progress {
        let label = Some(label).filter(|_| io::stderr().is_terminal());
        Progress { label, next_line: Instant::now() + SHOWN_AFTER, width: 0 }
    }

    /// Shows how many of how many are done.
    pub fn show(&mut self, done: usize, all: usize) {
        let Some(label) = &self.label else { return };
        let now = Instant::now();
        if now < self.next_line {
            return;
        }
        self.next_line = now + SHOWN_EVERY;
        let line = format!("stalltop: {label}: {} %", done * 100 / all.max(1));
        self.width = width(&line);
        stdio::overwrite_stderr_line(&line);
    }

    /// Removes the line.
    pub fn end(&mut self) {
        if self.width > 0 {
            stdio::overwrite_stderr_line(&" ".repeat(self.width));
            stdio::overwrite_stderr_line("");
            self.width = 0;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}
