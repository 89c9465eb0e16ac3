//! Keys, clicks and the wheel, read by a plain thread that sleeps until there are some, and ends when the terminal does.
//!
//! The terminal is read here and not by a library's event stream: that spins on a terminal which is gone, and waits for
//! edges that a terminal need not give.

mod decode;

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use nix::errno::Errno;
use nix::poll::PollTimeout;
use tokio::sync::mpsc;

use super::hangup::{self, Line};
use crate::state::Key;
use decode::Decoder;

/// What came from the terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    Key(Key),
    /// A press of the left button
    Press {
        column: u16,
        row: u16,
    },
    /// Rows down (negative: up)
    Wheel(i32),
    HungUp,
}

/// The bytes of one key come together; on a slow line within so many milliseconds.
const REST: u8 = 60;

/// Starts to listen. Few inputs wait at a time: a flood of keys is read as fast as it is acted on.
pub fn listen() -> io::Result<mpsc::Receiver<Input>> {
    let (sender, receiver) = mpsc::channel(32);
    let source = Source::open()?;
    let body = move || {
        let mut decoder = Decoder::default();
        loop {
            for input in read(&source, &mut decoder) {
                if sender.blocking_send(input).is_err() || input == Input::HungUp {
                    return;
                }
            }
        }
    };
    thread::Builder::new().name("keyboard".to_owned()).stack_size(128 << 10).spawn(body)?;
    Ok(receiver)
}

/// Standard input, or the controlling terminal where that is something else (`replay -`).
enum Source {
    Standard(io::Stdin),
    Controlling(File),
}

impl Source {
    fn open() -> io::Result<Source> {
        let stdin = io::stdin();
        if stdin.is_terminal() { Ok(Source::Standard(stdin)) } else { File::open("/dev/tty").map(Source::Controlling) }
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Source::Standard(stdin) => stdin.as_fd(),
            Source::Controlling(file) => file.as_fd(),
        }
    }
}

/// Waits for input, unless the rest of a sequence does not come.
fn read(source: &Source, decoder: &mut Decoder) -> Vec<Input> {
    let timeout = if decoder.is_waiting() { PollTimeout::from(REST) } else { PollTimeout::NONE };
    match hangup::wait(source, timeout) {
        None => decoder.give_up().into_iter().collect(),
        Some(Line::HungUp) => vec![Input::HungUp],
        Some(Line::Ready) => {
            let mut bytes = [0_u8; 1024];
            match nix::unistd::read(source, &mut bytes) {
                Ok(0) => vec![Input::HungUp],
                Ok(length) => decoder.take(bytes.get(..length).unwrap_or_default()),
                Err(Errno::EINTR | Errno::EAGAIN) => Vec::new(),
                Err(_) => vec![Input::HungUp],
            }
        }
    }
}
