//! Splits kernel files into lines and words, and parses numbers. Accepts any bytes and never panics.
//!
//! A last line without a newline is left out: its last number may be truncated.

use crate::sample::Name;
use crate::units::Counter;

/// The complete lines, without their newlines.
pub fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"))
}

/// The words between spaces and tabs.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty())
}

/// A decimal number without a sign; `None` for any other word and on overflow.
pub fn parse_u64(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for byte in word {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// The same for numbers of 32 bits.
pub fn parse_u32(word: &[u8]) -> Option<u32> {
    u32::try_from(parse_u64(word)?).ok()
}

/// A hexadecimal number without a prefix; `None` for any other word and on overflow.
pub fn parse_hexadecimal(word: &[u8]) -> Option<u64> {
    let is_number = word.iter().all(u8::is_ascii_hexdigit);
    if is_number { u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok() } else { None }
}

/// The same with `0x` before it.
pub fn parse_prefixed_hexadecimal(word: &[u8]) -> Option<u64> {
    parse_hexadecimal(word.strip_prefix(b"0x")?)
}

/// A decimal fraction such as `0.25`, from 0 to below 2^32: a load or a percentage.
pub fn parse_non_negative_f64(word: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(word).ok()?.parse().ok()?;
    (0.0..f64::from(u32::MAX)).contains(&value).then_some(value)
}

/// The next word as a counter.
pub fn next_counter<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<Counter> {
    words.next().and_then(parse_u64).map(Counter)
}

/// The name and the number of a line `NAME value`.
pub fn parse_named_u64(line: &[u8]) -> Option<(&[u8], u64)> {
    let mut words = words(line);
    let name = words.next()?;
    Some((name, parse_u64(words.next()?)?))
}

/// The number of a file that has just one.
pub fn parse_single_u64(bytes: &[u8]) -> Option<u64> {
    parse_u64(lines(bytes).next()?.trim_ascii())
}

/// The text of a file that has one line, trimmed; `None` when it is empty.
pub fn parse_single_line(bytes: &[u8]) -> Option<Name> {
    let text = lines(bytes).next()?.trim_ascii();
    (!text.is_empty()).then(|| Name::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_none() {
        assert_eq!(parse_u64(b"0"), Some(0));
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        for bad in ["", "-1", "+1", "18446744073709551616", "1.5", "1 ", "0x1", "१"] {
            assert_eq!(parse_u64(bad.as_bytes()), None, "{bad:?}");
        }
        assert_eq!(parse_u32(b"4294967296"), None);
    }

    #[test]
    fn a_line_without_a_newline_is_left_out() {
        let all: Vec<_> = lines(b"one\n\ntwo 12\nthree 34").collect();
        assert_eq!(all, [&b"one"[..], b"", b"two 12"]);
    }

    #[test]
    fn fractions_are_finite() {
        assert_eq!(parse_non_negative_f64(b"0.25"), Some(0.25));
        for bad in ["", "nan", "inf", "-1.0", "1e999", "18446744073709551616"] {
            assert_eq!(parse_non_negative_f64(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
