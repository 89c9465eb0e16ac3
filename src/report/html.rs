//! A recording as one self-contained HTML page: no network, no other file.
//!
//! maud escapes all text: nothing from a recording becomes markup.

mod axis;
mod findings;
mod flame_graph;
mod latency_map;
mod overlay;
mod plot;

use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::formatting::overall_status;
use super::formatting::printable;
use super::formatting::{duration, pluralize, three_digits};
use super::report_data::commands::CommandUsage;
use super::report_data::finding_groups::FindingGroup;
use super::report_data::{Chart, ReportData};
use crate::findings::Severity;
use crate::report::report_data::series_definitions::ChartUnit;
use axis::TimeAxis;
use overlay::Overlay;
use plot::PlotContext;

/// The source of a report.
#[derive(Clone, Debug)]
pub struct ReportSource {
    /// The recording's file name
    pub file: String,
    /// The version of stalltop that recorded it
    pub recorder_version: String,
    pub samples: usize,
    /// The time zone of times of day
    pub zone: TimeZone,
}

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The page loads nothing.
const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The note below the table of commands.
pub const COMMANDS_NOTE: &str =
    "Means over the recording: CPUs in use, and threads waiting for a CPU (run queue), on storage, behind a lock.";

/// Charts and rows at most; the page says how many are left out.
const MAX_DISKS: usize = 12;
const MAX_NICS: usize = 8;
const MAX_COMMANDS: usize = 20;
const MAX_GAPS: usize = 50;

/// The whole page; `None` with less than two samples.
pub fn render(data: &ReportData, origin: &ReportSource) -> Option<String> {
    let (from, to) = data.window.time_range()?;
    let time = TimeAxis::new(from, to, data.window.spans_boots(), origin.zone.clone());
    let frame = PlotContext { time: &time, steps: data.steps(), overlay: Overlay::new(&time, &data.gaps, &data.marks) };
    let findings = FindingGroup::group_by_subject(&data.window.findings(), to);
    let host = data.window.host().map_or_else(String::new, |host| printable(&host.hostname.to_string_lossy()));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_SECURITY_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (host) " · " (time.format_date_time(from)) " · stalltop" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main data-moments=(plot::step_times_json(data.steps(), &time)) {
                    (header(data, origin, &time, &host))
                    (verdict_banner(data, &findings))
                    (figure_tiles(data))
                    (findings::timeline(&frame, &findings, &data.marks))
                    (charts_section(&frame, data))
                    (commands_section(&data.top_commands(MAX_COMMANDS), time.seconds()))
                    (flame_graph::section(&data.stacks))
                    (findings::findings_section(&findings, &time))
                    (missing_section(data, &time))
                    (footer(data, origin, &time))
                }
                p.now aria-live="polite" {}
                (svg_patterns())
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    Some(page.into_string() + "\n")
}

fn header(data: &ReportData, origin: &ReportSource, time: &TimeAxis, host: &str) -> Markup {
    let kernel = data.window.host().map(|host| printable(&host.kernel.to_string_lossy()));
    let cpus = data.window.figures().cpus;
    html! {
        header {
            p.program { "stalltop report" }
            h1 { (host) }
            p.facts {
                @if let Some((from, to)) = data.window.time_range() {
                    span { (time.format_date_time(from)) " to " (time.format_time(to)) " (" (duration(time.seconds())) ")" }
                }
                span { (pluralize(cpus, "CPU")) }
                @if let Some(kernel) = kernel { span { "Linux " (kernel) } }
                span { (pluralize(origin.samples as u64, "sample")) }
                span { (printable(&origin.file)) }
            }
        }
    }
}

/// The overall status and the sentence of the worst finding.
fn verdict_banner(data: &ReportData, findings: &[FindingGroup]) -> Markup {
    let worst = data.window.worst_severity();
    let problems = findings.iter().filter(|finding| finding.severity() > Severity::Note).count();
    let foremost = findings.first().map(|worst| worst.representative).filter(|finding| finding.severity > Severity::Note);
    html! {
        section.verdict.(overall_status(worst)) aria-label="Verdict" {
            p.word { (severity_sign(worst)) " " (overall_status(worst)) }
            @match foremost {
                Some(finding) => {
                    p.sentence { (printable(&finding.sentence)) }
                    @if problems > 1 { p.more { "and " (problems - 1) " more below" } }
                }
                None => p.sentence { (data.window.no_problem_sentence().unwrap_or_default()) "." },
            }
        }
    }
}

/// Patterns for idle-but-blocked and for gaps, which are distinct without colours.
fn svg_patterns() -> Markup {
    html! {
        svg.patterns width="0" height="0" aria-hidden="true" {
            defs {
                pattern id="blocked" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)" {
                    rect.pattern-ground width="6" height="6" {}
                    path.pattern d="M0 3H6" {}
                }
                pattern id="gap" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)" {
                    path.missing d="M0 2H5" {}
                }
            }
        }
    }
}

fn figure_tiles(data: &ReportData) -> Markup {
    let figures = data.window.figures();
    let percent = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| ChartUnit::Ratio.format(ratio));
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
    let is_blocked = figures.idle_but_blocked_ratio.is_some_and(|ratio| ratio >= data.blocked_ratio);
    let bound = if figures.idle_but_blocked_is_lower_bound { "≥ " } else { "" };
    html! {
        dl.tiles {
            div { dt { "busy" } dd { (percent(figures.busy_ratio)) } }
            div.blocked[is_blocked] { dt { "idle but blocked" } dd { (bound) (percent(figures.idle_but_blocked_ratio)) } }
            div { dt { "free" } dd { (percent(figures.free_ratio)) } }
            div { dt { "iowait says" } dd { (percent(figures.iowait_ratio)) } }
            div { dt { "load average" } dd { (number(figures.load1)) small { "now " (number(figures.running)) " running, " (number(figures.blocked)) " in D" } } }
            div { dt { "threads blocked" } dd { (number(figures.blocked_threads)) } }
        }
    }
}

