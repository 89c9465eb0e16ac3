//! The terminal: taken once, given back on every way out. Frames leave through one buffer, which is written as far as the
//! terminal takes it, so that one that stands still stops nobody.

mod ansi_encoder;
pub mod hangup;
pub mod keyboard;

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

use crate::view::cell_buffer::CellBuffer;
use crate::view::frame_diff::DoubleBuffer;

/// Presses and the wheel, in SGR's report. Not the motion of the mouse: nobody looks at it, and it would wake us.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Whether the terminal is ours at this moment: the panic hook and the guard share the duty to give it back once.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// The terminal while it shows the screen.
pub struct Terminal {
    frames: DoubleBuffer,
    /// What has been drawn and not yet been written
    pending: Vec<u8>,
    output: TerminalOutput,
}

impl Terminal {
    /// Raw mode, alternate screen, mouse.
    pub fn init() -> io::Result<Terminal> {
        let mut terminal = Terminal { frames: blank_frames(), pending: Vec::new(), output: TerminalOutput::open() };
        terminal.enter()?;
        Ok(terminal)
    }

    /// Once more, after the process was stopped or somebody else wrote here; the next frame is drawn whole.
    pub fn reinit(&mut self) -> io::Result<()> {
        restore();
        self.pending.clear();
        self.enter()?;
        self.resize()
    }

    /// Follows the size of the terminal; the next frame is drawn whole.
    pub fn resize(&mut self) -> io::Result<()> {
        self.frames = blank_frames();
        queue!(self.pending, ResetColor, Clear(ClearType::All))
    }

    /// Draws a frame, of which only what differs from the last one is sent. Not while the last one still waits: frames
    /// that nobody could see are left out. False where it was left out.
    pub fn draw(&mut self, render: impl FnOnce(&mut CellBuffer)) -> io::Result<bool> {
        if self.has_pending() {
            return Ok(false);
        }
        ansi_encoder::encode(&mut self.pending, self.frames.draw(render).iter())?;
        self.write_pending()?;
        Ok(true)
    }

    /// Whether bytes wait because the terminal does not take them.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what the terminal takes now.
    pub fn write_pending(&mut self) -> io::Result<()> {
        let Terminal { pending: waiting, output: device, .. } = self;
        // The panic hook may have given it back in the meantime.
        if !ACTIVE.load(Ordering::SeqCst) {
            waiting.clear();
            return Ok(());
        }
        while !waiting.is_empty() {
            match device.write(waiting) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    let written = written.min(waiting.len());
                    waiting.drain(..written);
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
        // Another thread is lost and tells of it: not on a screen that is about to vanish.
        if super::program::panics::has_panicked() {
            ACTIVE.store(false, Ordering::SeqCst);
            return Ok(());
        }
        enable_raw_mode()?;
        queue!(self.pending, EnterAlternateScreen, Print(MOUSE_ON), EnableBracketedPaste, cursor::Hide)
    }
}

/// Of the size that the terminal has now.
fn blank_frames() -> DoubleBuffer {
    let (width, height) = size();
    DoubleBuffer::new(width, height)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Cooked mode, main screen, cursor, no mouse: as it was found. Does nothing the second time.
pub fn restore() {
    if !ACTIVE.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = Vec::with_capacity(64);
    // Into memory: cannot fail.
    let _ = queue!(bytes, DisableBracketedPaste, Print(MOUSE_OFF), ResetColor, LeaveAlternateScreen, cursor::Show);
    let mut device = TerminalOutput::open();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        match device.write(rest) {
            Ok(written @ 1..) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && device.wait_writable() => {}
            // Gone, or standing still for longer than anybody waits for the end of a program.
            Ok(_) | Err(_) => break,
        }
    }
    let _ = disable_raw_mode();
    hangup::redirect_lost_stderr();
}

/// Columns and rows; at least one of each.
pub fn size() -> (u16, u16) {
    // A serial line or a bare pseudo-terminal says 0 × 0: it does not know.
    let (width, height) = crossterm::terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or((80, 24));
    (width.min(1000), height.min(500))
}

/// Whether there is a terminal to draw on and one to read keys from. One that says it is dumb gets lines.
pub fn is_available() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && io::stdout().is_terminal() && (io::stdin().is_terminal() || File::open("/dev/tty").is_ok())
}

/// The terminal behind standard output. Opened again where that is allowed, so that O_NONBLOCK is ours alone and does not
/// reach the shell that shares standard output with us.
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

    /// Another user's terminal (`su`, `runuser`) cannot be opened by its name, but as /dev/tty when it is the one that
    /// controls this session.
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
            // Past std's buffer: what it holds back would be written by nobody.
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
