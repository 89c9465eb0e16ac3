//! Sanitized text.
//!
//! Names of processes, files, hosts and interfaces may contain anything, including terminal escape sequences. A pane of
//! the screen accepts only literals and `SafeText`, which only the sanitizer creates.

use std::borrow::Cow;

use unicode_width::UnicodeWidthStr;

use crate::ids::escape_unprintable;
use crate::sample::Name;

/// Text without control characters, bidirectional overrides and invisible characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafeText(Cow<'static, str>);

impl SafeText {
    /// Sanitizes a name from the kernel.
    pub fn from_name(name: &Name) -> SafeText {
        SafeText::from_bytes(name.as_bytes())
    }

    /// Sanitizes bytes; invalid UTF-8 becomes U+FFFD.
    pub fn from_bytes(bytes: &[u8]) -> SafeText {
        SafeText::sanitize(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Escapes all unprintable characters.
    pub fn sanitize(text: impl Into<String>) -> SafeText {
        let text = text.into();
        match escape_unprintable(&text) {
            Cow::Borrowed(_) => SafeText(Cow::Owned(text)),
            Cow::Owned(escaped) => SafeText(Cow::Owned(escaped)),
        }
    }

    /// This number of blanks.
    pub fn blanks(cells: usize) -> SafeText {
        SafeText(Cow::Owned(" ".repeat(cells)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn into_cow(self) -> Cow<'static, str> {
        self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Width in cells.
    pub fn width(&self) -> usize {
        self.0.width()
    }
}

/// Literals need no sanitizing.
impl From<&'static str> for SafeText {
    fn from(text: &'static str) -> SafeText {
        SafeText(Cow::Borrowed(text))
    }
}

impl From<&SafeText> for SafeText {
    fn from(text: &SafeText) -> SafeText {
        text.clone()
    }
}

/// Formats and sanitizes, with the arguments of `format!`.
#[macro_export]
#[doc(hidden)]
macro_rules! safe {
    ($($argument:tt)*) => { $crate::view::safe_text::SafeText::sanitize(format!($($argument)*)) };
}

impl std::fmt::Display for SafeText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_escaped() {
        let name = SafeText::from_bytes(b"a\x1b[2J\x07\xff\xc2\x9b31m\n\xe2\x80\xaeb\xe2\x80\x8b\x7f");
        assert_eq!(name.as_str(), "a\\u{1b}[2J\\u{7}\u{fffd}\\u{9b}31m\\n\\u{202e}b\\u{200b}\\u{7f}");
        assert_eq!(SafeText::from_bytes("größe 日本".as_bytes()).as_str(), "größe 日本");
    }
}
