//! A terminal that has gone away (ssh dropped, window closed).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Sleeps until nobody is at the other end of the terminal any more.
pub fn wait_for_hangup(terminal: &impl AsFd) {
    while !has_hung_up(terminal, PollTimeout::NONE) {}
}

/// Whether the terminal is gone, or goes within that time. Nothing is asked for, so that keys wake nobody: a hang-up is told
/// all the same.
fn has_hung_up(terminal: &impl AsFd, timeout: PollTimeout) -> bool {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    match poll(&mut fds, timeout) {
        Ok(ready) => ready > 0,
        Err(error) => error != nix::errno::Errno::EINTR && error != nix::errno::Errno::EAGAIN,
    }
}

/// Puts /dev/null where standard error was, if that was a terminal which is gone: writing there fails, and whatever
/// complains on its way out must not end in an abort.
pub fn redirect_lost_stderr() {
    use std::io::IsTerminal;
    let stderr = io::stderr();
    if has_hung_up(&stderr, PollTimeout::ZERO)
        && (stderr.is_terminal() || nix::sys::termios::tcgetattr(&stderr).is_err())
        && let Ok(null) = File::options().write(true).open("/dev/null")
    {
        let _ = nix::unistd::dup2_stderr(null);
    }
}
