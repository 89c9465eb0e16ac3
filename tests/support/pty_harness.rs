//! A program in a pseudo-terminal, and what the terminal shows of it. Waits for conditions, never for a fixed time.

#![allow(unsafe_code, reason = "borrows a descriptor that portable-pty has only as a number")]

#[path = "program.rs"]
mod program;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;
use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
pub use program::program;
use vt100::{Parser, Screen};

/// Timeout of a condition. Long because test machines are slow; passing tests do not reach it.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub struct Session {
    pub child: Box<dyn Child + Send + Sync>,
    master: Option<Box<dyn MasterPty + Send>>,
    keys: Option<File>,
    seen: Arc<Mutex<Seen>>,
    enough: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

struct Seen {
    parser: Parser,
    bytes: Vec<u8>,
}

pub fn stalltop(arguments: &[&str]) -> CommandBuilder {
    let mut command = CommandBuilder::new(program());
    command.args(arguments);
    prepared(command)
}

/// Sets the environment of a modern terminal and a state directory of its own: what one session remembers, such as the kind of
/// rows, must not reach another one.
pub fn prepared(mut command: CommandBuilder) -> CommandBuilder {
    command.env("TERM", "xterm-256color");
    command.env("LANG", "C.UTF-8");
    ["NO_COLOR", "LC_ALL", "LC_CTYPE"].into_iter().for_each(|name| command.env_remove(name));
    command.env("XDG_STATE_HOME", tempfile::tempdir_in(state_directory()).unwrap().keep());
    command.cwd(state_directory());
    command
}

/// One directory of state for all commands of a test binary.
pub fn state_directory() -> &'static Path {
    static DIRECTORY: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

impl Session {
    pub fn start(command: CommandBuilder, columns: u16, rows: u16) -> Session {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let seen = Arc::new(Mutex::new(Seen { parser: parser(columns, rows), bytes: Vec::new() }));
        let enough = Arc::new(AtomicBool::new(false));
        // portable-pty's writer sends EOF when dropped, and its reader cannot be stopped.
        // SAFETY: the master is open here, and what is borrowed of it is not kept.
        let fd = unsafe { BorrowedFd::borrow_raw(pair.master.as_raw_fd().unwrap()) };
        let keys = File::from(fd.try_clone_to_owned().unwrap());
        let mut output = keys.try_clone().unwrap();
        let (shared, stop) = (Arc::clone(&seen), Arc::clone(&enough));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 65536];
            while !stop.load(Ordering::SeqCst) {
                let mut fds = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
                if poll(&mut fds, PollTimeout::from(20_u8)).unwrap_or(0) == 0 {
                    continue;
                }
                let Ok(length @ 1..) = output.read(&mut bytes) else { return };
                let mut seen = shared.lock().unwrap();
                seen.parser.process(&bytes[..length]);
                seen.bytes.extend_from_slice(&bytes[..length]);
            }
        });
        Session { child, master: Some(pair.master), keys: Some(keys), seen, enough, reader: Some(reader) }
    }

    /// Starts stalltop without arguments and waits for the first interval.
    pub fn live(columns: u16, rows: u16) -> Session {
        let mut session = Session::start(stalltop(&[]), columns, rows);
        session.until("figures", |screen| screen.contents().contains("busy"));
        session
    }

    pub fn type_keys(&mut self, keys: &str) {
        let writer = self.keys.as_mut().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    pub fn type_bytes(&mut self, bytes: &[u8]) {
        let writer = self.keys.as_mut().unwrap();
        writer.write_all(bytes).unwrap();
        writer.flush().unwrap();
    }

    pub fn resize(&mut self, columns: u16, rows: u16) {
        self.seen.lock().unwrap().parser = parser(columns, rows);
        self.master.as_ref().unwrap().resize(size(columns, rows)).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.process_id().unwrap()).unwrap())
    }

    /// Stops reading the program's output, as a stalled connection does.
    pub fn stall(&mut self) {
        self.enough.store(true, Ordering::SeqCst);
        self.reader.take().unwrap().join().unwrap();
    }

    /// Closes the terminal, as a dropped connection does.
    pub fn hang_up(&mut self) {
        self.stall();
        self.keys = None;
        self.master = None;
    }

    /// Waits until the screen fulfils a condition.
    pub fn until(&mut self, what: &str, wanted: impl Fn(&Screen) -> bool) {
        let begun = Instant::now();
        loop {
            if wanted(self.seen.lock().unwrap().parser.screen()) {
                return;
            }
            if begun.elapsed() > DEADLINE {
                let ended = self.child.try_wait().unwrap();
                panic!("no {what} ({ended:?}) on:\n{}", self.contents());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn until_text(&mut self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    pub fn contents(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().unwrap().bytes.clone()
    }

    /// Waits until the program has exited.
    pub fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if begun.elapsed() > DEADLINE {
                let _ = self.child.kill();
                panic!("still running:\n{}", self.contents());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks that the terminal is restored: main screen, cursor, no mouse, canonical mode, echo.
    pub fn terminal_is_restored(&mut self) {
        self.until("main screen", |screen| {
            !screen.alternate_screen()
                && !screen.hide_cursor()
                && !screen.bracketed_paste()
                && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
        });
        let flags = tcgetattr(self.keys.as_ref().unwrap()).unwrap().local_flags;
        assert!(flags.contains(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG), "{flags:?}");
    }

    /// CPU time that the program has used, in clock ticks.
    pub fn ticks(&self) -> Option<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a session for each case, all at once: they wait more than they compute.
pub fn at_once<T: Send>(cases: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        for case in cases {
            let run = &run;
            scope.spawn(move || run(case));
        }
    });
}

fn size(columns: u16, rows: u16) -> PtySize {
    PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }
}

fn parser(columns: u16, rows: u16) -> Parser {
    Parser::new(rows.try_into().unwrap(), columns.try_into().unwrap(), 0)
}
