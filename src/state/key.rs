//! The keys of the keyboard, and their names in help and messages.

/// A key press, independent of the terminal library. Shift is part of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Char(char),
    Control(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Delete,
    Left,
    Right,
    ShiftLeft,
    ShiftRight,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// F1 … F12
    Function(u8),
}

impl Key {
    /// The name of the key in help and messages.
    pub fn label(self) -> String {
        match self {
            Key::Char(' ') => "Space".to_owned(),
            Key::Char(char) => char.to_string(),
            Key::Control(char) => format!("Ctrl-{}", char.to_ascii_uppercase()),
            Key::Function(number) => format!("F{number}"),
            Key::Enter => "Enter".to_owned(),
            Key::Escape => "Esc".to_owned(),
            Key::Tab => "Tab".to_owned(),
            Key::BackTab => "Shift-Tab".to_owned(),
            Key::Backspace => "Backspace".to_owned(),
            Key::Delete => "Del".to_owned(),
            Key::Left => "←".to_owned(),
            Key::Right => "→".to_owned(),
            Key::ShiftLeft => "Shift-←".to_owned(),
            Key::ShiftRight => "Shift-→".to_owned(),
            Key::Up => "↑".to_owned(),
            Key::Down => "↓".to_owned(),
            Key::PageUp => "PgUp".to_owned(),
            Key::PageDown => "PgDn".to_owned(),
            Key::Home => "Home".to_owned(),
            Key::End => "End".to_owned(),
        }
    }
}
