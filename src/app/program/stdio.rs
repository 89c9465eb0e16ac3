//! Prints to standard output and standard error. A closed pipe is no error, a full disk is.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Failure, without_error_numbers};
use crate::state::{GlyphSet, TerminalCapabilities};
use crate::view::theme;

/// Whether standard output can still be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderState {
    Open,
    Closed,
}

/// Writes the text and flushes it.
pub fn print(text: &str) -> Result<ReaderState, Failure> {
    print_bytes(text.as_bytes())
}

/// The same for text for people, with the characters of their locale: in a mail of cron, or a Nagios that runs its plugins with
/// LC_ALL=C, others are unreadable.
pub fn print_localized(text: &str) -> Result<ReaderState, Failure> {
    print_with_glyphs(glyphs(None), text)
}

/// The same with this character set.
pub fn print_with_glyphs(glyphs: GlyphSet, text: &str) -> Result<ReaderState, Failure> {
    print(&to_glyphs(text, glyphs))
}

/// The character set of the locale, or the requested one. TERM does not matter: lines also go to files and mails.
pub fn glyphs(requested: Option<GlyphSet>) -> GlyphSet {
    let locale = |name: &str| std::env::var(name).ok().filter(|_| name != "TERM");
    TerminalCapabilities::from_env(locale, requested).glyphs
}

/// Replaces characters that are not in the character set.
pub fn to_glyphs(text: &str, glyphs: GlyphSet) -> Cow<'_, str> {
    if glyphs == GlyphSet::Unicode || text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '≥' => plain.push_str(">="),
            '≤' => plain.push_str("<="),
            '…' => plain.push_str("..."),
            _ if character.is_ascii() => plain.push(character),
            // Escaped, so that two names remain distinct.
            _ if character.is_alphanumeric() => plain.extend(character.escape_unicode()),
            _ => plain.push(theme::ascii_fallback(character)),
        }
    }
    Cow::Owned(plain)
}

/// Writes bytes, which need not be text.
pub fn print_bytes(bytes: &[u8]) -> Result<ReaderState, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ReaderState::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ReaderState::Closed),
        Err(error) => Err(write_failure(&error)),
    }
}

/// The failure of a write to standard output, such as a full disk.
pub fn write_failure(error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::StorageFull { "free space where it is written" } else { "" };
    Failure::new(Exit::Failed, "cannot write to standard output", error, remedy)
}

/// A line on standard error.
pub fn print_stderr(text: &str) {
    let text = without_error_numbers(text);
    write_stderr(&format!("stalltop: {}\n", crate::report::formatting::printable(&text)));
}

/// The help of a command, on standard error: the command line is incomplete.
pub fn print_help_to_stderr(help: &str) {
    write_stderr(help);
}

/// Writes over the present line of the terminal.
pub fn overwrite_stderr_line(text: &str) {
    write_stderr(&format!("\r{}", crate::report::formatting::printable(text)));
}

/// Nothing can be done about text that cannot be written; a terminal that is stopped must not block the program.
fn write_stderr(text: &str) {
    let stderr = io::stderr();
    let takes = poll(&mut [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(200_u8));
    if takes != Ok(0) {
        let _ = stderr.lock().write_all(to_glyphs(text, glyphs(None)).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ascii_locale_gets_ascii() {
        let text = "≥ 45.0 % behind 1 in fsync: flushes 10.3 ms = 1.0× its baseline; café × …";
        assert_eq!(to_glyphs(text, GlyphSet::Unicode), text);
        let plain = ">= 45.0 % behind 1 in fsync: flushes 10.3 ms = 1.0x its baseline; caf\\u{e9} x ...";
        assert_eq!(to_glyphs(text, GlyphSet::Ascii), plain);
    }
}
