//! Cutting and wrapping of text; numbers in a limited number of cells.

use std::borrow::Cow;

use tui_input::Input;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::safe_text::SafeText;
use crate::figures::{Column, FigureInput, Precision, Unit};
use crate::safe;
pub use crate::units::format::optional_latency;
use crate::units::format::{short_bytes, short_number, three_digits};
use crate::units::time::{in_zone, time_of_day};

/// `text` cut to this number of cells, with `…` if it was longer.
pub fn truncate(text: &str, cells: usize) -> Cow<'_, str> {
    if text.len() <= cells && text.is_ascii() || text.width() <= cells {
        return Cow::Borrowed(text);
    }
    let mut kept = String::new();
    let mut taken = 1;
    for grapheme in text.graphemes(true) {
        taken += grapheme.width();
        if taken > cells {
            break;
        }
        kept.push_str(grapheme);
    }
    if cells > 0 {
        kept.push('…');
    }
    Cow::Owned(kept)
}

/// Breaks text between words into lines of at most `cells`; the last line is cut if `lines` do not suffice.
pub fn wrap(text: &str, cells: usize, lines: usize) -> Vec<String> {
    let mut wrapped: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut rest = split_words(text).peekable();
    while let Some(word) = rest.next() {
        let joined = line.width() + usize::from(!line.is_empty()) + word.width();
        if !line.is_empty() && joined > cells {
            if wrapped.len() + 1 >= lines {
                let left = std::iter::once(word).chain(rest);
                let all = left.fold(line, |line, word| line + " " + word);
                wrapped.push(truncate_before_number(&all, cells));
                return wrapped;
            }
            wrapped.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        while line.width() > cells && wrapped.len() + 1 < lines && cells > 0 {
            let head = fitting_bytes(&line, cells);
            let tail = line.get(head..).unwrap_or_default().to_owned();
            line.truncate(head);
            if line.is_empty() {
                break;
            }
            wrapped.push(std::mem::replace(&mut line, tail));
        }
    }
    if lines > 0 {
        wrapped.push(truncate(&line, cells).into_owned());
    }
    wrapped
}

/// Cuts text, but never within a number, which would read as another number.
fn truncate_before_number(text: &str, cells: usize) -> String {
    let kept = truncate(text, cells);
    let Some(kept) = kept.strip_suffix('…').filter(|kept| text.len() > kept.len()) else { return kept.into_owned() };
    let ends_whole = text.get(kept.len()..).is_none_or(|rest| rest.starts_with(' '));
    let begun = kept.rfind(' ').map_or(0, |at| at + 1);
    let figure = kept.get(begun..).is_some_and(|word| word.contains(|character: char| character.is_ascii_digit()));
    if ends_whole || begun == 0 || !figure {
        format!("{kept}…")
    } else {
        format!("{}…", kept.get(..begun).unwrap_or_default())
    }
}

/// Splits at spaces, except between a number and its per cent sign.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let end = text.match_indices(' ').map(|(at, _)| at).find(|&at| !text.get(at + 1..).unwrap_or("").starts_with('%'));
        left = end.and_then(|at| text.get(at + 1..));
        text.get(..end.unwrap_or(text.len()))
    })
}

/// The part of a typed text that is shown in `room` cells, so that its cursor is visible, and the cell of the cursor.
pub fn prompt_text(input: &Input, room: usize) -> (SafeText, u16) {
    let all = SafeText::sanitize(input.value());
    let before: String = input.value().chars().take(input.cursor()).collect();
    let cursor = SafeText::sanitize(before).width();
    let skipped = |at: usize| all.as_str().get(..at).map_or(0, UnicodeWidthStr::width);
    let mut starts = all.as_str().grapheme_indices(true).map(|(at, _)| at);
    let start = starts.find(|&at| skipped(at) + room >= cursor).unwrap_or(all.as_str().len());
    let shown = all.as_str().get(start..).unwrap_or_default();
    (SafeText::sanitize(shown), u16::try_from(cursor.saturating_sub(skipped(start))).unwrap_or(u16::MAX))
}

/// Number of bytes of `text` that fit into this number of cells.
fn fitting_bytes(text: &str, cells: usize) -> usize {
    let mut taken = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        taken += grapheme.width();
        if taken > cells {
            return at;
        }
    }
    text.len()
}

/// A number with three significant digits, or with all digits before the point if they fit into `cells`.
/// Small values are written `<.01`, never 0.
pub fn format_number(value: f64, cells: usize) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let text = match value {
        value if value > 0.0 && value < 0.005 => "<.01".to_owned(),
        value if value > -0.005 && value < 0.0 => "0".to_owned(),
        value => three_digits(value),
    };
    if text.len() <= cells { text } else { short_number(value) }
}

/// A number, or `-` without a value.
pub fn format_optional(value: Option<f64>, cells: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format_number(value, cells))
}

/// A number of milliseconds, or `-` without a value; below 0.1 with three decimals where they fit.
pub fn format_millis(ms: Option<f64>, cells: usize) -> String {
    match ms {
        Some(ms) if ms > 0.0 && ms < 0.0995 && cells >= 5 => format!("{ms:.3}"),
        other => format_optional(other, cells),
    }
}

