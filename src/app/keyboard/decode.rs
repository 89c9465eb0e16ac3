//! Bytes of a terminal into keys, clicks and the wheel. Knows xterm's sequences, which every terminal of today sends;
//! what it does not know it leaves out, and it never keeps more than a sequence.

use super::Input;
use crate::state::Key;

/// Keeps a sequence that has not come whole yet.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    pasting: bool,
}

/// No sequence that means something is longer.
const LONGEST: usize = 32;

const ESCAPE: u8 = 0x1b;
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// What the first of the pending bytes make.
enum Found {
    /// So many bytes, and what they mean
    Whole(usize, Option<Input>),
    /// More must come
    Part,
}

impl Decoder {
    /// Takes what was read, gives what it means.
    pub fn take(&mut self, bytes: &[u8]) -> Vec<Input> {
        let mut inputs = Vec::new();
        for &byte in bytes {
            self.pending.push(byte);
            if self.pasting {
                self.skip_pasted();
                continue;
            }
            // Each byte either completes the one sequence that is pending or is part of it.
            match decode(&self.pending) {
                Found::Whole(length, input) => {
                    self.pasting = self.pending.starts_with(b"\x1b[200~");
                    let rest = self.pending.split_off(length.min(self.pending.len()));
                    self.pending.clear();
                    inputs.extend(input);
                    inputs.extend(self.take(&rest));
                }
                Found::Part if self.pending.len() >= LONGEST => self.pending.clear(),
                Found::Part => {}
            }
        }
        inputs
    }

    /// Whether something waits for its rest, which comes at once or never.
    pub fn is_waiting(&self) -> bool {
        !self.pending.is_empty() && !self.pasting
    }

    /// The rest did not come: an escape alone is the key.
    pub fn give_up(&mut self) -> Option<Input> {
        if !self.is_waiting() {
            return None;
        }
        let alone = self.pending == [ESCAPE];
        self.pending.clear();
        alone.then_some(Input::Key(Key::Escape))
    }

    /// Pasted text means nothing here: only its end is looked for.
    fn skip_pasted(&mut self) {
        if self.pending.ends_with(PASTE_ENDS) {
            self.pasting = false;
            self.pending.clear();
        } else if self.pending.len() > PASTE_ENDS.len() {
            self.pending.remove(0);
        }
    }
}

fn decode(bytes: &[u8]) -> Found {
    match bytes {
        [] | [ESCAPE] => Found::Part,
        // Two escapes: the first was the key.
        [ESCAPE, ESCAPE, ..] => Found::Whole(1, key(Key::Escape)),
        [ESCAPE, b'[', rest @ ..] => control_sequence(rest),
        [ESCAPE, b'O', letter, ..] => Found::Whole(3, arrow(*letter)),
        [ESCAPE, b'O'] => Found::Part,
        // Alt with a key.
        [ESCAPE, _, ..] => Found::Whole(2, None),
        [b'\r' | b'\n', ..] => Found::Whole(1, key(Key::Enter)),
        [b'\t', ..] => Found::Whole(1, key(Key::Tab)),
        [0x7f | 0x08, ..] => Found::Whole(1, key(Key::Backspace)),
        [byte @ 0x01..=0x1a, ..] => Found::Whole(1, key(Key::Control(char::from(byte - 1 + b'a')))),
        [0x00..=0x1f, ..] => Found::Whole(1, None),
        _ => character(bytes),
    }
}

/// What follows `ESC [`: parameters, then one final byte.
fn control_sequence(rest: &[u8]) -> Found {
    // The Linux console's function keys.
    if let [b'[', _, ..] = rest {
        return Found::Whole(4, None);
    }
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte) && *byte != b'[') else { return Found::Part };
    let parameters = rest.get(..end).unwrap_or_default();
    let length = end + 3;
    let first = || parameters.split(|&byte| byte == b';').next().and_then(number);
    let input = match rest.get(end) {
        // X10's mouse report would follow; it is not asked for.
        Some(b'M' | b'm') => mouse(parameters, rest.get(end) == Some(&b'M')),
        Some(b'Z') => key(Key::BackTab),
        Some(b'~') => match first() {
            Some(1 | 7) => key(Key::Home),
            Some(3) => key(Key::Delete),
            Some(4 | 8) => key(Key::End),
            Some(5) => key(Key::PageUp),
            Some(6) => key(Key::PageDown),
            _ => None,
        },
        Some(&letter) => arrow(letter),
        None => None,
    };
    Found::Whole(length, input)
}

fn arrow(letter: u8) -> Option<Input> {
    key(match letter {
        b'A' => Key::Up,
        b'B' => Key::Down,
        b'C' => Key::Right,
        b'D' => Key::Left,
        b'H' => Key::Home,
        b'F' => Key::End,
        b'M' => Key::Enter,
        _ => return None,
    })
}

