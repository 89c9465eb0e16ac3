//! A line of sanitized text: parts, each in its role. Becomes a `Line` of ratatui with the styles of a theme.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::safe_text::SafeText;
use super::text::truncate;
use super::theme::{StyleRole, Theme};

/// Parts of a line from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SafeLine {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    text: SafeText,
    role: StyleRole,
    /// Glyphs of a graph, not words
    is_graph: bool,
}

impl Part {
    fn style(&self, theme: Theme) -> Style {
        if self.is_graph { theme.graph_style(self.role) } else { theme.style(self.role) }
    }
}

impl SafeLine {
    pub fn new(text: impl Into<SafeText>, role: StyleRole) -> SafeLine {
        SafeLine::default().with(text, role)
    }

    /// The line with one more part.
    #[must_use]
    pub fn with(mut self, text: impl Into<SafeText>, role: StyleRole) -> SafeLine {
        self.push(text, role);
        self
    }

    pub fn push(&mut self, text: impl Into<SafeText>, role: StyleRole) {
        self.parts.push(Part { text: text.into(), role, is_graph: false });
    }

    /// Appends blanks up to a column.
    pub fn pad_to(&mut self, column: usize) {
        let missing = column.saturating_sub(self.width());
        if missing > 0 {
            self.push(SafeText::blanks(missing), StyleRole::Plain);
        }
    }

    /// Appends the parts of another line.
    pub fn append(&mut self, other: SafeLine) {
        self.parts.extend(other.parts);
    }

    /// Appends one glyph a cell; cells of one role become one part.
    pub fn push_glyphs(&mut self, glyphs: impl IntoIterator<Item = (char, StyleRole)>) {
        let part = |run: &mut String, role| Part { text: SafeText::sanitize(std::mem::take(run)), role, is_graph: true };
        let mut run = String::new();
        let mut run_role = StyleRole::Plain;
        for (glyph, role) in glyphs {
            if role != run_role && !run.is_empty() {
                self.parts.push(part(&mut run, run_role));
            }
            run_role = role;
            run.push(glyph);
        }
        if !run.is_empty() {
            self.parts.push(part(&mut run, run_role));
        }
    }

    /// The line without dim parts, for a row in reverse video.
    #[must_use]
    pub fn without_dim(mut self) -> SafeLine {
        for part in self.parts.iter_mut().filter(|part| part.role == StyleRole::Dim) {
            part.role = StyleRole::Plain;
        }
        self
    }

    /// Width in cells.
    pub fn width(&self) -> usize {
        self.parts.iter().map(|part| part.text.width()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.text.is_empty())
    }

    /// The line cut to this number of cells, with `…` if it was longer.
    #[must_use]
    pub fn truncated(mut self, cells: usize) -> SafeLine {
        if self.width() <= cells {
            return self;
        }
        let mut left = cells;
        let mut kept = Vec::with_capacity(self.parts.len());
        let mut parts = std::mem::take(&mut self.parts).into_iter().peekable();
        while let Some(part) = parts.next() {
            let (text, width, is_last) = (&part.text, part.text.width(), parts.peek().is_none());
            // The part that reaches the end is cut, so that the sign of the cut is visible.
            if width >= left && !(is_last && width == left) {
                let longer = if width > left { text.as_str().to_owned() } else { format!("{text} ") };
                kept.push(Part { text: SafeText::sanitize(truncate(&longer, left).into_owned()), ..part });
                break;
            }
            left -= width;
            kept.push(part);
        }
        SafeLine { parts: kept }
    }

