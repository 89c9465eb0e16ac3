//! Sends a signal to the process that the user selected, and to no other one that has its pid now.

use std::fs;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::Signal;

use super::program::threads::with_timeout;
use super::sys::pidfd_send_signal;
use crate::ids::ProcessId;
use crate::kernel::sys::pidfd_open;
use crate::kernel::task::parse_stat;
use crate::state::Notice;
use crate::state::process_signal::ProcessSignal;

/// How long the screen waits for /proc.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Sends it, and says in one line that it was sent or why not.
pub fn send_and_report(process: ProcessId, signal: ProcessSignal) -> Notice {
    let sent = with_timeout(TIMEOUT, move || send(process, signal));
    let (name, pid) = (signal.name(), process.pid);
    match sent {
        Ok(Ok(())) => Notice::new(format!("sent {name} to pid {pid}")),
        Ok(Err(error)) => Notice::failure(format!("{name} was not sent to pid {pid}: {error}")),
        Err(_) => Notice::failure(format!("{name}: no answer from /proc/{pid}/stat; it may still be sent")),
    }
}

/// Why a signal was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendError {
    Ended,
    /// Another process has the pid now
    PidReused,
    Refused(Errno),
}

impl std::fmt::Display for SendError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SendError::Ended => formatter.write_str("it has ended"),
            SendError::PidReused => formatter.write_str("it has ended, and another process has this pid"),
            SendError::Refused(Errno::EPERM) => {
                formatter.write_str("not permitted (EPERM): it is another user's, which needs CAP_KILL")
            }
            SendError::Refused(Errno::ENOSYS) => formatter.write_str("this kernel has no pidfd_open (Linux 5.3 has it)"),
            SendError::Refused(errno) => write!(formatter, "{}", errno.desc()),
        }
    }
}

impl From<Errno> for SendError {
    fn from(errno: Errno) -> SendError {
        if errno == Errno::ESRCH { SendError::Ended } else { SendError::Refused(errno) }
    }
}

/// The descriptor refers to one process for ever. It is opened first: if that process has the start time of the selected one, it is
/// the selected one.
fn send(process: ProcessId, signal: ProcessSignal) -> Result<(), SendError> {
    let descriptor = pidfd_open(process.pid)?;
    let stat = fs::read(format!("/proc/{}/stat", process.pid)).map_err(|_| SendError::Ended)?;
    let start_ticks = parse_stat(&stat).ok_or(SendError::Ended)?.start_ticks;
    if start_ticks != process.start_ticks {
        return Err(SendError::PidReused);
    }
    Ok(pidfd_send_signal(descriptor.as_fd(), number(signal))?)
}

fn number(signal: ProcessSignal) -> Signal {
    match signal {
        ProcessSignal::Terminate => Signal::SIGTERM,
        ProcessSignal::Interrupt => Signal::SIGINT,
        ProcessSignal::Hangup => Signal::SIGHUP,
        ProcessSignal::Quit => Signal::SIGQUIT,
        ProcessSignal::Abort => Signal::SIGABRT,
        ProcessSignal::Kill => Signal::SIGKILL,
        ProcessSignal::Stop => Signal::SIGSTOP,
        ProcessSignal::Continue => Signal::SIGCONT,
        ProcessSignal::User1 => Signal::SIGUSR1,
        ProcessSignal::User2 => Signal::SIGUSR2,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    fn identity(pid: u32) -> ProcessId {
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap();
        ProcessId { pid, start_ticks: parse_stat(&stat).unwrap().start_ticks }
    }

    #[test]
    fn a_signal_goes_to_the_process_and_never_to_another_one_with_its_pid() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let id = identity(child.id());
        let earlier = ProcessId { start_ticks: id.start_ticks - 1, ..id };
        assert_eq!(send(earlier, ProcessSignal::Kill), Err(SendError::PidReused));
        assert_eq!(child.try_wait().unwrap(), None, "it still runs");
        assert_eq!(send(id, ProcessSignal::Terminate), Ok(()));
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGTERM as i32));
        assert_eq!(send(id, ProcessSignal::Terminate), Err(SendError::Ended));
        assert_eq!(
            send_and_report(id, ProcessSignal::Kill).text,
            format!("SIGKILL was not sent to pid {}: it has ended", id.pid)
        );
    }

    #[test]
    fn each_signal_has_the_number_of_its_name() {
        for signal in ProcessSignal::ALL {
            assert_eq!(number(signal).as_str(), signal.name());
        }
    }
}
