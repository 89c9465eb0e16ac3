//! Keys, clicks and the wheel, read by a plain thread that sleeps until there are some, and ends when the terminal does.
//!
//! crossterm's own event stream spins on a terminal that is gone; here it is only asked once there is something to read.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use nix::poll::PollTimeout;
use tokio::sync::mpsc;

use super::hangup::{self, Line};
use crate::state::Key;

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

/// Starts to listen. Few inputs wait at a time: a paste of a megabyte is read as fast as it is acted on.
pub fn listen() -> io::Result<mpsc::Receiver<Input>> {
    let (sender, receiver) = mpsc::channel(32);
    let source = Source::open()?;
    thread::Builder::new().name("keyboard".to_owned()).stack_size(256 << 10).spawn(move || {
        while let Some(input) = next(&source) {
            let last = input == Input::HungUp;
            if sender.blocking_send(input).is_err() || last {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// Where crossterm reads keys from: standard input, or the controlling terminal where that is something else.
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

/// The next input that means something; blocks.
fn next(source: &Source) -> Option<Input> {
    loop {
        // What crossterm has read already comes first: several keys in one read.
        match crossterm::event::poll(Duration::ZERO) {
            Ok(true) => match crossterm::event::read() {
                Ok(event) => {
                    if let Some(input) = input(&event) {
                        return Some(input);
                    }
                    continue;
                }
                Err(_) => return Some(Input::HungUp),
            },
            Ok(false) => {}
            Err(_) => return Some(Input::HungUp),
        }
        if hangup::wait(source, PollTimeout::NONE) == Some(Line::HungUp) {
            return Some(Input::HungUp);
        }
    }
}

/// Out of the terminal library's words into ours. Changes of size come as a signal, pasted text means nothing here.
fn input(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => self::key(key).map(Input::Key),
        Event::Mouse(MouseEvent { kind, column, row, .. }) => match kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Input::Press { column: *column, row: *row }),
            MouseEventKind::ScrollDown => Some(Input::Wheel(3)),
            MouseEventKind::ScrollUp => Some(Input::Wheel(-3)),
            _ => None,
        },
        _ => None,
    }
}

fn key(event: &KeyEvent) -> Option<Key> {
    Some(match event.code {
        KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Control(c.to_ascii_lowercase()),
        KeyCode::Char(_) if event.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::META | KeyModifiers::SUPER) => {
            return None;
        }
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Delete => Key::Delete,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> Option<Input> {
        input(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_are_ours() {
        assert_eq!(press(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Input::Key(Key::Char('G'))));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Input::Key(Key::Control('c'))));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::ALT), None, "half of an escape sequence is no key");
        assert_eq!(press(KeyCode::F(1), KeyModifiers::NONE), None);
    }

    #[test]
    fn pasted_text_quits_nothing() {
        assert_eq!(input(&Event::Paste("q".to_owned())), None);
    }
}
