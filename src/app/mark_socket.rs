//! The socket that receives marks from `stalltop mark` in other shells.
//!
//! Each recorder and live screen has one, named by its pid, in a directory that only its user may enter (`directory`). The sender
//! (`client`) must be the same user, or root; a text is bounded, and neither side waits for the other longer than a second. The
//! sockets of processes that were killed are removed by the next program that sends a mark or creates a socket.

mod client;
mod directory;

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::socket::{self, sockopt};
use nix::unistd::{Pid, geteuid};

use crate::app::program::threads;
use crate::kernel;
use crate::recording::{Mark, Timestamp};
pub use client::{Delivery, send_mark};

/// How long either side waits for the other.
const IO_TIMEOUT: Duration = Duration::from_secs(1);

/// The answer to a mark that was accepted.
const ACCEPTED: &str = "marked";

/// A listening socket. Dropping it removes its file.
pub struct MarkSocket {
    path: PathBuf,
}

/// Whether a mark was accepted, or why not.
pub type MarkResult = Result<(), &'static str>;

impl MarkSocket {
    /// Creates the socket. `receive` is called with each mark on the thread of the socket, and must not block. The line says why
    /// there is none.
    pub fn bind(receive: impl FnMut(Timestamp, String) -> MarkResult + Send + 'static) -> Result<MarkSocket, String> {
        directory::create().and_then(|directory| MarkSocket::bind_in(&directory, receive)).map_err(|error| {
            format!("'stalltop mark' does not reach this program: cannot create its socket: {error}: check XDG_RUNTIME_DIR")
        })
    }

    fn bind_in(
        directory: &Path,
        mut receive: impl FnMut(Timestamp, String) -> MarkResult + Send + 'static,
    ) -> io::Result<MarkSocket> {
        let path = directory.join(format!("{}.sock", std::process::id()));
        // A sender removes a socket that refuses connections: it gets its name only when it listens.
        let unnamed = path.with_extension("new");
        remove_stale_sockets(directory);
        let listener = UnixListener::bind(&unnamed)?;
        let named = fs::set_permissions(&unnamed, fs::Permissions::from_mode(0o600)).and_then(|()| fs::rename(&unnamed, &path));
        named.inspect_err(|_| drop(fs::remove_file(&unnamed)))?;
        let socket = MarkSocket { path };
        let body = move || {
            for connection in listener.incoming() {
                match connection {
                    Ok(mut stream) => {
                        let answer = serve_client(&mut stream, &mut receive);
                        // The client may have gone.
                        let _ = stream.write_all(answer.err().unwrap_or(ACCEPTED).as_bytes());
                    }
                    // Such as EMFILE: not repeated at once.
                    Err(_) => std::thread::sleep(IO_TIMEOUT),
                }
            }
        };
        threads::spawn("marks", body).map_err(io::Error::other)?;
        Ok(socket)
    }
}

impl Drop for MarkSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Removes the sockets of processes that were killed, with and without their final name.
fn remove_stale_sockets(directory: &Path) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_suffix(".new").or_else(|| name.strip_suffix(".sock"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<i32>().ok()).filter(|&pid| pid > 0) else { continue };
        // A socket that another process is creating refuses connections too: it stays while there is a process of that pid. One
        // with this process's pid is of an earlier process.
        let has_exited = || kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH);
        // The process may live in another PID namespace.
        let refuses = || client::connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if pid == own || has_exited() && refuses() {
            let _ = fs::remove_file(&path);
        }
    }
}

fn serve_client(stream: &mut UnixStream, receive: &mut impl FnMut(Timestamp, String) -> MarkResult) -> MarkResult {
    let peer =
        socket::getsockopt(stream, sockopt::PeerCredentials).map_err(|_| "refused: the user of the sender is not known")?;
    if peer.uid() != geteuid().as_raw() && peer.uid() != 0 {
        return Err("refused: only its own user and root may mark");
    }
    let _ = stream.set_write_timeout(Some(IO_TIMEOUT));
    let bytes = read_text(stream).map_err(|_| "the mark is incomplete")?;
    if bytes.len() > Mark::MAX_TEXT_BYTES {
        return Err("refused: a mark is at most 1024 bytes");
    }
    let text = Mark::sanitize(&String::from_utf8_lossy(&bytes)).ok_or("refused: the mark is empty")?;
    // This process was stopped, for example: the sender has reported "not marked", and the time of the mark has passed.
    if peer_hung_up(stream) {
        return Err("the sender has stopped waiting");
    }
    receive(kernel::now().into(), text)
}

