//! `baseline show`: the learned latencies as a text table, or as one JSON object per line.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::printable;
use super::json::to_line;
use crate::baseline::{BaselineKey, LearnedBaseline, Quantiles};
use crate::interval::disk::Operation;
use crate::units::Millis;
use crate::units::format;
use crate::units::time;

/// One baseline.
#[derive(Debug)]
pub struct BaselineRow<'a> {
    /// Its current kernel name; `None`: not attached
    pub device_name: Option<String>,
    pub key: &'a BaselineKey,
    pub learned: &'a LearnedBaseline,
    /// The baseline in use now and whether it is provisional; `None`: unknown
    pub effective: Option<(Millis, bool)>,
}

/// One line per baseline, below a heading.
pub fn table(rows: &[BaselineRow], now_s: i64) -> String {
    let mut text = String::from(
        "DEVICE       OP      SIZE     BASELINE        P50        P99  INTERVALS  SINCE       CONFIRMED   CONFIDENCE   IDENTITY\n",
    );
    for row in rows {
        let baseline = row.effective.map_or_else(
            || "-".to_owned(),
            |(ms, provisional)| format!("{}{}", if provisional { "~" } else { "" }, format::latency(ms)),
        );
        let quantiles = row.learned.quantiles();
        let quantile = |of: fn(&Quantiles) -> Millis| {
            quantiles.as_ref().map_or_else(|| "-".to_owned(), |known| format::latency(of(known)))
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<12} {:<7} {:<6} {baseline:>10} {:>10} {:>10} {:>10}  {:<10}  {:<10}  {:<12} {}{}",
            row.device_name.as_deref().map_or_else(|| "-".to_owned(), printable),
            row.key.operation.as_str(),
            if row.key.operation == Operation::Flush { "-" } else { row.key.size.as_str() },
            quantile(|known| known.p50),
            quantile(|known| known.p99),
            row.learned.intervals,
            format_date(row.learned.first_s),
            format_date(row.learned.last_s),
            row.learned.confidence(now_s).as_str(),
            printable(&row.key.device.0),
            row.learned
                .drift()
                .map_or_else(String::new, |drift| format!(" ({} slower than at first)", format::multiple(drift.multiple()))),
        );
    }
    text
}

/// `baseline show --json`: schema `stalltop/1`, one object per line.
pub fn json(rows: &[BaselineRow], now_s: i64) -> String {
    let line = |row: &BaselineRow| {
        let drift = row.learned.drift();
        let line = JsonLine {
            schema: "stalltop/1",
            device: row.device_name.clone(),
            identity: &row.key.device.0,
            operation: row.key.operation.as_str(),
            size: row.key.size.as_str(),
            baseline_seconds: row.effective.map(|(ms, _)| ms.0 / 1000.0),
            provisional: row.effective.is_none_or(|(_, provisional)| provisional),
            p50_seconds: row.learned.quantiles().map(|known| known.p50.0 / 1000.0),
            p99_seconds: row.learned.quantiles().map(|known| known.p99.0 / 1000.0),
            intervals: row.learned.intervals,
            since: rfc3339(row.learned.first_s),
            confirmed: rfc3339(row.learned.last_s),
            confidence: row.learned.confidence(now_s).as_str(),
            reference_seconds: drift.map(|drift| drift.reference.0 / 1000.0),
            drift_ratio: drift.map(|drift| drift.multiple()),
        };
        to_line(&line)
    };
    rows.iter().map(line).collect()
}

#[derive(Serialize)]
struct JsonLine<'a> {
    schema: &'static str,
    device: Option<String>,
    identity: &'a str,
    operation: &'static str,
    size: &'static str,
    baseline_seconds: Option<f64>,
    provisional: bool,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    intervals: u32,
    since: Option<String>,
    confirmed: Option<String>,
    confidence: &'static str,
    reference_seconds: Option<f64>,
    drift_ratio: Option<f64>,
}

/// A day in UTC; `-` where there is none.
fn format_date(seconds: i64) -> String {
    rfc3339(seconds).map_or_else(|| "-".to_owned(), |at| at.chars().take(10).collect())
}

/// `None` where there is none.
fn rfc3339(seconds: i64) -> Option<String> {
    (seconds > 0).then(|| time::rfc3339_seconds(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baseline::{DeviceIdentity, SizeClass};

    #[test]
    fn names_from_outside_are_escaped() {
        let key = BaselineKey {
            device: DeviceIdentity("serial \u{9b}31m".into()),
            operation: Operation::Read,
            size: SizeClass::Small,
        };
        let learned = LearnedBaseline::default();
        let row = BaselineRow { device_name: Some("sd\u{202e}a".to_owned()), key: &key, learned: &learned, effective: None };
        let line = json(&[row], 0);
        assert!(line.contains("sd\\u202ea") && line.contains("serial \\u009b31m"), "{line}");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["device"], "sd\u{202e}a");
    }
}
