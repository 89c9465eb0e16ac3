//! Signals: which end the program, which it outlives.

use std::io;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction, signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal as stream};

/// Before anything else: a file that may not grow is an error of that write (EFBIG), not the end.
/// A closed pipe is one already: Rust's start-up ignores SIGPIPE.
pub fn prepare() {
    // SAFETY: ignoring a signal installs no function of ours.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// What a signal means to the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// SIGINT, SIGTERM, SIGQUIT, SIGHUP
    End,
    /// SIGWINCH
    Resize,
    /// SIGTSTP
    Stop,
    /// SIGCONT: somebody stopped us without asking
    GoOn,
}

/// The signals that the screen waits for.
pub struct Calls {
    interrupt: Stream,
    terminate: Stream,
    quit: Stream,
    hangup: Stream,
    resize: Stream,
    stop: Stream,
    go_on: Stream,
}

impl Calls {
    pub fn listen() -> io::Result<Calls> {
        Ok(Calls {
            interrupt: stream(SignalKind::interrupt())?,
            terminate: stream(SignalKind::terminate())?,
            quit: stream(SignalKind::quit())?,
            hangup: stream(SignalKind::hangup())?,
            resize: stream(SignalKind::window_change())?,
            stop: stream(SignalKind::from_raw(libc::SIGTSTP))?,
            go_on: stream(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// The next one; may be given up while it waits.
    pub async fn next(&mut self) -> Call {
        tokio::select! {
            _ = self.interrupt.recv() => Call::End,
            _ = self.terminate.recv() => Call::End,
            _ = self.quit.recv() => Call::End,
            _ = self.hangup.recv() => Call::End,
            _ = self.resize.recv() => Call::Resize,
            _ = self.stop.recv() => Call::Stop,
            _ = self.go_on.recv() => Call::GoOn,
        }
    }
}

/// Stops this process as Ctrl-Z does, and comes back when it is continued. A process that nobody could continue (an
/// orphaned group) is not stopped: so the kernel has it with SIGTSTP, and not with SIGSTOP.
pub fn stop_here() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action is no function of ours, and what was there before is put back.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) }?;
    let raised = raise(Signal::SIGTSTP);
    // SAFETY: as above.
    unsafe { sigaction(Signal::SIGTSTP, &before) }?;
    Ok(raised?)
}
