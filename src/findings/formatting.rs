//! Formats figures for sentences: three significant digits, and never a share that rounds to 0.

use crate::sample::Name;
use crate::units::format;
pub use crate::units::format::{bytes, latency, multiple, percent, significant_digits, singular_or_plural};
pub use crate::units::time::duration;

/// A mean number of threads or requests: whole where it is whole, or large.
pub fn count(value: f64) -> String {
    match value {
        _ if value >= 9.95 || (value - value.round()).abs() < 0.05 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// `1 thread`, `63 threads`, `1.5 threads`.
pub fn plural(value: f64, one: &str, many: &str) -> String {
    format::plural(count(value), one, many)
}

/// `1 CPU`, `256 CPUs`.
pub fn cpus(all: usize) -> String {
    plural(all as f64, "CPU", "CPUs")
}

/// CPU time per time: `0.88 CPU`, `1.64 CPUs`.
pub fn cpu_time(cpus: f64) -> String {
    format!("{} {}", significant_digits(cpus), if cpus > 1.0 { "CPUs" } else { "CPU" })
}

/// A mean number of threads and where they are: `32 threads in read`; of less than one `1 thread, 40.0 % of the time in read`.
pub fn threads_at(threads: f64, place: &str) -> String {
    if is_part_of_the_time(threads) {
        return format!("1 thread, {} of the time {place}", percent(threads));
    }
    format!("{} {place}", plural(threads, "thread", "threads"))
}

/// The same where the sentence has said that it counts threads: `3 in read`, `1, 40.0 % of the time in read`.
pub fn more_threads_at(threads: f64, place: &str) -> String {
    if is_part_of_the_time(threads) {
        return format!("1, {} of the time {place}", percent(threads));
    }
    format!("{} {place}", count(threads))
}

/// Whether a mean number of threads is that of one thread that is there at times: it does not round to 1.
fn is_part_of_the_time(threads: f64) -> bool {
    threads < 0.95
}

/// A name as text; bytes that are not UTF-8 become U+FFFD. A blank after a character that ends a clause becomes a no-break space:
/// so that a headline, split at clauses, does not split a name.
pub fn lossy_name(name: &Name) -> String {
    let text = name.to_string_lossy();
    if !text.contains("; ") && !text.contains(". ") {
        return text;
    }
    text.replace("; ", ";\u{a0}").replace(". ", ".\u{a0}")
}

/// The end of a path that a reader recognizes: `base/5/16396`, `pg_wal/…0012`, `journal`. A name of digits says nothing without its
/// directory.
pub fn short_path(path: &Name) -> String {
    let text = lossy_name(path);
    let mut parts = text.rsplit('/').filter(|part| !part.is_empty());
    let Some(last) = parts.next() else { return text.clone() };
    let mut short = if is_number(last) { abbreviated_number(last) } else { last.to_owned() };
    let mut named = !is_number(last);
    for part in parts.take(MAX_PARENTS) {
        if named {
            break;
        }
        short = format!("{part}/{short}");
        named = !is_number(part);
    }
    short
}

/// Directories that `short_path` puts before a number.
const MAX_PARENTS: usize = 2;

/// Characters of a number that are kept at its end.
const KEPT_DIGITS: usize = 4;

/// Whether it consists of (hexadecimal) digits and punctuation: a pid, the number of a table or of a segment of a log.
fn is_number(part: &str) -> bool {
    part.bytes().any(|byte| byte.is_ascii_digit())
        && part.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b'_' | b'-'))
}

fn abbreviated_number(number: &str) -> String {
    if number.len() <= 2 * KEPT_DIGITS {
        return number.to_owned();
    }
    format!("…{}", number.get(number.len() - KEPT_DIGITS..).unwrap_or(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_with_its_directory() {
        let paths = [
            ("/srv/pg/base/5/16396", "base/5/16396"),
            ("/srv/pg/pg_wal/000000010000000000000012", "pg_wal/…0012"),
            ("/var/log/journal/system.journal", "system.journal"),
            ("/proc/4711", "proc/4711"),
            ("/", "/"),
            ("f", "f"),
        ];
        for (path, short) in paths {
            assert_eq!(short_path(&Name::from(path)), short, "{path}");
        }
    }
}
