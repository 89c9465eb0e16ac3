//! Sends a mark to the sockets of all recorders and live screens.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

use super::{ACCEPTED, IO_TIMEOUT, directory};

/// The result of sending a mark to one program.
pub struct Delivery {
    pub pid: String,
    /// Why the mark was not accepted
    pub result: Result<(), String>,
}

/// Sends a mark to every program of this user that listens. Sockets without a program are removed.
pub fn send_mark(text: &str) -> io::Result<Vec<Delivery>> {
    let (mut deliveries, mut failure) = (Vec::new(), None);
    for place in directory::candidates() {
        match directory::check_private(&place).and_then(|()| send_mark_in(&place, text)) {
            Ok(sent) => deliveries.extend(sent),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => failure = Some(error),
        }
    }
    for service in directory::of_services() {
        deliveries.extend(send_mark_in(Path::new(service), text).unwrap_or_default());
    }
    match failure {
        Some(error) if deliveries.is_empty() => Err(error),
        _ => Ok(deliveries),
    }
}

pub(super) fn send_mark_in(directory: &Path, text: &str) -> io::Result<Vec<Delivery>> {
    let mut deliveries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".sock"));
        let Some(pid) = name.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned) else { continue };
        match send_to_socket(&path, text) {
            // Removed meanwhile; another socket may have the name by now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            Err(error) => deliveries.push(Delivery { pid, result: Err(error.to_string()) }),
            Ok(answer) if answer == ACCEPTED => deliveries.push(Delivery { pid, result: Ok(()) }),
            Ok(answer) => deliveries.push(Delivery { pid, result: Err(answer) }),
        }
    }
    Ok(deliveries)
}

/// Returns the answer.
fn send_to_socket(path: &Path, text: &str) -> io::Result<String> {
    let mut stream = connect(path)?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    stream.set_read_timeout(Some(IO_TIMEOUT * 2))?;
    // A program may refuse a long text, and answer, before it has read all of it.
    let written = stream.write_all(text.as_bytes()).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = String::new();
    match stream.take(200).read_to_string(&mut answer) {
        // The answer may arrive before the connection is reset.
        _ if !answer.is_empty() => Ok(answer),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(io::Error::other("it does not answer: it is stopped, or gets no CPU"))
        }
        Err(error) => Err(error),
        Ok(_) => written.and(Err(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Connects without waiting: the queue of a program that is stopped may be full.
pub(super) fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) => {}
        Err(Errno::EAGAIN) => return Err(io::Error::other("it does not answer: its queue is full")),
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}
