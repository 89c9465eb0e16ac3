//! The clipboard of the terminal, by OSC 52: it also works over ssh. The text is encoded in base64.

use std::fmt::Write;
use std::io;

use crossterm::Command;
use crossterm::clipboard::CopyToClipboard;

/// The longest text that is copied; some terminals ignore longer sequences than 8 KiB.
const MAX_BYTES: usize = 5000;

/// The longest sequence that screen passes through at once.
const SCREEN_CHUNK: usize = 240;

/// The text up to the longest that is copied.
pub fn bounded(text: &str) -> &str {
    text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or(text)
}

/// The bytes that copy a text. `is_set`: whether an environment variable is set.
///
/// tmux copies the plain sequence with `set-clipboard on`, and passes the wrapped one to its terminal with
/// `allow-passthrough on`; without either it ignores both.
pub fn copy_sequence(text: &str, is_set: impl Fn(&str) -> bool) -> io::Result<String> {
    let mut sequence = String::new();
    CopyToClipboard::to_clipboard_from(text).write_ansi(&mut sequence).map_err(io::Error::other)?;
    if is_set("TMUX") {
        let wrapped = sequence.replace('\x1b', "\x1b\x1b");
        // Writing to a String cannot fail.
        let _ = write!(sequence, "\x1bPtmux;{wrapped}\x1b\\");
    } else if is_set("STY") {
        // The end of the sequence would end screen's own: BEL ends it as well. All characters are ASCII.
        let plain = sequence.replace("\x1b\\", "\x07");
        let chunks = plain.as_bytes().chunks(SCREEN_CHUNK).map(String::from_utf8_lossy);
        sequence = chunks.map(|chunk| format!("\x1bP{chunk}\x1b\\")).collect();
    }
    Ok(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(text: &str, variable: &str) -> String {
        copy_sequence(text, |name| name == variable).unwrap()
    }

    #[test]
    fn the_text_is_encoded_and_wrapped_for_tmux_and_screen() {
        assert_eq!(sequence("a\x1b\n", ""), "\x1b]52;c;YRsK\x1b\\", "no control character of the text is sent");
        let plain = "\x1b]52;c;YWI=\x1b\\";
        assert_eq!(sequence("ab", "TMUX"), format!("{plain}\x1bPtmux;\x1b\x1b]52;c;YWI=\x1b\x1b\\\x1b\\"));
        assert_eq!(sequence("ab", "STY"), "\x1bP\x1b]52;c;YWI=\x07\x1b\\");
        assert!(sequence(&"x".repeat(400), "STY").matches("\x1bP").count() > 1);
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let long = "ä".repeat(MAX_BYTES);
        assert!(bounded(&long).len() <= MAX_BYTES && bounded(&long).chars().all(|character| character == 'ä'));
        assert_eq!(bounded("short"), "short");
    }
}
