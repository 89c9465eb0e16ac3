//! Signals: which end the program, which it outlives.

use std::io;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal as stream};

use crate::app::sys;

/// To be called first: a write beyond the file size limit fails with EFBIG and does not end the program. (Rust's start-up
/// code ignores SIGPIPE.)
pub fn ignore_sigxfsz() {
    let _ = sys::ignore_signal(Signal::SIGXFSZ);
}

/// Has a command start with the signal actions and mask that it would have without stalltop.
pub fn restore_default_signals(command: &mut Command) -> &mut Command {
    sys::reset_signals_in_child(command, Signal::SIGXFSZ, &TERMINATING)
}

/// What ends a command without a screen.
const TERMINATING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// What a signal means to the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// SIGINT, SIGTERM, SIGQUIT, SIGHUP
    Terminate,
    /// SIGWINCH
    Resize,
    /// SIGTSTP
    Suspend,
    /// SIGCONT: somebody stopped us without asking
    Continue,
}

/// The signals that the screen waits for.
pub struct SignalEvents {
    interrupt: Stream,
    terminate: Stream,
    quit: Stream,
    hangup: Stream,
    resize: Stream,
    suspend: Stream,
    continued: Stream,
}

impl SignalEvents {
    pub fn listen() -> io::Result<SignalEvents> {
        Ok(SignalEvents {
            interrupt: stream(SignalKind::interrupt())?,
            terminate: stream(SignalKind::terminate())?,
            quit: stream(SignalKind::quit())?,
            hangup: stream(SignalKind::hangup())?,
            resize: stream(SignalKind::window_change())?,
            suspend: stream(SignalKind::from_raw(libc::SIGTSTP))?,
            continued: stream(SignalKind::from_raw(libc::SIGCONT))?,
        })
    }

    /// The next one; may be given up while it waits.
    pub async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Terminate,
            _ = self.terminate.recv() => SignalEvent::Terminate,
            _ = self.quit.recv() => SignalEvent::Terminate,
            _ = self.hangup.recv() => SignalEvent::Terminate,
            _ = self.resize.recv() => SignalEvent::Resize,
            _ = self.suspend.recv() => SignalEvent::Suspend,
            _ = self.continued.recv() => SignalEvent::Continue,
        }
    }
}

/// The signals that end a command without a screen, held back until somebody waits for them. To be held before any other
/// thread is started, so that none of them is ended by one.
pub struct TerminationSignals(SigSet);

impl TerminationSignals {
    pub fn block() -> io::Result<TerminationSignals> {
        let mut set = SigSet::empty();
        for ending in TERMINATING {
            // Who was started with a signal ignored (nohup, a job of a shell without job control) shall not mind it.
            if !sys::is_ignored(ending) {
                set.add(ending);
            }
        }
        set.thread_block()?;
        Ok(TerminationSignals(set))
    }

    /// Once one of them has come. A second one ends the program the hard way.
    pub fn on_signal(self, body: impl FnOnce() + Send + 'static) {
        let wait = move || {
            let _ = self.0.wait();
            let _ = self.0.thread_unblock();
            body();
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(wait);
    }
}

/// Stops this process as Ctrl-Z does, and returns when it is continued. SIGTSTP, not SIGSTOP: the kernel does not stop a
/// process of an orphaned group, which no shell could continue.
pub fn suspend_self() -> io::Result<()> {
    Ok(sys::raise_with_default_action(Signal::SIGTSTP)?)
}
