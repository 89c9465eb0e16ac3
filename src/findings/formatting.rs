//! Formats figures for sentences: three significant digits, and never a share that rounds to 0.

use crate::sample::Name;
use crate::units::format;
pub use crate::units::format::{bytes, latency, multiple, significant_digits};
pub use crate::units::time::duration;

/// A share as per cent: `50.5 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", significant_digits(ratio * 100.0))
}

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

/// A name as text; bytes that are not UTF-8 become U+FFFD.
pub fn lossy_name(name: &Name) -> String {
    name.to_string_lossy()
}
