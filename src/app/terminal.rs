//! The terminal: raw mode, the alternate screen, and restoring them in every case. Frames are written from one buffer without
//! blocking, so that a stopped terminal does not stop recording.

mod ansi_backend;
mod clipboard;
pub mod hangup;
pub mod keyboard;
pub mod line_speed;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::{Print, ResetColor};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, queue};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::layout::Rect;
use ratatui::{Frame, TerminalOptions, Viewport};

pub use ansi_backend::{AnsiBackend, ansi_text};

/// Mouse buttons, the wheel, and motion with a button down, in SGR encoding. No other motion: each event costs a wakeup.
const MOUSE_ON: &str = "\x1b[?1002h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1002l";

/// Whether the terminal is in raw mode. The panic hook and `Drop` both restore it, once.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether it must not be initialized again, since a message was or will be printed on the main screen.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// The terminal in raw mode; dropping it restores the terminal.
pub struct Terminal {
    /// Its backend has the bytes of the last frame that have not been written
    frames: ratatui::Terminal<AnsiBackend>,
    output: TerminalOutput,
    accepted: Accepted,
}

/// What the terminal has accepted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepted {
    pub bytes: usize,
    /// Number of writes of which it accepted at least a part
    pub writes: u32,
}

impl Terminal {
    /// Enables raw mode, the alternate screen and the mouse.
    pub fn init() -> io::Result<Terminal> {
        let mut terminal =
            Terminal { frames: blank_frames(Vec::new())?, output: TerminalOutput::open(), accepted: Accepted::default() };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Initializes it again, after the process was stopped; the next frame is complete.
    pub fn reinit(&mut self) -> io::Result<()> {
        restore();
        self.pending().clear();
        self.enter()?;
        self.resize()
    }

    /// Adopts the size of the terminal; the next frame is complete.
    pub fn resize(&mut self) -> io::Result<()> {
        let mut pending = std::mem::take(self.pending());
        queue!(pending, ResetColor, Clear(ClearType::All))?;
        self.frames = blank_frames(pending)?;
        Ok(())
    }

    /// Draws a frame and writes the cells that differ from the last one. Returns false, and draws nothing, while bytes of the last
    /// frame are pending.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame)) -> io::Result<bool> {
        if self.has_pending() {
            return Ok(false);
        }
        self.frames.draw(render)?;
        self.write_pending()?;
        Ok(true)
    }

