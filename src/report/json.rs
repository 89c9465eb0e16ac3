//! JSON: schema `stalltop/1`. Names as in docs/metrics.md, units in the name's suffix, unknown as null. Keys are only added.

mod finding;

use std::fmt::Write;

use serde::Serialize;

pub(super) use finding::FindingJson;

use super::formatting::{overall_status, rfc3339};
use super::mean_figures::MeanFigures;
use super::report_data::steps::round_to_five_digits;
use super::report_data::{Chart, Gap, ReportData};
use super::window::Window;
use crate::findings::Severity;
use crate::ids::is_unprintable;

/// `check --json`: one object, one line.
pub fn check(window: &Window) -> String {
    to_line(&CheckJson::new(window))
}

/// One object, one line.
pub(in crate::report) fn to_line(object: &impl Serialize) -> String {
    // Strings, numbers and lists cannot fail to become JSON.
    escape_unprintable(&serde_json::to_string(object).unwrap_or_default()) + "\n"
}

/// `report --format json`: one object, one line.
pub fn report(data: &ReportData) -> String {
    let window = &data.window;
    let steps: Vec<StepJson> =
        data.steps().iter().map(|step| StepJson { from: rfc3339(step.from), to: rfc3339(step.to) }).collect();
    let commands = data.top_commands(MAX_COMMANDS).into_iter().map(|command| CommandJson {
        command: command.name.to_string_lossy(),
        processes: command.processes,
        cpu_seconds: round_to_five_digits(command.cpu_seconds),
        run_queue_seconds: round_to_five_digits(command.run_queue_seconds),
        disk_seconds: round_to_five_digits(command.disk_seconds),
        lock_seconds: round_to_five_digits(command.lock_seconds),
    });
    let report = ReportJson {
        check: CheckJson::new(window),
        intervals: data.intervals(),
        intervals_per_step: data.steps().intervals_per_step(),
        steps,
        charts: data.charts(),
        commands: commands.collect(),
        marks: data.marks.iter().map(|mark| MarkJson { at: rfc3339(mark.at), text: mark.text.clone() }).collect(),
        gaps: data.gaps.iter().map(GapJson::new).collect(),
        cut: data.truncation,
    };
    to_line(&report)
}

/// Rows of commands in a report.
const MAX_COMMANDS: usize = 50;

#[derive(Serialize)]
struct ReportJson {
    #[serde(flatten)]
    check: CheckJson,
    intervals: u64,
    intervals_per_step: usize,
    steps: Vec<StepJson>,
    charts: Vec<Chart>,
    commands: Vec<CommandJson>,
    marks: Vec<MarkJson>,
    gaps: Vec<GapJson>,
    /// Why the end of the recording may be missing
    cut: Option<&'static str>,
}

#[derive(Serialize)]
struct StepJson {
    from: String,
    to: String,
}

#[derive(Serialize)]
struct CommandJson {
    command: String,
    processes: u32,
    cpu_seconds: f64,
    run_queue_seconds: f64,
    disk_seconds: f64,
    lock_seconds: f64,
}

#[derive(Serialize)]
struct MarkJson {
    at: String,
    text: String,
}

#[derive(Serialize)]
struct GapJson {
    from: String,
    to: String,
    samples: u64,
    why: String,
}

impl GapJson {
    fn new(gap: &Gap) -> GapJson {
        GapJson { from: rfc3339(gap.from), to: rfc3339(gap.to), samples: gap.missing_samples, why: gap.reason.clone() }
    }
}

/// JSON escapes only characters below U+0020; this escapes the other unprintable ones in strings.
pub fn escape_unprintable(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        if is_unprintable(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(plain, "\\u{unit:04x}");
            }
        } else {
            plain.push(c);
        }
    }
    plain
}

#[derive(Serialize)]
pub(super) struct CheckJson {
    schema: &'static str,
    host: Option<String>,
    from: Option<String>,
    to: Option<String>,
    verdict: &'static str,
    figures: MeanFigures,
    cross_checks: CrossChecksJson,
    findings: Vec<FindingJson>,
    absent: Vec<AbsentJson>,
}

impl CheckJson {
    pub(super) fn new(window: &Window) -> CheckJson {
        let (from, to) = window.time_range().map_or((None, None), |(from, to)| (Some(rfc3339(from)), Some(rfc3339(to))));
        CheckJson {
            schema: "stalltop/1",
            host: window.host().map(|host| host.hostname.to_string_lossy()),
            from,
            to,
            verdict: if window.unknown_reason(Severity::Warning).is_some() {
                "unknown"
            } else {
                overall_status(window.worst_severity())
            },
            figures: window.figures(),
            cross_checks: CrossChecksJson::new(window),
            findings: window.findings().into_iter().map(FindingJson::new).collect(),
            absent: window.absent().into_iter().map(|(what, why)| AbsentJson { what, why }).collect(),
        }
    }
}

/// Other measures of the same time; `iowait_ratio` is among the figures.
#[derive(Serialize)]
struct CrossChecksJson {
    psi_io_some_ratio: Option<f64>,
    d_threads: Option<f64>,
    in_flight: Option<f64>,
    run_queue_wait_threads: Option<f64>,
    /// A sentence if iowait or PSI are an artefact
    artefact: Option<String>,
}

impl CrossChecksJson {
    fn new(window: &Window) -> CrossChecksJson {
        let seen = window.cross_checks();
        CrossChecksJson {
            psi_io_some_ratio: seen.and_then(|seen| seen.psi_io_some),
            d_threads: seen.map(|seen| seen.d_threads),
            in_flight: seen.and_then(|seen| seen.in_flight),
            run_queue_wait_threads: seen.and_then(|seen| seen.run_queue_wait),
            artefact: window.artefact(),
        }
    }
}

#[derive(Serialize)]
struct AbsentJson {
    what: &'static str,
    why: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_seen_is_unknown_not_ok() {
        let parsed: serde_json::Value = serde_json::from_str(&check(&Window::default())).unwrap();
        assert_eq!((&parsed["verdict"], &parsed["figures"]["busy_ratio"]), (&"unknown".into(), &serde_json::Value::Null));
    }
}
