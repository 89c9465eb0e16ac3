//! Loads the BPF program in a child process, a second instance of this program: relocation by BTF takes 30 MB, which this
//! process would keep. The child sends the program's descriptor, or the reason why there is none, and exits.
//!
//! The child has no terminal and none of this process's files, runs at nice 0, is killed after a timeout, and ends
//! with this process at the latest.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};
use nix::unistd::alarm;

use super::{TaskIterator, program_loader};
use crate::kernel::sys;

/// The only argument of the child.
pub const LOADER_ARGUMENT: &str = "--load-the-iterator";
/// That of an ordinary program: the sampling thread, from which it inherits, has -20.
const LOADER_NICE: libc::c_int = 0;
/// Loading takes 50 ms of CPU, which may come late on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest reason; the rest is cut off.
const MAX_MESSAGE_BYTES: usize = 512;

/// This program, also when its file was moved or replaced.
pub fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// The child process.
#[derive(Debug)]
pub struct LoaderProcess {
    child: Child,
    socket: OwnedFd,
    deadline: Instant,
}

impl LoaderProcess {
    /// Starts `program`, which is this one; does not wait.
    pub fn spawn(program: &Path) -> io::Result<LoaderProcess> {
        let (socket, theirs) =
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK)?;
        let child = Command::new(program)
            .arg(LOADER_ARGUMENT)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of the terminal's keys do not reach it.
            .process_group(0)
            .spawn()?;
        Ok(LoaderProcess { child, socket, deadline: Instant::now() + LOAD_TIMEOUT })
    }

    /// The result; `None` while the child is still loading. Does not wait.
    pub fn try_result(&mut self) -> Option<Result<TaskIterator, String>> {
        let answer = match receive_result(&self.socket) {
            Err(Errno::EAGAIN) if Instant::now() < self.deadline => return None,
            Err(Errno::EAGAIN) => Err(format!("not loaded within {} s", LOAD_TIMEOUT.as_secs())),
            Err(why) => Err(format!("its loader cannot be read from: {why}")),
            Ok((Some(program), _)) => {
                TaskIterator::attach(&program).map_err(|why| format!("the kernel refuses the probe: {why}"))
            }
            Ok((None, why)) if why.is_empty() => Err("its loader ended without an error message".to_owned()),
            Ok((None, why)) => Err(why),
        };
        Some(answer)
    }

    /// Whether the child has exited, and was reaped.
    pub fn has_exited(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits for the result.
    pub fn wait_for_result(mut self) -> Result<TaskIterator, String> {
        loop {
            if let Some(answer) = self.try_result() {
                return answer;
            }
            let left = self.deadline.saturating_duration_since(Instant::now());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            // Whatever ended the wait, the result is tried again, up to the deadline.
            let _ = poll(&mut [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)], timeout);
        }
    }
}

impl Drop for LoaderProcess {
    fn drop(&mut self) {
        // Its result was received, or is not needed any more.
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

/// In the child: loads the program and sends it over standard input, which is a socket.
pub fn run_loader() {
    // The parent has given up by then.
    alarm::set(u32::try_from(LOAD_TIMEOUT.as_secs()).unwrap_or(u32::MAX));
    let _ = set_pdeathsig(Signal::SIGKILL);
    // Where it is forbidden the loader has the priority of the monitor.
    let _ = sys::set_nice(LOADER_NICE);
    let answer = program_loader::load_program().map_err(|why| why.to_string());
    // There is nowhere to report a failure to.
    let _ = send_result(io::stdin().as_raw_fd(), &answer);
}

fn send_result(socket: RawFd, answer: &Result<OwnedFd, String>) -> nix::Result<usize> {
    let text = answer.as_ref().map_or_else(|why| why.as_bytes(), |_| b"loaded");
    let text = [IoSlice::new(text.get(..MAX_MESSAGE_BYTES).unwrap_or(text))];
    let descriptors: Vec<RawFd> = answer.iter().map(AsRawFd::as_raw_fd).collect();
    let rights: Vec<_> = answer.iter().map(|_| ControlMessage::ScmRights(&descriptors)).collect();
    sendmsg::<()>(socket, &text, &rights, MsgFlags::MSG_NOSIGNAL, None)
}

fn receive_result(socket: &OwnedFd) -> nix::Result<(Option<OwnedFd>, String)> {
    let mut text = [0; MAX_MESSAGE_BYTES];
    let (length, program) = sys::receive_descriptor(socket.as_fd(), &mut text)?;
    Ok((program, String::from_utf8_lossy(text.get(..length).unwrap_or_default()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_that_sends_nothing_or_cannot_start_is_an_error() {
        let silent = LoaderProcess::spawn(Path::new("/bin/true")).unwrap().wait_for_result();
        assert_eq!(silent.unwrap_err(), "its loader ended without an error message");
        assert!(LoaderProcess::spawn(Path::new("/nonexistent/stalltop")).is_err());
    }

    #[test]
    fn a_sent_descriptor_and_message_are_received() {
        let pair = || {
            let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
            socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).unwrap()
        };
        let (ours, theirs) = pair();
        assert_eq!(receive_result(&ours).unwrap_err(), Errno::EAGAIN);
        send_result(theirs.as_raw_fd(), &Err("refused".repeat(200))).unwrap();
        let (program, why) = receive_result(&ours).unwrap();
        assert!(program.is_none() && why.starts_with("refusedrefused") && why.len() == MAX_MESSAGE_BYTES);
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        send_result(theirs.as_raw_fd(), &Ok(file.into())).unwrap();
        let (descriptor, _) = receive_result(&ours).unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut std::fs::File::from(descriptor.unwrap()), &mut text).unwrap();
        assert!(text.starts_with(&std::process::id().to_string()));
    }
}
