//! Signals: which end the program, which it outlives.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction, signal};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal as stream};

/// Before anything else: a file that may not grow is an error of that write (EFBIG), not the end.
/// A closed pipe is one already: Rust's start-up ignores SIGPIPE.
pub fn ignore_sigxfsz() {
    // SAFETY: ignoring a signal installs no function of ours.
    let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
}

/// A command that minds signals as if we were not there.
pub fn restore_default_signals(command: &mut Command) -> &mut Command {
    let before_exec = || {
        // SAFETY: the default action is no function of ours.
        unsafe { signal(Signal::SIGXFSZ, SigHandler::SigDfl) }?;
        Ok(SigSet::from_iter(TERMINATING).thread_unblock()?)
    };
    // SAFETY: between fork and exec two system calls are made and nothing is allocated.
    unsafe { command.pre_exec(before_exec) }
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
            if !is_ignored(ending) {
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

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: a null new action only asks for the present one, which is written to `now`.
    unsafe {
        let mut now = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal as libc::c_int, std::ptr::null(), &mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Stops this process as Ctrl-Z does, and comes back when it is continued. A process that nobody could continue (an
/// orphaned group) is not stopped: so the kernel has it with SIGTSTP, and not with SIGSTOP.
pub fn suspend_self() -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action is no function of ours, and what was there before is put back.
    let before = unsafe { sigaction(Signal::SIGTSTP, &default) }?;
    let raised = raise(Signal::SIGTSTP);
    // SAFETY: as above.
    unsafe { sigaction(Signal::SIGTSTP, &before) }?;
    Ok(raised?)
}
