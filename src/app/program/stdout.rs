//! Standard output for lines: a reader that went away ends us quietly, a full disk is said.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Failure};

/// Whether anybody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Listening,
    Gone,
}

/// Writes the text and flushes it.
pub fn print(text: &str) -> Result<Reader, Failure> {
    print_bytes(text.as_bytes())
}

/// The same for what need not be text.
pub fn print_bytes(bytes: &[u8]) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::Listening),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(cannot(&error)),
    }
}

/// A full disk, or whatever else there is.
pub fn cannot(error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::StorageFull { "make room where it goes" } else { "" };
    Failure::new(Exit::Failed, "cannot write to standard output", error, remedy)
}

/// A line on standard error. Nothing can be done about one that cannot be written: a terminal that stands still would hold
/// us for ever.
pub fn complain(text: &str) {
    let stderr = io::stderr();
    let takes = poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(200_u8));
    if takes == Ok(0) {
        return;
    }
    let _ = writeln!(stderr.lock(), "stalltop: {}", crate::report::text::printable(text));
}
