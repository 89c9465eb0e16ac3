//! A question on the terminal before something is done.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};

use super::exit::{Exit, Failure};
use crate::report::formatting::printable;

/// How often `stopped` is looked at, in milliseconds.
const STOP_POLL_MS: u8 = 100;

/// Asks; `true` for y and yes. Fails, with `what` cannot be done, where standard input is not a terminal: then `--yes` is needed.
pub fn is_confirmed(question: &str, what: &str) -> Result<bool, Failure> {
    is_confirmed_unless(&AtomicBool::new(false), question, what)
}

/// The same where signals are blocked: `stopped` is an answer, too.
pub fn is_confirmed_unless(stopped: &AtomicBool, question: &str, what: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(Exit::Usage, what, "standard input is not a terminal", "--yes does not ask"));
    }
    let question = question.lines().map(printable).collect::<Vec<_>>().join("\n");
    let mut answer = String::new();
    let asked = io::stderr().write_all(question.as_bytes()).and_then(|()| match is_answered(stopped)? {
        true => io::stdin().lock().read_line(&mut answer),
        false => io::stderr().write(b"\n"),
    });
    asked.map_err(|error| Failure::new(Exit::Failed, what, error, "--yes does not ask"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Waits for a line; `false` once `stopped` is set.
fn is_answered(stopped: &AtomicBool) -> io::Result<bool> {
    while !stopped.load(Ordering::SeqCst) {
        let stdin = io::stdin();
        match poll(&mut [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)], STOP_POLL_MS) {
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}
