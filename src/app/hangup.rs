//! A terminal that has gone away (ssh dropped, window closed).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// What waiting for keys ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// There is something to read.
    Ready,
    /// Nobody is at the other end any more.
    HungUp,
}

/// Waits until the terminal has something to read or is gone. `None` where a signal came first.
pub fn wait(terminal: &impl AsFd, timeout: PollTimeout) -> Option<Line> {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    match poll(&mut fds, timeout) {
        Ok(0) | Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => None,
        Ok(_) => {
            let seen = fds.first().and_then(PollFd::revents).unwrap_or(PollFlags::POLLERR);
            let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
            Some(if seen.intersects(gone) { Line::HungUp } else { Line::Ready })
        }
        Err(_) => Some(Line::HungUp),
    }
}

/// Puts /dev/null where standard error was, if that was a terminal which is gone: writing there fails, and whatever
/// complains on its way out must not end in an abort.
pub fn quiet_lost_stderr() {
    use std::io::IsTerminal;
    let stderr = io::stderr();
    let gone = wait(&stderr, PollTimeout::ZERO) == Some(Line::HungUp);
    if gone
        && (stderr.is_terminal() || nix::sys::termios::tcgetattr(&stderr).is_err())
        && let Ok(null) = File::options().write(true).open("/dev/null")
    {
        let _ = nix::unistd::dup2_stderr(null);
    }
}
