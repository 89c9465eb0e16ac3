//! What the tables of `probe runq` and `probe query` have in common: rows with a rate, a mean and quantiles, at most 80 columns wide.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::{printable, three_digits};
use crate::units::Millis;
use crate::units::format::{fitting_start, optional_latency, width};

pub const LABEL_COLUMNS: usize = 20;
/// The last is the maximum.
pub const QUANTILES: [f64; 5] = [0.5, 0.95, 0.99, 0.999, 1.0];
const HEADINGS: [&str; 6] = ["mean", "p50", "p95", "p99", "p99.9", "max"];

/// How a table writes its rows.
#[derive(Clone, Copy, Debug)]
pub struct LatencyTable {
    /// Of the column with the rate
    pub rate_columns: usize,
}

/// The figures of a row; `None` where nothing was counted.
#[derive(Clone, Copy, Debug)]
pub struct LatencyRow {
    pub per_second: f64,
    pub mean: Option<Millis>,
    /// Of `QUANTILES`
    pub quantiles: [Option<Millis>; 5],
}

impl LatencyTable {
    /// The line of headings.
    pub fn heading(self, text: &mut String, label: &str, rate: &str) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{label:LABEL_COLUMNS$}{rate:>0$}", self.rate_columns);
        for heading in HEADINGS {
            let _ = write!(text, "{heading:>8}");
        }
        text.push('\n');
    }

    pub fn row(self, text: &mut String, label: &str, row: &LatencyRow) {
        let _ = write!(text, "{}{:>2$}", pad_label(label), three_digits(row.per_second), self.rate_columns);
        for value in [row.mean].into_iter().chain(row.quantiles) {
            let _ = write!(text, "{:>8}", optional_latency(value));
        }
        text.push('\n');
    }
}

/// Name and pid, at most as wide as a label with a space behind it.
pub fn process_label(name: &str, pid: u32) -> String {
    let pid = format!(" ({pid})");
    let name = printable(name);
    format!("{}{pid}", fitting_start(&name, (LABEL_COLUMNS - 1).saturating_sub(pid.len())))
}

/// With blanks behind it.
pub fn pad_label(label: &str) -> String {
    format!("{label}{}", " ".repeat(LABEL_COLUMNS.saturating_sub(width(label))))
}

/// Mean and quantiles of a row as JSON.
#[derive(Serialize)]
pub struct LatencyJson {
    mean_seconds: Option<f64>,
    p50_seconds: Option<f64>,
    p95_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    p999_seconds: Option<f64>,
    max_seconds: Option<f64>,
}

impl LatencyJson {
    pub fn new(row: &LatencyRow) -> LatencyJson {
        let seconds = |value: Option<Millis>| value.map(|value| value.0 / 1000.0);
        let [p50, p95, p99, p999, max] = row.quantiles.map(seconds);
        LatencyJson {
            mean_seconds: seconds(row.mean),
            p50_seconds: p50,
            p95_seconds: p95,
            p99_seconds: p99,
            p999_seconds: p999,
            max_seconds: max,
        }
    }
}
