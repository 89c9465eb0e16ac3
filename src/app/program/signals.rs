//! Signals: which ones end the program, and which ones it ignores.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal as stream};
use tokio::sync::Notify;

use super::exit::Failure;
use super::{priority, threads};
use crate::app::{sys, terminal};

/// A write beyond the file size limit then fails with EFBIG and does not end the program. (Rust's start-up code ignores
/// SIGPIPE.) Called first.
pub fn ignore_sigxfsz() {
    let _ = sys::ignore_signal(Signal::SIGXFSZ);
}

/// Has a command start with the signal actions and mask that it would have without stalltop.
pub fn restore_default_signals(command: &mut Command) -> &mut Command {
    sys::reset_signals_in_child(command, Signal::SIGXFSZ, &BLOCKED)
}

/// What a thread waits for, and the others have blocked.
const BLOCKED: [Signal; 5] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, CAPTURE];

/// Starts a capture of `record --armed`.
const CAPTURE: Signal = Signal::SIGUSR1;

/// The signals that end a command without a screen.
const TERMINATING: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

/// Signals within this time are one request.
const SECOND_SIGNAL_AFTER: Duration = Duration::from_millis(500);

/// What a signal means to the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalEvent {
    /// SIGINT, SIGTERM, SIGQUIT, SIGHUP
    Terminate,
    /// SIGWINCH
    Resize,
    /// SIGTSTP
    Suspend,
    /// SIGCONT: the process was stopped by SIGSTOP
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
    terminated: Arc<Notify>,
}

impl SignalEvents {
    /// `terminated` is notified where `TerminationSignals` takes those that end the program.
    pub fn listen(terminated: Arc<Notify>) -> io::Result<SignalEvents> {
        Ok(SignalEvents {
            interrupt: stream(SignalKind::interrupt())?,
            terminate: stream(SignalKind::terminate())?,
            quit: stream(SignalKind::quit())?,
            hangup: stream(SignalKind::hangup())?,
            resize: stream(SignalKind::window_change())?,
            suspend: stream(SignalKind::from_raw(libc::SIGTSTP))?,
            continued: stream(SignalKind::from_raw(libc::SIGCONT))?,
            terminated,
        })
    }

    /// Waits for the next signal. Cancel-safe.
    pub async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.interrupt.recv() => SignalEvent::Terminate,
            _ = self.terminate.recv() => SignalEvent::Terminate,
            _ = self.quit.recv() => SignalEvent::Terminate,
            _ = self.hangup.recv() => SignalEvent::Terminate,
            _ = self.resize.recv() => SignalEvent::Resize,
            _ = self.suspend.recv() => SignalEvent::Suspend,
            _ = self.continued.recv() => SignalEvent::Continue,
            () = self.terminated.notified() => SignalEvent::Terminate,
        }
    }
}

/// The signals that end a command without a screen, blocked in all threads until `on_signal` waits for them. Blocked before any
/// other thread is started, because threads inherit the mask.
pub struct TerminationSignals(SigSet);

impl TerminationSignals {
    pub fn block() -> io::Result<TerminationSignals> {
        let mut set = SigSet::empty();
        for signal in TERMINATING {
            // Signals that were ignored at the start (nohup, a shell without job control) remain ignored.
            if !sys::is_ignored(signal) {
                set.add(signal);
            }
        }
        set.thread_block()?;
        Ok(TerminationSignals(set))
    }

    /// Calls `body` after the first of these signals. A second one ends the program at once, unless it is the same request:
    /// `timeout`, terminals and shells send theirs twice. `body` must not block.
    pub fn on_signal(self, body: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let wait = move || {
            let _ = self.0.wait();
            let first = Instant::now();
            body();
            while let Ok(signal) = self.0.wait() {
                if first.elapsed() >= SECOND_SIGNAL_AFTER {
                    // Does nothing without a screen.
                    terminal::restore();
                    let _ = self.0.thread_unblock();
                    let _ = sys::raise_with_default_action(signal);
                }
            }
        };
        threads::spawn("signals", wait).map(drop)
    }
}

/// The signal that starts a capture, blocked in all threads. Blocked before any other thread is started, because threads inherit the
/// mask.
pub struct CaptureSignal(SigSet);

impl CaptureSignal {
    pub fn block() -> io::Result<CaptureSignal> {
        let set = SigSet::from(CAPTURE);
        set.thread_block()?;
        Ok(CaptureSignal(set))
    }

    /// Calls `body` after each of them. It must not block.
    pub fn on_each(self, mut body: impl FnMut() + Send + 'static) -> Result<(), Failure> {
        let wait = move || {
            // It must run when nothing else does.
            priority::raise();
            while self.0.wait().is_ok() {
                body();
            }
        };
        threads::spawn("capture signal", wait).map(drop)
    }
}

/// Stops this process as Ctrl-Z does, and returns when it is continued. SIGTSTP, not SIGSTOP: the kernel does not stop a
/// process of an orphaned group, which no shell could continue.
pub fn suspend_self() -> io::Result<()> {
    Ok(sys::raise_with_default_action(Signal::SIGTSTP)?)
}