/// A value in KB. If it does not fit, it gets its own unit: `1.31G`, since `1.37M` would read as megabytes.
pub fn format_kilobytes(value: f64, cells: usize) -> String {
    let text = format_number(value, usize::MAX);
    if text.len() <= cells { text } else { short_bytes(value * 1024.0) }
}

/// The value of a catalogue column with its display unit; `-` without a value.
pub fn format_figure<T>(figure: &Column<T>, input: &FigureInput, row: &T, cells: usize) -> SafeText {
    let value = figure.displayed(input, row);
    match (figure.definition.unit, value) {
        (Unit::KilobytesPerSecond, Some(kilobytes)) => SafeText::sanitize(format_kilobytes(kilobytes, cells)),
        (Unit::Milliseconds, value) => SafeText::sanitize(format_millis(value, cells)),
        (Unit::Id | Unit::Count, Some(value)) if figure.definition.precision == Precision::Integer => safe!("{value:.0}"),
        (_, value) => SafeText::sanitize(format_optional(value, cells)),
    }
}

/// A share of 0 … 1 in per cent.
pub fn format_percent(share: Option<f64>, cells: usize) -> String {
    format_optional(share.map(|share| share * 100.0), cells)
}

/// Hours and minutes.
pub fn format_hours_minutes(realtime_ns: i64, zone: &jiff::tz::TimeZone) -> String {
    time_of_day(realtime_ns, zone).chars().take(5).collect()
}

/// `Nov 21 ` as a prefix of a time, or nothing if not `needed`.
pub fn format_day_prefix(realtime_ns: i64, zone: &jiff::tz::TimeZone, needed: bool) -> String {
    if needed { in_zone(realtime_ns, zone, "%b %d ").unwrap_or_default() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_do_not_round_to_zero() {
        let shown = |value: f64| format_number(value, 6);
        assert_eq!(
            [0.0, 0.0001, 0.39, 1.0, 9.996, 41.04, 99.96, 601.2, 9633.0, 123_456.0].map(shown),
            ["0", "<.01", "0.39", "1.00", "10.0", "41.0", "100", "601", "9633", "123456"]
        );
        assert_eq!(format_number(12_345_678.0, 6), "12.3M");
        assert_eq!(format_number(1234.0, 3), "1.23k");
        assert_eq!(format_kilobytes(987_654.3, 6), "987654");
        assert_eq!(format_kilobytes(1_373_456.0, 6), "1.31G", "1.37M under kB/s would be read as megabytes");
        assert_eq!(format_number(f64::NAN, 6), "-");
        assert_eq!(short_bytes(1.5 * 1024.0 * 1024.0 * 1024.0), "1.50G");
        assert_eq!(short_bytes(17.0), "17B");
    }

    #[test]
    fn text_is_cut_by_cells_between_characters() {
        assert_eq!(truncate("日本語です", 5), "日本…");
        assert_eq!(truncate("abc", 3), "abc");
        assert_eq!(truncate("abcd", 3), "ab…");
        assert_eq!(truncate("abcd", 0), "");
    }

    #[test]
    fn the_end_of_a_long_prompt_is_shown_with_its_cursor() {
        let shown = |typed: &str, back: usize, room: usize| {
            let cursor = typed.chars().count() - back;
            let (text, cell) = prompt_text(&Input::new(typed.to_owned()).with_cursor(cursor), room);
            (text.as_str().to_owned(), cell)
        };
        assert_eq!(shown("abc", 0, 5), ("abc".to_owned(), 3));
        assert_eq!(shown("abcdefgh", 0, 5), ("defgh".to_owned(), 5));
        assert_eq!(shown("日本語です", 0, 6), ("語です".to_owned(), 6));
        assert_eq!(shown("日本語です", 0, 5), ("です".to_owned(), 4));
        assert_eq!(shown("日本語です", 4, 6), ("日本語です".to_owned(), 2));
        assert_eq!(shown("a\u{200b}b", 1, 20), ("a\\u{200b}b".to_owned(), 9));
        assert_eq!(shown("abc", 0, 0), (String::new(), 0));
    }

    #[test]
    fn text_is_wrapped_between_words() {
        assert_eq!(wrap("one two three four", 9, 9), ["one two", "three", "four"]);
        assert_eq!(wrap("one two three four", 9, 2), ["one two", "three fo…"]);
        assert_eq!(wrap("waits 1.13 s more", 9, 1), ["waits …"], "a number is not cut");
        assert_eq!(wrap("waits 1.13 s more", 11, 1), ["waits 1.13…"]);
        assert_eq!(wrap("1.13 seconds", 3, 1), ["1.…"]);
        assert_eq!(wrap("abcdefghij", 4, 3), ["abcd", "efgh", "ij"]);
        assert_eq!(wrap("", 4, 3), [""]);
        assert_eq!(wrap("says 5 % of it", 7, 3), ["says", "5 % of", "it"]);
    }
}
