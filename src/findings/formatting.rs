//! Formats figures for sentences: three significant digits, and never a share that rounds to 0.

use crate::sample::Name;

/// Three significant digits, no more than two decimals unless it is below 0.1; two digits below 0.01.
pub fn significant_digits(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 99.95 => format!("{value:.0}"),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ if size >= 0.00995 => format!("{value:.3}"),
        _ if size >= 0.000_995 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A share as per cent: `50.5 %`.
pub fn percent(ratio: f64) -> String {
    format!("{} %", significant_digits(ratio * 100.0))
}

/// A latency: `108.7 ms`, `0.15 ms`, `2.50 s`.
pub fn millis(ms: f64) -> String {
    match ms {
        _ if ms >= 10_000.0 => format!("{} s", significant_digits(ms / 1000.0)),
        _ if ms >= 0.95 => format!("{ms:.1} ms"),
        _ => format!("{} ms", significant_digits(ms)),
    }
}

/// `13.9×`.
pub fn multiple(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}×"),
        _ => format!("{value:.1}×"),
    }
}

/// A mean number of threads or requests: whole where it is whole, or large.
pub fn count(value: f64) -> String {
    match value {
        _ if value >= 9.95 || (value - value.round()).abs() < 0.05 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    }
}

/// Seconds: `7 s`, `0.30 s`, `2 min`.
pub fn seconds(value: f64) -> String {
    match value {
        _ if value >= 7200.0 => format!("{:.1} h", value / 3600.0),
        _ if value >= 600.0 => format!("{:.0} min", value / 60.0),
        _ if value >= 120.0 => format!("{:.1} min", value / 60.0),
        _ if value >= 9.95 || (value - value.round()).abs() < 0.05 => format!("{value:.0} s"),
        _ => format!("{value:.1} s"),
    }
}

/// An amount of memory: `32.0 MiB`.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = "B";
    for next in UNITS {
        unit = next;
        if value < 1000.0 {
            break;
        }
        if next != "TiB" {
            value /= 1024.0;
        }
    }
    format!("{} {unit}", significant_digits(value))
}

/// `1 thread`, `63 threads`.
pub fn plural(value: f64, one: &str, many: &str) -> String {
    let count = count(value);
    if count == "1" { format!("{count} {one}") } else { format!("{count} {many}") }
}

/// `1 CPU`, `256 CPUs`.
pub fn cpus(all: usize) -> String {
    plural(all as f64, "CPU", "CPUs")
}

/// A name as the kernel gave it, shown lossily.
pub fn lossy_name(name: &Name) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
