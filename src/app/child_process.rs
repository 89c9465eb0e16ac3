//! A command as a child of this program: of the user (`--ops`, `--on-finding`), or ssh (`fleet`). It is in a process group of its own, with
//! the signal actions that it would have without stalltop, without the ambient capabilities of a service. It is killed with its group
//! when its time is over, and when the program ends.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use super::program::signals;
use super::sys;

/// How soon the end of a command is noticed.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(2);

/// When a command is killed: at that time, or once `stop` is set.
#[derive(Clone, Copy, Debug)]
pub struct Deadline<'a> {
    pub until: Instant,
    pub stop: &'a AtomicBool,
}

impl Deadline<'_> {
    /// `None` if it is over.
    pub fn time_left(&self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero() && !self.stop.load(Ordering::SeqCst)).then_some(left)
    }
}

/// A running command. Its process group is killed when this is dropped.
pub struct ChildProcess {
    child: Child,
    /// Its exit status was read: its pid may be another process's
    reaped: bool,
}

impl ChildProcess {
    /// Starts the command; the thread that starts it must outlive it, because the end of the thread kills it.
    pub fn start(command: &mut Command) -> io::Result<ChildProcess> {
        let child = sys::restrict_child(signals::restore_default_signals(command.process_group(0))).spawn()?;
        Ok(ChildProcess { child, reaped: false })
    }

    /// Its standard input, if that is a pipe that was not taken yet.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The same of its standard output.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The same of its standard error.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Waits for its exit; `false` if its time is over before.
    pub fn wait_until(&self, deadline: Deadline) -> io::Result<bool> {
        while !self.has_exited()? {
            if deadline.time_left().is_none() {
                return Ok(false);
            }
            thread::sleep(EXIT_POLL_INTERVAL);
        }
        Ok(true)
    }

    /// Kills what is left of its process group, and returns its exit status.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill_group();
        let status = self.child.wait();
        self.reaped = true;
        status
    }

    /// Of the command, and of its process group.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }

    /// It remains a zombie, so that its pid is not reused before the group is killed.
    fn has_exited(&self) -> io::Result<bool> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        Ok(waitid(Id::Pid(self.pid()), flags)? != WaitStatus::StillAlive)
    }

    /// Kills its process group; after `end` nothing, since the pid may be another process's.
    pub fn kill_group(&self) {
        if !self.reaped {
            // All of the group may have ended already.
            let _ = killpg(self.pid(), Signal::SIGKILL);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill_group();
            let _ = self.child.wait();
        }
    }
}