    /// Copies a text to the clipboard of the terminal; returns what was copied of it.
    pub fn copy<'a>(&mut self, text: &'a str) -> io::Result<&'a str> {
        let copied = clipboard::bounded(text);
        let sequence = clipboard::copy_sequence(copied, |name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
        self.pending().extend_from_slice(sequence.as_bytes());
        self.write_pending()?;
        Ok(copied)
    }

    /// Whether the terminal has not accepted all bytes.
    pub fn has_pending(&self) -> bool {
        !self.frames.backend().pending.is_empty()
    }

    pub fn accepted(&self) -> Accepted {
        self.accepted
    }

    fn pending(&mut self) -> &mut Vec<u8> {
        &mut self.frames.backend_mut().pending
    }

    /// Writes what the terminal accepts without blocking.
    pub fn write_pending(&mut self) -> io::Result<()> {
        let Terminal { frames, output, accepted } = self;
        let pending = &mut frames.backend_mut().pending;
        // The panic hook may have restored the terminal meanwhile.
        if !ACTIVE.load(Ordering::SeqCst) {
            pending.clear();
            return Ok(());
        }
        while !pending.is_empty() {
            match output.write(pending) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    let written = written.min(pending.len());
                    pending.drain(..written);
                    accepted.bytes = accepted.bytes.wrapping_add(written);
                    accepted.writes = accepted.writes.wrapping_add(1);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn enter(&mut self) -> io::Result<()> {
        ACTIVE.store(true, Ordering::SeqCst);
        // A panic message of another thread must not appear on the alternate screen.
        if CLOSED.load(Ordering::SeqCst) {
            ACTIVE.store(false, Ordering::SeqCst);
            return Ok(());
        }
        enable_raw_mode()?;
        queue!(self.pending(), EnterAlternateScreen, Print(MOUSE_ON), EnableBracketedPaste, cursor::Hide)
    }
}

/// Blank frames of the size of the terminal.
fn blank_frames(pending: Vec<u8>) -> io::Result<ratatui::Terminal<AnsiBackend>> {
    let (width, height) = size();
    // A fixed viewport: the size is asked for once after each SIGWINCH, not in each frame.
    let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
    ratatui::Terminal::with_options(AnsiBackend::new(pending, (width, height)), TerminalOptions { viewport })
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal, which stays so: `Terminal::reinit` does nothing from now on.
pub fn close() {
    CLOSED.store(true, Ordering::SeqCst);
    restore();
}

/// Restores cooked mode, the main screen, the cursor and the mouse. Does nothing the second time.
pub fn restore() {
    if !ACTIVE.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = Vec::with_capacity(64);
    // Into memory: cannot fail.
    let _ = queue!(bytes, DisableBracketedPaste, Print(MOUSE_OFF), ResetColor, LeaveAlternateScreen, cursor::Show);
    let mut output = TerminalOutput::open();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        match output.write(rest) {
            Ok(written @ 1..) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && output.wait_writable() => {}
            // Hung up, or stopped for longer than 200 ms.
            Ok(_) | Err(_) => break,
        }
    }
    let _ = disable_raw_mode();
    hangup::redirect_lost_stderr();
}

/// Columns and rows; at least one of each.
pub fn size() -> (u16, u16) {
    // Serial lines and new pseudo-terminals report 0 × 0: unknown.
    let (width, height) = crossterm::terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or((80, 24));
    (width.min(1000), height.min(500))
}

/// Whether standard output is a serial line of at most 19,200 baud. A pseudo-terminal says 38,400.
pub fn is_slow_line() -> bool {
    use nix::sys::termios::{BaudRate, cfgetospeed, tcgetattr};
    const SLOW: [BaudRate; 7] =
        [BaudRate::B300, BaudRate::B600, BaudRate::B1200, BaudRate::B2400, BaudRate::B4800, BaudRate::B9600, BaudRate::B19200];
    tcgetattr(io::stdout()).is_ok_and(|attributes| SLOW.contains(&cfgetospeed(&attributes)))
}

/// Whether there is a terminal to draw on and to read keys from. A dumb one gets lines.
pub fn is_available() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && io::stdout().is_terminal() && (io::stdin().is_terminal() || File::open("/dev/tty").is_ok())
}

/// The terminal of standard output. It is opened again if that is permitted: O_NONBLOCK on the shared file description would also
/// affect the shell.
enum TerminalOutput {
    Own(File),
    Shared(io::Stdout),
}

impl TerminalOutput {
    fn open() -> TerminalOutput {
        let own = nix::unistd::ttyname(io::stdout()).ok().and_then(|name| {
            OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC).open(name).ok()
        });
        own.map_or_else(
            || TerminalOutput::open_controlling_tty().unwrap_or_else(|| TerminalOutput::Shared(io::stdout())),
            TerminalOutput::Own,
        )
    }

    /// Another user's terminal (`su`, `runuser`) cannot be opened by its path, but as /dev/tty if it is the controlling terminal
    /// of this session.
    fn open_controlling_tty() -> Option<TerminalOutput> {
        let session = nix::sys::termios::tcgetsid(io::stdout()).ok()?;
        if Some(session) != nix::unistd::getsid(None).ok() {
            return None;
        }
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        OpenOptions::new().write(true).custom_flags(flags).open("/dev/tty").ok().map(TerminalOutput::Own)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            TerminalOutput::Own(file) => file.write(bytes),
            // Without std's buffer, which would keep a part of the frame.
            TerminalOutput::Shared(stdout) => Ok(nix::unistd::write(stdout.as_fd(), bytes)?),
        }
    }

    fn wait_writable(&self) -> bool {
        let fd = match self {
            TerminalOutput::Own(file) => file.as_fd(),
            TerminalOutput::Shared(_) => return true,
        };
        let mut fds = [PollFd::new(fd, PollFlags::POLLOUT)];
        poll(&mut fds, PollTimeout::from(200_u8)).is_ok_and(|ready| ready > 0) && fd.as_raw_fd() >= 0
    }
}