/// Whether the other side has closed the connection, not only its sending half.
fn peer_hung_up(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    let polled = poll(&mut fds, PollTimeout::ZERO);
    polled.is_ok() && fds[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// Reads to the end of the text, or until it is longer than allowed, or for `IO_TIMEOUT`.
fn read_text(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + IO_TIMEOUT;
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    while text.len() <= Mark::MAX_TEXT_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::client::send_mark_in;
    use super::*;

    fn own_socket(directory: &Path) -> PathBuf {
        directory.join(format!("{}.sock", std::process::id()))
    }

    fn results(deliveries: &[Delivery]) -> Vec<Result<(), &str>> {
        deliveries.iter().map(|delivery| delivery.result.as_ref().map(|&()| ()).map_err(String::as_str)).collect()
    }

    /// A sender removes sockets that refuse connections; a new socket has its name only when it listens.
    #[test]
    fn a_socket_that_is_being_created_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    send_mark_in(directory.path(), "test").unwrap();
                }
            });
            let lost = (0..60).filter(|_| {
                let _socket = MarkSocket::bind_in(directory.path(), |_, _| Ok(())).unwrap();
                !own_socket(directory.path()).exists()
            });
            let lost = lost.count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(lost, 0, "of 60 sockets");
        });
    }

    #[test]
    fn a_mark_is_sanitized_received_and_answered() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, marks) = mpsc::sync_channel(2);
        let receive = move |_: Timestamp, text: String| sender.try_send(text).map_err(|_| "full");
        let socket = MarkSocket::bind_in(directory.path(), receive).unwrap();
        assert_eq!(own_socket(directory.path()).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(results(&send_mark_in(directory.path(), "deploy 42").unwrap()), [Ok(())]);
        assert_eq!(results(&send_mark_in(directory.path(), " \x1b]0;evil\x07 a\nb ").unwrap()), [Ok(())]);
        assert_eq!(results(&send_mark_in(directory.path(), "third").unwrap()), [Err("full")]);
        assert_eq!(marks.try_iter().collect::<Vec<_>>(), ["deploy 42", "]0;evil  a b"]);
        let long = "x".repeat(1 << 20);
        let refused = send_mark_in(directory.path(), &long).unwrap();
        assert!(refused[0].result.is_err() && marks.try_recv().is_err());
        assert_eq!(results(&send_mark_in(directory.path(), "\x01\n").unwrap()), [Err("refused: the mark is empty")]);
        assert_eq!(results(&send_mark_in(directory.path(), "after all that").unwrap()), [Ok(())]);
        drop(socket);
        assert!(send_mark_in(directory.path(), "no program").unwrap().is_empty());
    }

    /// The recorder was stopped meanwhile: a sender that has reported "not marked" leaves no mark.
    #[test]
    fn a_mark_is_not_received_from_a_sender_that_has_gone() {
        let send = |stays: bool| {
            let (mut theirs, mut own) = UnixStream::pair().unwrap();
            theirs.write_all(b"deploy 42").unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let held = stays.then_some(theirs);
            let mut received = Vec::new();
            let answer = serve_client(&mut own, &mut |_: Timestamp, text: String| {
                received.push(text);
                Ok(())
            });
            drop(held);
            (answer.is_ok(), received.len())
        };
        assert_eq!((send(true), send(false)), ((true, 1), (false, 0)));
    }

    #[test]
    fn a_socket_without_a_program_is_removed_and_one_that_does_not_answer_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let (dead, mute) = (directory.path().join("11.sock"), directory.path().join("12.sock"));
        drop(UnixListener::bind(&dead).unwrap());
        let _mute = UnixListener::bind(&mute).unwrap();
        fs::write(directory.path().join("notes"), "no socket").unwrap();
        let deliveries = send_mark_in(directory.path(), "x").unwrap();
        assert_eq!((deliveries.len(), deliveries[0].pid.as_str()), (1, "12"));
        assert!(deliveries[0].result.is_err());
        assert!(!dead.exists() && mute.exists() && directory.path().join("notes").exists());
    }

    /// A process that is killed removes neither its socket nor one without its final name.
    #[test]
    fn sockets_of_killed_processes_are_removed_by_the_next_that_creates_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: String| directory.path().join(name);
        let exited = || {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        let (gone, elsewhere, own) = (exited(), exited(), std::process::id());
        let dead = [at(format!("{gone}.new")), at(format!("{gone}.sock")), at(format!("{own}.new"))];
        // Another process may be creating this one; and one in another PID namespace listens.
        let stays = [at("1.new".to_owned()), at(format!("{elsewhere}.sock")), at("notes.new".to_owned())];
        dead.iter().chain(&stays[..1]).for_each(|path| drop(UnixListener::bind(path).unwrap()));
        let _listens = UnixListener::bind(&stays[1]).unwrap();
        fs::write(&stays[2], "no socket").unwrap();
        let _socket = MarkSocket::bind_in(directory.path(), |_, _| Ok(())).unwrap();
        assert!(own_socket(directory.path()).exists());
        assert_eq!(dead.each_ref().map(|path| path.exists()), [false; 3]);
        assert_eq!(stays.each_ref().map(|path| path.exists()), [true; 3]);
    }
}
