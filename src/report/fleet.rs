//! The result of `fleet --once`: each host with its findings, and the causes that hosts have in common.

use std::fmt::Write;

use serde::Serialize;

use super::formatting::{overall_status, pluralize, printable};
use super::json::{CheckJson, to_line};
use super::text;
use super::window::Window;
use crate::findings::Severity;
use crate::state::fleet::causes::{FleetCause, grouped};
use crate::state::fleet::host::{FleetHost, WorstLatency};
use crate::units::SmallSort;

/// A host with the evaluated time.
pub struct HostReport {
    pub host: FleetHost,
    pub window: Window,
    /// Why nothing is known of it
    pub why: Option<String>,
}

impl HostReport {
    fn status(&self) -> &'static str {
        if self.window.is_empty() { "unknown" } else { overall_status(self.window.worst_severity()) }
    }
}

/// All hosts, the worst first.
pub struct FleetReport {
    hosts: Vec<HostReport>,
    causes: Vec<FleetCause>,
}

impl FleetReport {
    pub fn new(mut hosts: Vec<HostReport>) -> FleetReport {
        let rank = |report: &HostReport| match report.window.worst_severity() {
            Some(Severity::Critical) => 0,
            Some(Severity::Warning) => 1,
            _ if report.window.is_empty() => 2,
            _ => 3,
        };
        hosts.small_sort_by_key(rank);
        let known = hosts.iter().enumerate().filter(|(_, report)| !report.window.is_empty());
        let causes = grouped(known.map(|(index, report)| (index, &report.host)));
        FleetReport { hosts, causes }
    }

    /// Of the findings of all hosts.
    pub fn worst_severity(&self) -> Option<Severity> {
        self.hosts.iter().filter_map(|report| report.window.worst_severity()).max()
    }

    pub fn has_unknown_hosts(&self) -> bool {
        self.hosts.iter().any(|report| report.window.is_empty())
    }

    /// A line with the counts, the causes, and the lines of each host.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let count = |status: &str| self.hosts.iter().filter(|report| report.status() == status).count();
        let counts: Vec<String> = ["critical", "warning", "unknown", "ok"]
            .into_iter()
            .filter_map(|status| Some(count(status)).filter(|&count| count > 0).map(|count| format!("{count} {status}")))
            .collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}: {}", self.host_count(), counts.join(", "));
        for cause in &self.causes {
            let names: Vec<String> =
                cause.hosts.iter().filter_map(|&index| Some(printable(&self.hosts.get(index)?.host.name))).collect();
            let _ = writeln!(
                text,
                "{}: {}: {} of {} ({})",
                cause.severity.as_str(),
                printable(&cause.words),
                names.len(),
                self.host_count(),
                names.join(", ")
            );
        }
        for report in &self.hosts {
            let name = printable(&report.host.name);
            match &report.why {
                Some(why) => {
                    let _ = writeln!(text, "{name}: unknown: {}", printable(why));
                }
                None => {
                    let _ = write!(text, "{name}: {}", text::summary(&report.window));
                }
            }
            for remark in remarks(&report.host) {
                let _ = writeln!(text, "  {}", printable(&remark));
            }
        }
        text
    }

    /// One object, one line.
    pub fn json(&self) -> String {
        let cause = |cause: &FleetCause| CauseJson {
            cause: cause.words.clone(),
            severity: cause.severity,
            hosts: cause.hosts.iter().filter_map(|&index| Some(self.hosts.get(index)?.host.name.clone())).collect(),
        };
        to_line(&FleetJson {
            schema: "stalltop/1",
            verdict: match self.worst_severity() {
                None | Some(Severity::Note) if self.has_unknown_hosts() => "unknown",
                worst => overall_status(worst),
            },
            causes: self.causes.iter().map(cause).collect(),
            hosts: self.hosts.iter().map(HostJson::new).collect(),
        })
    }

    fn host_count(&self) -> String {
        pluralize(self.hosts.len(), "host")
    }
}

/// What a reader of its figures should know.
fn remarks(host: &FleetHost) -> Vec<String> {
    let clock = host.reported_clock_offset().map(|offset| format!("its clock is {offset:+.0} s from ours"));
    let version = host.other_version.as_ref().map(|version| format!("it is recorded by stalltop {version}"));
    clock.into_iter().chain(version).chain(host.note.clone()).collect()
}

#[derive(Serialize)]
struct FleetJson {
    schema: &'static str,
    /// `ok`, `warning`, `critical`, or `unknown` where nothing is found and a host is not known
    verdict: &'static str,
    causes: Vec<CauseJson>,
    hosts: Vec<HostJson>,
}

#[derive(Serialize)]
struct CauseJson {
    cause: String,
    severity: Severity,
    hosts: Vec<String>,
}

#[derive(Serialize)]
struct HostJson {
    /// As it was given
    name: String,
    /// Why nothing is known
    error: Option<String>,
    clock_offset_seconds: Option<f64>,
    other_version: Option<String>,
    note: Option<String>,
    saturated_threads: Option<usize>,
    network_bytes_per_second: Option<f64>,
    worst_latency: Option<LatencyJson>,
    /// As of `check --json`
    #[serde(flatten)]
    check: CheckJson,
}

#[derive(Serialize)]
struct LatencyJson {
    disk: String,
    operation: &'static str,
    baseline_ratio: f64,
    provisional: bool,
}

impl HostJson {
    fn new(report: &HostReport) -> HostJson {
        let HostReport { host, window, why } = report;
        let summary = host.summary.as_ref();
        let latency = |worst: &WorstLatency| LatencyJson {
            disk: worst.disk.clone(),
            operation: worst.operation.as_str(),
            baseline_ratio: worst.multiple,
            provisional: worst.provisional,
        };
        HostJson {
            name: host.name.clone(),
            error: why.clone(),
            clock_offset_seconds: host.clock_offset_seconds,
            other_version: host.other_version.clone(),
            note: host.note.clone(),
            saturated_threads: summary.and_then(|summary| summary.saturated_threads),
            network_bytes_per_second: summary.and_then(|summary| Some(summary.network_kilobytes?.0 * 1024.0)),
            worst_latency: summary.and_then(|summary| summary.worst_latency.as_ref()).map(latency),
            check: CheckJson::new(window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(name: &str, why: &str) -> HostReport {
        HostReport { host: FleetHost::new(name), window: Window::default(), why: Some(why.to_owned()) }
    }

    #[test]
    fn a_host_without_samples_is_unknown_and_hostile_words_are_escaped() {
        let report = FleetReport::new(vec![unknown("web\u{1b}[31m", "no\u{202e} route\n"), unknown("web2", "refused")]);
        assert!(report.has_unknown_hosts() && report.worst_severity().is_none());
        assert_eq!(
            report.text(),
            "2 hosts: 2 unknown\nweb\\u{1b}[31m: unknown: no\\u{202e} route\\n\nweb2: unknown: refused\n"
        );
        let json = report.json();
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json.is_ascii() && json.lines().count() == 1, "{json}");
        assert_eq!((&parsed["verdict"], &parsed["hosts"][1]["error"]), (&"unknown".into(), &"refused".into()));
        assert_eq!(parsed["hosts"][0]["figures"]["busy_ratio"], serde_json::Value::Null);
    }
}
