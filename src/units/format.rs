//! Formats numbers and measures text, for all layers: three significant digits, latencies and bytes with a unit, plurals.

use unicode_width::UnicodeWidthStr;

use super::Millis;

/// Width in cells of a terminal.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// The longest beginning that fits into this number of cells.
pub fn fitting_start(text: &str, cells: usize) -> &str {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    ends.filter_map(|end| text.get(..end)).take_while(|start| width(start) <= cells).last().unwrap_or_default()
}

/// The longest end that fits into this number of cells.
pub fn fitting_end(text: &str, cells: usize) -> &str {
    let mut starts = text.char_indices().map(|(at, _)| at);
    starts.find_map(|start| text.get(start..).filter(|end| width(end) <= cells)).unwrap_or_default()
}

/// Three significant digits, at most two decimals: `0`, `0.39`, `41.0`, `1234`.
pub fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => return "0".to_owned(),
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// The same with more decimals below 0.1, so that nothing small becomes 0: `0.052`, `0.0012`, `1.2e-5`.
pub fn significant_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 0.0995 || size == 0.0 => three_digits(value),
        size if size >= 0.00995 => format!("{value:.3}"),
        size if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A latency with three significant digits, in s, ms or µs: `2.50 s`, `109 ms`, `7.80 ms`, `52.0 µs`.
pub fn latency(latency: Millis) -> String {
    let ms = latency.0;
    match ms.abs() {
        size if size >= 999.5 => format!("{} s", three_digits(ms / 1000.0)),
        size if size >= 0.9995 => format!("{} ms", three_digits(ms)),
        0.0 => "0 ms".to_owned(),
        _ => format!("{} µs", three_digits(ms * 1000.0)),
    }
}

/// `-` if it is not known.
pub fn optional_latency(value: Option<Millis>) -> String {
    value.map_or_else(|| "-".to_owned(), latency)
}

/// A share as per cent: `50.5 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", significant_digits(ratio * 100.0))
}

/// A quotient of two values of one kind: `0.91×`, `13.9×`, `717×`.
pub fn multiple(value: f64) -> String {
    format!("{}×", three_digits(value))
}

/// Bytes in a binary unit: `1.50 KiB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// The same for narrow columns: `1.50K`; without a unit if 0.
pub fn short_bytes(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { scaled(value, 1024.0, &["B", "K", "M", "G", "T", "P", "E"]) }
}

/// A number with three significant digits and an SI suffix: `1.23k`, `12.3M`.
pub fn short_number(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P"])
}

/// In the unit in which the number is less than 1000; each unit is `step` times the one before. Bytes have no decimals.
fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut units) = (value, units.iter());
    let mut unit = units.next().copied().unwrap_or_default();
    while value.abs() >= 999.5 {
        let Some(larger) = units.next() else { break };
        value /= step;
        unit = larger;
    }
    if unit.trim_start() == "B" { format!("{value:.0}{unit}") } else { three_digits(value) + unit }
}

/// `1 sample`, `12 samples`: a noun with a regular plural.
pub fn pluralize(count: impl std::fmt::Display, noun: &str) -> String {
    plural(count, noun, &format!("{noun}s"))
}

/// `1 process`, `12 processes`.
pub fn plural(count: impl std::fmt::Display, one: &str, many: &str) -> String {
    let count = count.to_string();
    let noun = singular_or_plural(&count, one, many);
    format!("{count} {noun}")
}

/// The form of a noun or verb for this count, without the count: `waits`, `wait`.
pub fn singular_or_plural<'a>(count: impl std::fmt::Display, one: &'a str, many: &'a str) -> &'a str {
    if count.to_string() == "1" { one } else { many }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_cells() {
        assert_eq!([0, 1, 2, 5, 6, 9].map(|cells| fitting_start("日本語", cells)), ["", "", "日", "日本", "日本語", "日本語"]);
        assert_eq!([0, 1, 2, 5, 6, 9].map(|cells| fitting_end("日本語", cells)), ["", "", "語", "本語", "日本語", "日本語"]);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.0, 0.39, 9.99, 9.999, 41.04, 99.97, 1234.5].map(three_digits),
            ["0", "0.39", "9.99", "10.0", "41.0", "100", "1234"]
        );
        assert_eq!([0.0, 0.15, 0.052, 0.0012, 0.000_012].map(significant_digits), ["0", "0.15", "0.052", "0.0012", "1.2e-5"]);
    }

    #[test]
    fn latencies_have_three_digits() {
        assert_eq!(
            [0.0, 0.000_52, 0.0996, 0.15, 0.9996, 7.8, 108.7, 999.6, 12_500.0].map(|ms| latency(Millis(ms))),
            ["0 ms", "0.52 µs", "99.6 µs", "150 µs", "1.00 ms", "7.80 ms", "109 ms", "1.00 s", "12.5 s"]
        );
    }

    #[test]
    fn amounts_have_a_binary_unit() {
        assert_eq!([17.0, 1023.0, 1536.0, 1e15].map(bytes), ["17 B", "1.00 KiB", "1.50 KiB", "909 TiB"]);
        assert_eq!([pluralize(1, "core"), plural(12_u64, "process", "processes")], ["1 core", "12 processes"]);
    }
}
