//! Keys, clicks and the mouse wheel, which crossterm reads on a thread. A second thread waits for a hang-up of the terminal,
//! because crossterm's reader does not end then but spins.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use tokio::sync::mpsc;

use super::hangup;
use crate::app::program::exit::{Exit, Failure};
use crate::app::program::threads;
use crate::state::Key;

/// Input from the terminal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    Key(Key),
    /// A press of the left button
    Click {
        column: u16,
        row: u16,
    },
    /// The mouse was moved with the left button down
    Drag {
        column: u16,
    },
    /// Rows down (negative: up)
    Wheel(i32),
    Hangup,
}

/// Inputs that may wait for the event loop: keys are read no faster than they are handled.
const QUEUE_CAPACITY: usize = 32;

/// Starts the threads.
pub fn listen() -> Result<mpsc::Receiver<Input>, Failure> {
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let source = InputSource::open().map_err(|error| Failure::new(Exit::Failed, "cannot read keys", error, ""))?;
    let watcher = sender.clone();
    let watch = move || {
        hangup::wait_for_hangup(&source);
        let _ = watcher.blocking_send(Input::Hangup);
    };
    threads::spawn("hangup", watch)?;
    let read = move || {
        loop {
            let input = match crossterm::event::read() {
                Ok(event) => convert_event(&event),
                Err(_) => Some(Input::Hangup),
            };
            let Some(input) = input else { continue };
            if sender.blocking_send(input).is_err() || input == Input::Hangup {
                return;
            }
        }
    };
    threads::spawn("keyboard", read)?;
    Ok(receiver)
}

/// Where crossterm reads keys from: standard input, or the controlling terminal where that is something else (`replay -`).
enum InputSource {
    Stdin(io::Stdin),
    ControllingTty(File),
}

impl InputSource {
    fn open() -> io::Result<InputSource> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            Ok(InputSource::Stdin(stdin))
        } else {
            File::open("/dev/tty").map(InputSource::ControllingTty)
        }
    }
}

impl AsFd for InputSource {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            InputSource::Stdin(stdin) => stdin.as_fd(),
            InputSource::ControllingTty(file) => file.as_fd(),
        }
    }
}

/// Converts crossterm's event. Changes of size arrive as a signal; pasted text is ignored.
fn convert_event(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => convert_key(key).map(Input::Key),
        Event::Mouse(MouseEvent { kind, column, row, .. }) => match kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Input::Click { column: *column, row: *row }),
            MouseEventKind::Drag(MouseButton::Left) => Some(Input::Drag { column: *column }),
            MouseEventKind::ScrollDown => Some(Input::Wheel(3)),
            MouseEventKind::ScrollUp => Some(Input::Wheel(-3)),
            // A wheel that is pushed sideways, or a touchpad.
            MouseEventKind::ScrollLeft => Some(Input::Key(Key::ShiftLeft)),
            MouseEventKind::ScrollRight => Some(Input::Key(Key::ShiftRight)),
            _ => None,
        },
        _ => None,
    }
}

fn convert_key(event: &KeyEvent) -> Option<Key> {
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
        KeyCode::Left if event.modifiers.contains(KeyModifiers::SHIFT) => Key::ShiftLeft,
        KeyCode::Right if event.modifiers.contains(KeyModifiers::SHIFT) => Key::ShiftRight,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::F(number) => Key::Function(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers) -> Option<Input> {
        convert_event(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn keys_are_converted() {
        assert_eq!(press(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Input::Key(Key::Char('G'))));
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Input::Key(Key::Control('c'))));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::ALT), None, "half of an escape sequence is no key");
        assert_eq!(press(KeyCode::Right, KeyModifiers::SHIFT), Some(Input::Key(Key::ShiftRight)));
        assert_eq!(press(KeyCode::F(1), KeyModifiers::NONE), Some(Input::Key(Key::Function(1))));
        assert_eq!(press(KeyCode::Insert, KeyModifiers::NONE), None);
    }

    #[test]
    fn pasted_text_quits_nothing() {
        assert_eq!(convert_event(&Event::Paste("q".to_owned())), None);
    }
}