    /// At most `cells` cells from the one at `first` on. `…` stands where a word or a number is cut. A wide character that is
    /// only partly inside is blank.
    #[must_use]
    pub fn window(self, first: usize, cells: usize) -> SafeLine {
        let end = first + cells;
        let mut inside: Vec<(usize, &str, usize)> = Vec::new();
        // Whether the characters beside the window belong to words.
        let (mut cuts_left, mut cuts_right) = (false, false);
        let mut at = 0;
        for (index, part) in self.parts.iter().enumerate() {
            for grapheme in part.text.as_str().graphemes(true) {
                let (begins, ends) = (at, at + grapheme.width());
                at = ends;
                let is_word = !part.is_graph && grapheme != " ";
                if begins >= first && ends <= end {
                    inside.push((index, grapheme, ends - begins));
                } else if ends <= first {
                    cuts_left = is_word;
                } else if begins < end {
                    inside.push((index, "", ends.min(end) - begins.max(first)));
                } else if begins == end {
                    cuts_right = is_word;
                }
            }
        }
        let last = inside.len().saturating_sub(1);
        let mut texts = vec![String::new(); self.parts.len()];
        for (place, (index, grapheme, width)) in inside.iter().copied().enumerate() {
            let Some(text) = texts.get_mut(index) else { continue };
            let is_cut = width > 0 && grapheme != " " && ((place == 0 && cuts_left) || (place == last && cuts_right));
            match grapheme {
                grapheme if !is_cut && !grapheme.is_empty() => text.push_str(grapheme),
                _ => {
                    let sign = if is_cut { "…" } else { "" };
                    text.push_str(sign);
                    text.extend(std::iter::repeat_n(' ', width.saturating_sub(sign.width())));
                }
            }
        }
        let parts = self.parts.iter().zip(texts).filter(|(_, text)| !text.is_empty());
        SafeLine { parts: parts.map(|(part, text)| Part { text: SafeText::sanitize(text), ..*part }).collect() }
    }

    /// With the styles of a theme.
    pub(super) fn styled(&self, theme: Theme) -> Line<'_> {
        self.parts.iter().map(|part| Span::styled(part.text.as_str(), part.style(theme))).collect()
    }

    /// The same, for a widget that keeps its text.
    pub(super) fn into_styled(self, theme: Theme) -> Line<'static> {
        let span = |part: Part| {
            let style = part.style(theme);
            Span::styled(part.text.into_cow(), style)
        };
        self.parts.into_iter().map(span).collect()
    }
}

impl<T: Into<SafeText>> From<(T, StyleRole)> for SafeLine {
    fn from((text, role): (T, StyleRole)) -> SafeLine {
        SafeLine::new(text, role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::TerminalCapabilities;

    fn theme() -> Theme {
        Theme::new(TerminalCapabilities::default())
    }

    fn text(line: &SafeLine) -> String {
        line.styled(theme()).to_string()
    }

    #[test]
    fn a_long_line_ends_with_a_sign() {
        let line = SafeLine::new("abc", StyleRole::Plain).with("defg", StyleRole::Bold);
        let cut = |cells| text(&line.clone().truncated(cells));
        assert_eq!([7, 5, 4, 3, 1].map(cut), ["abcdefg", "abcd…", "abc…", "ab…", "…"]);
    }

    #[test]
    fn a_window_shows_where_words_are_cut() {
        let line = SafeLine::new("one two", StyleRole::Plain).with(" three", StyleRole::Bold);
        let seen = |first, cells| text(&line.clone().window(first, cells));
        assert_eq!(
            [seen(0, 13), seen(0, 5), seen(1, 3), seen(4, 3), seen(8, 9)],
            ["one two three", "one …", "…e ", "two", "three"]
        );
        assert_eq!([seen(20, 5), seen(3, 0), seen(5, 1)], ["", "", "…"]);
    }

    #[test]
    fn a_window_cuts_between_characters() {
        let line = SafeLine::new("日本 e\u{301}x", StyleRole::Plain);
        let seen = |first, cells| text(&line.clone().window(first, cells));
        // Half of a wide character is blank; a combining character stays with its letter.
        assert_eq!([seen(1, 3), seen(2, 4), seen(5, 1), seen(5, 2)], [" 本", "…  …", "…", "e\u{301}x"]);
        for first in 0..8 {
            assert!((0..8).all(|cells| line.clone().window(first, cells).width() <= cells), "{first}");
        }
    }

    #[test]
    fn cells_of_one_role_are_one_part() {
        let mut line = SafeLine::default();
        line.push_glyphs([('a', StyleRole::Plain), ('b', StyleRole::Plain), ('c', StyleRole::Dim)]);
        assert_eq!(line.styled(theme()).spans.len(), 2);
        line.pad_to(6);
        assert_eq!(text(&line), "abc   ");
    }
}