fn charts_section(frame: &PlotContext, data: &ReportData) -> Markup {
    let (mut disks, mut nics) = (0, 0);
    let shown: Vec<Chart> = data
        .charts()
        .into_iter()
        .filter(|chart| {
            let (count, most) = match () {
                () if chart.id.starts_with("disk-") => (&mut disks, MAX_DISKS),
                () if chart.id.starts_with("nic-") => (&mut nics, MAX_NICS),
                () => return true,
            };
            *count += 1;
            *count <= most
        })
        .collect();
    let left_out = |count: usize, most: usize, what: &str| {
        let more = count.saturating_sub(most);
        (more > 0).then(|| match more {
            1 => format!("1 more {what} did less, and is not drawn."),
            more => format!("{more} more {what}s did less, and are not drawn."),
        })
    };
    let maps = latency_map::render_all(frame, data, &shown);
    html! {
        section aria-labelledby="charts" {
            h2 id="charts" { "Over time" }
            @for (index, chart) in shown.iter().enumerate() {
                (frame.render_chart(chart))
                @for drawn in maps.drawn.iter().filter(|drawn| drawn.chart == index) { (drawn.markup) }
                @if maps.drawn.last().is_some_and(|last| last.chart == index) { (maps.notes(frame)) }
            }
            @if maps.drawn.is_empty() { (maps.notes(frame)) }
            @for words in [left_out(disks, MAX_DISKS, "disk"), left_out(nics, MAX_NICS, "interface")].iter().flatten() {
                p { (words) }
            }
        }
    }
}

fn commands_section(commands: &[&CommandUsage], seconds: f64) -> Markup {
    let threads = |thread_seconds: f64| three_digits(thread_seconds / seconds.max(1e-9));
    let shown: Vec<&&CommandUsage> = commands.iter().filter(|command| command.is_visible(seconds)).collect();
    html! {
        section aria-labelledby="commands" {
            h2 id="commands" { "CPU time and wait time by command" }
            div.wide {
                table {
                    thead {
                        tr {
                            th scope="col" { "command" }
                            th scope="col" { "processes" }
                            th scope="col" { "CPUs" } th scope="col" { "CPUs, peak" } th scope="col" { "CPU time" }
                            th scope="col" { "run queue" } th scope="col" { "disk" } th scope="col" { "lock" }
                        }
                    }
                    tbody {
                        @for command in shown {
                            tr {
                                th scope="row" { (printable(&command.name.to_string_lossy())) }
                                td { (command.processes) }
                                td { (threads(command.cpu_seconds)) } td { (three_digits(command.peak_cpus)) }
                                td { (duration(command.cpu_seconds)) }
                                td { (threads(command.run_queue_seconds)) }
                                td { (threads(command.disk_seconds)) } td { (threads(command.lock_seconds)) }
                            }
                        }
                    }
                }
            }
            p.note { (COMMANDS_NOTE) " Processes: the most that were active in one interval." }
        }
    }
}

/// Readings and samples that are missing.
fn missing_section(data: &ReportData, time: &TimeAxis) -> Markup {
    let absent = data.window.absent();
    if absent.is_empty() && data.gaps.is_empty() && data.truncation.is_none() {
        return html! {};
    }
    html! {
        section aria-labelledby="missing" {
            h2 id="missing" { "What is missing" }
            ul {
                @for gap in data.gaps.iter().take(MAX_GAPS) {
                    li { (gap.format_range(|at| time.format_time(at))) ": " (pluralize(gap.missing_samples, "sample")) ": " (printable(&gap.reason)) }
                }
                @if data.gaps.len() > MAX_GAPS { li { "and " (data.gaps.len() - MAX_GAPS) " more: --format json has them all" } }
                @if let Some(cut) = data.truncation { li { "the end: " (cut) } }
                @for (what, why) in &absent { li { (what) ": " (why) } }
            }
        }
    }
}

fn footer(data: &ReportData, origin: &ReportSource, time: &TimeAxis) -> Markup {
    let each = data.steps().intervals_per_step();
    let zone = time.zone.iana_name().unwrap_or("local time");
    html! {
        footer {
            p {
                @if each == 1 { "Each flat piece of a line is one interval between two samples. " }
                @else {
                    "This recording has " (data.intervals()) " intervals: each flat piece of a line is the mean of " (each)
                    " of them, and the lighter band above it (the thin line above the layers) reaches to the highest of them. "
                }
                "Hatched bands are time that was not recorded. Times of day are those of " (zone) "."
            }
            p { "Point at a chart, or focus it and use the arrow keys, to read its values; a click holds them, and the address then leads there." }
            p { "Recorded by stalltop " (printable(&origin.recorder_version)) ", reported by stalltop " (env!("CARGO_PKG_VERSION")) ". 'stalltop replay " (printable(&origin.file)) "' shows every moment." }
        }
    }
}

fn severity_sign(severity: Option<Severity>) -> &'static str {
    match severity {
        None => "✓",
        Some(Severity::Note) => "•",
        Some(Severity::Warning) => "▲",
        Some(Severity::Critical) => "✖",
    }
}
