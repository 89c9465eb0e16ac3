//! Commands that change the machine of a test, or cannot.

use std::process::Command;

/// Runs a command of words between spaces; whether it succeeds.
pub fn succeeds(command: &str) -> bool {
    let mut words = command.split(' ');
    Command::new(words.next().unwrap()).args(words).output().is_ok_and(|output| output.status.success())
}