/// SGR's report: `<button;column;row`, counted from 1.
fn mouse(parameters: &[u8], pressed: bool) -> Option<Input> {
    let mut numbers = parameters.strip_prefix(b"<")?.split(|&byte| byte == b';').map(number);
    let (button, column, row) = (numbers.next()??, numbers.next()??, numbers.next()??);
    // Shift, Alt and Control with it make no difference.
    match button & !0x1c {
        0 if pressed => Some(Input::Press { column: column.saturating_sub(1), row: row.saturating_sub(1) }),
        64 => Some(Input::Wheel(-3)),
        65 => Some(Input::Wheel(3)),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<u16> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// One character of UTF-8; a byte that belongs to none is left out.
fn character(bytes: &[u8]) -> Found {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let first = text.chars().next().filter(|c| !c.is_control());
            Found::Whole(first.map_or(bytes.len(), char::len_utf8), first.and_then(|c| key(Key::Char(c))))
        }
        Err(error) if error.error_len().is_none() => Found::Part,
        Err(_) => Found::Whole(1, None),
    }
}

fn key(key: Key) -> Option<Input> {
    Some(Input::Key(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(bytes: &[u8]) -> Vec<Input> {
        Decoder::default().take(bytes)
    }

    #[test]
    fn keys_are_ours() {
        let keys = |bytes: &[u8]| -> Vec<Key> {
            let inputs = decoded(bytes).into_iter();
            inputs.map(|input| if let Input::Key(key) = input { key } else { panic!("{input:?}") }).collect()
        };
        assert_eq!(
            keys(b"aG\x03\r\t\x7f"),
            [Key::Char('a'), Key::Char('G'), Key::Control('c'), Key::Enter, Key::Tab, Key::Backspace]
        );
        assert_eq!(keys(b"\x1b[A\x1bOB\x1b[1;5C\x1b[Z"), [Key::Up, Key::Down, Key::Right, Key::BackTab]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1b[3~"), [Key::PageUp, Key::PageDown, Key::Home, Key::End, Key::Delete]);
        assert_eq!(keys("é€😀".as_bytes()), [Key::Char('é'), Key::Char('€'), Key::Char('😀')]);
        assert_eq!(keys(b"\x1bq\x1b[19~x"), [Key::Char('x')], "Alt and function keys mean nothing");
        assert_eq!(keys(b"\xff\xfex\xc3"), [Key::Char('x')], "bytes that are no text mean nothing");
    }

    #[test]
    fn the_mouse_is_counted_from_0() {
        assert_eq!(decoded(b"\x1b[<0;10;5M\x1b[<0;10;5m"), [Input::Press { column: 9, row: 4 }]);
        assert_eq!(decoded(b"\x1b[<64;1;1M\x1b[<65;1;1M"), [Input::Wheel(-3), Input::Wheel(3)]);
        assert_eq!(decoded(b"\x1b[<99999999;1;1M"), []);
    }

    #[test]
    fn a_sequence_may_come_in_pieces() {
        for cut in 1..6 {
            let bytes = b"\x1b[1;2A";
            let mut decoder = Decoder::default();
            assert_eq!(decoder.take(&bytes[..cut]), []);
            assert!(decoder.is_waiting());
            assert_eq!(decoder.take(&bytes[cut..]), [Input::Key(Key::Up)]);
            assert!(!decoder.is_waiting());
        }
    }

    #[test]
    fn an_escape_alone_is_the_key() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.take(b"\x1b"), []);
        assert_eq!(decoder.give_up(), Some(Input::Key(Key::Escape)));
        assert_eq!(decoder.give_up(), None);
        assert_eq!(decoder.take(b"\x1b\x1b[B"), [Input::Key(Key::Escape), Input::Key(Key::Down)]);
        decoder.take(b"\x1b[1;");
        assert_eq!(decoder.give_up(), None, "half a sequence is no key");
    }

    #[test]
    fn pasted_text_quits_nothing() {
        let mut decoder = Decoder::default();
        let mut paste = b"\x1b[200~q\x1b[A\x03".to_vec();
        paste.extend(vec![b'q'; 1 << 20]);
        assert_eq!(decoder.take(&paste), []);
        assert!(decoder.pending.len() <= LONGEST);
        assert_eq!(decoder.take(b"\x1b[201~j"), [Input::Key(Key::Char('j'))]);
    }

    #[test]
    fn noise_neither_stops_it_nor_is_kept() {
        let mut noise = 1_u32;
        let mut decoder = Decoder::default();
        for _ in 0..100_000 {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            decoder.take(&noise.to_le_bytes());
            assert!(decoder.pending.len() <= LONGEST);
        }
    }
}
