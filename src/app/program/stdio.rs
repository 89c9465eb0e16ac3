//! Standard output for lines: a reader that went away ends us quietly, a full disk is said.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::exit::{Exit, Failure};
use crate::state::{GlyphSet, TerminalCapabilities};
use crate::view::theme;

/// Whether anybody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReaderState {
    Open,
    Closed,
}

/// Writes the text and flushes it.
pub fn print(text: &str) -> Result<ReaderState, Failure> {
    print_bytes(text.as_bytes())
}

/// The same of words for people, with no more characters than their locale has: in a mail of cron's, or behind a Nagios that
/// runs its plugins with LC_ALL=C, others turn into noise.
pub fn print_localized(text: &str) -> Result<ReaderState, Failure> {
    print_with_glyphs(glyphs(None), text)
}

/// The same with these characters.
pub fn print_with_glyphs(glyphs: GlyphSet, text: &str) -> Result<ReaderState, Failure> {
    print(&to_glyphs(text, glyphs))
}

/// The characters that there are by the locale, or as asked for. Lines go into files and mails, too, which have no terminal.
pub fn glyphs(asked: Option<GlyphSet>) -> GlyphSet {
    let locale = |name: &str| std::env::var(name).ok().filter(|_| name != "TERM");
    TerminalCapabilities::from_env(locale, asked).glyphs
}

/// A text in these characters.
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
            // Two names must not become one.
            _ if character.is_alphanumeric() => plain.extend(character.escape_unicode()),
            _ => plain.push(theme::ascii_fallback(character)),
        }
    }
    Cow::Owned(plain)
}

/// Writes what need not be text.
pub fn print_bytes(bytes: &[u8]) -> Result<ReaderState, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(ReaderState::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ReaderState::Closed),
        Err(error) => Err(write_failure(&error)),
    }
}

/// A full disk, or whatever else there is.
pub fn write_failure(error: &io::Error) -> Failure {
    let remedy = if error.kind() == io::ErrorKind::StorageFull { "make room where it goes" } else { "" };
    Failure::new(Exit::Failed, "cannot write to standard output", error, remedy)
}

/// A line on standard error.
pub fn print_stderr(text: &str) {
    write_stderr(&format!("stalltop: {}\n", crate::report::text::printable(text)));
}

/// Writes over the present line of the terminal.
pub fn overwrite_stderr_line(text: &str) {
    write_stderr(&format!("\r{}", crate::report::text::printable(text)));
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
    fn a_locale_of_ascii_gets_ascii() {
        let said = "≥ 45.0 % behind 1 in fsync: flushes 10.3 ms = 1.0× its baseline; café × …";
        assert_eq!(to_glyphs(said, GlyphSet::Unicode), said);
        let plain = ">= 45.0 % behind 1 in fsync: flushes 10.3 ms = 1.0x its baseline; caf\\u{e9} x ...";
        assert_eq!(to_glyphs(said, GlyphSet::Ascii), plain);
    }
}
