//! A running `stalltop serve`, and a client that writes what it is told to write. The lab uses it too.

#![allow(dead_code, reason = "each test binary uses a part of this file")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::child_guard::ChildGuard;
use crate::harness::program;
use crate::until::until;

/// Nothing here takes so long unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// It ends with the test.
pub struct Server {
    child: ChildGuard,
    pub address: SocketAddr,
    /// What it writes to standard error after it listens
    said: Receiver<String>,
    _state: tempfile::TempDir,
}

impl Server {
    /// Starts it on a free port, with five samples a second, and waits for the first metrics.
    pub fn start() -> Server {
        Server::start_with("200ms")
    }

    /// The same with another time between samples.
    pub fn start_with(interval: &str) -> Server {
        let server = Server::spawn(&["--interval", interval]);
        until("there are metrics", || server.get("/metrics", "").0 == 200);
        server
    }

    /// Starts it with further options and waits until it listens.
    pub fn spawn(options: &[&str]) -> Server {
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new(program());
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-config"]).args(options);
        command.env("XDG_STATE_HOME", state.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.split_once("://")?.1.strip_suffix("/metrics")?.parse().ok());
        let (sender, said) = channel();
        // Its pipe stays open.
        std::thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
        Server { child: ChildGuard(child), address: address.expect("it says where it serves"), said, _state: state }
    }

    /// Waits for a line with this text on standard error.
    pub fn until_it_says(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begin.elapsed());
            let line = self.said.recv_timeout(left).unwrap_or_else(|error| panic!("it does not say {text:?}: {error}"));
            if line.contains(text) {
                return line;
            }
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Status, header and body. `header`: further lines, each with its end.
    pub fn get(&self, path: &str, header: &str) -> (u16, String, String) {
        self.request(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{header}\r\n"))
    }

    /// Writes these bytes and reads the answer until the server closes the connection.
    pub fn request(&self, bytes: &str) -> (u16, String, String) {
        let mut stream = self.connect();
        // The server may have refused it before it has read all.
        let _ = stream.write_all(bytes.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, head.to_owned(), body.to_owned())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal, and waits for the end of the program.
    pub fn end(mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        self.child.wait().unwrap()
    }
}
