//! A terminal that has hung up: the ssh connection is lost, or the window was closed.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Waits until the terminal hangs up.
pub fn wait_for_hangup(terminal: &impl AsFd) {
    while !has_hung_up(terminal, PollTimeout::NONE) {}
}

/// Whether the terminal has hung up, or hangs up within that time. Without requested events, poll(2) reports only a hang-up,
/// and keys do not wake it.
fn has_hung_up(terminal: &impl AsFd, timeout: PollTimeout) -> bool {
    let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::empty())];
    match poll(&mut fds, timeout) {
        Ok(ready) => ready > 0,
        Err(error) => error != nix::errno::Errno::EINTR && error != nix::errno::Errno::EAGAIN,
    }
}

/// Replaces standard error by /dev/null if it is a terminal that has hung up: a write would fail, and a panic message that
/// cannot be written aborts the program.
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
