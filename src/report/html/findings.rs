//! The findings of a page: a timeline, and the details of each.

use maud::{Markup, html};

use super::axis::TimeAxis;
use super::plot::{PlotContext, css_left};
use super::severity_sign;
use crate::findings::{Finding, Severity, Value};
use crate::report::formatting::printable;
use crate::report::formatting::{duration, format_evidence};
use crate::report::report_data::Mark;
use crate::report::report_data::finding_groups::FindingGroup;

/// Findings in the timeline and in detail at most; the page says how many are left out.
const MAX_TIMELINE_ROWS: usize = 40;
const MAX_FINDINGS: usize = 100;
const MAX_MARKS: usize = 100;
/// Occurrences listed per finding.
const MAX_OCCURRENCES: usize = 50;

/// The least width of a bar and of the space between bars, as fractions of the width.
const MIN_BAR_WIDTH: f64 = 0.002;

/// The timeline: when each finding was active, and the marks.
pub fn timeline(frame: &PlotContext, findings: &[FindingGroup], marks: &[Mark]) -> Markup {
    let time = frame.time;
    html! {
        section.timeline aria-labelledby="timeline" {
            h2 id="timeline" { "What was wrong, and when" }
            @if findings.is_empty() { p { "No finding." } }
            div.lanes {
                ol {
                    @for (index, finding) in findings.iter().take(MAX_TIMELINE_ROWS).enumerate() {
                        @let bars = bars(&finding.findings, time);
                        @let (from, to) = (bars.first().map_or(0.0, |bar| bar.1), bars.last().map_or(1.0, |bar| bar.2));
                        @let side = if from > 0.6 { "before" } else { "after" };
                        li.(finding.severity().as_str()) {
                            a href=(format!("#finding-{index}")) title=(printable(&finding.representative.sentence)) {
                                @for (severity, from, to) in bars {
                                    span.bar.(severity.as_str()) style=(format!("{};width:{:.3}%", css_left(from), (to - from) * 100.0)) {}
                                }
                                span.name.(side) style=(if side == "after" { css_left(from) } else { format!("right:{:.3}%", (1.0 - to) * 100.0) }) {
                                    span.sign { (severity_sign(Some(finding.severity()))) } " " (finding.representative.kind.as_str()) " "
                                    b { (finding.subject()) }
                                    @if finding.findings.len() > 1 { " " small { "×" (finding.findings.len()) } }
                                }
                            }
                        }
                    }
                }
                (frame.overlay.render())
                div.cursor hidden {}
            }
            (frame.time_labels())
            @if findings.len() > MAX_TIMELINE_ROWS { p { "and " (findings.len() - MAX_TIMELINE_ROWS) " more kinds, less severe ones" } }
            @if !marks.is_empty() {
                ul.marks {
                    @for mark in marks.iter().take(MAX_MARKS) { li { time { (time.format_time(mark.at)) } " " (printable(&mark.text)) } }
                    @if marks.len() > MAX_MARKS { li { "and " (marks.len() - MAX_MARKS) " more: --format json has them all" } }
                }
            }
        }
    }
}

/// Bars with begin, end and severity; bars too near to each other are joined.
fn bars(all: &[&Finding], time: &TimeAxis) -> Vec<(Severity, f64, f64)> {
    let mut bars: Vec<(Severity, f64, f64)> = Vec::new();
    for finding in all {
        let from = time.position(finding.since);
        let to = finding.until.map_or(1.0, |until| time.position(until)).max(from + MIN_BAR_WIDTH);
        match bars.last_mut().filter(|(severity, _, end)| *severity == finding.severity && from <= *end + MIN_BAR_WIDTH / 2.0) {
            Some((_, _, end)) => *end = end.max(to),
            None => bars.push((finding.severity, from, to)),
        }
    }
    bars
}

/// Each finding with its evidence.
pub fn findings_section(findings: &[FindingGroup], time: &TimeAxis) -> Markup {
    if findings.is_empty() {
        return html! {};
    }
    html! {
        section aria-labelledby="findings" {
            h2 id="findings" { "Findings, and what they rest on" }
            @for (index, recurring) in findings.iter().take(MAX_FINDINGS).enumerate() {
                @let finding = recurring.representative;
                article.finding.(finding.severity.as_str()) id=(format!("finding-{index}")) {
                    h3 { (severity_sign(Some(finding.severity))) " " (finding.kind.as_str()) " " b { (recurring.subject()) } }
                    @if recurring.findings.len() > 1 {
                        p.when {
                            (recurring.findings.len()) " times, " (duration(recurring.total_seconds(time.end()))) " together; the most severe of them: "
                            (format_time_range(finding, time))
                        }
                    } @else {
                        p.when { (format_time_range(finding, time)) }
                    }
                    p.sentence { (printable(&finding.sentence)) }
                    @if let Some(rule) = finding.kind.rule() { p.meaning { (rule.meaning) } }
                    @for evidence in &finding.evidence {
                        @if let Value::Chain(links) = &evidence.value {
                            ol.chain { @for link in links { li { (printable(&link.what)) " " small { "(" (link.known_by) ")" } } } }
                        }
                    }
                    dl.evidence {
                        @for (label, value) in finding.evidence.iter().filter(|e| !matches!(e.value, Value::Chain(_))).map(format_evidence) {
                            div { dt { (label) } dd { (value) } }
                        }
                    }
                    @if !finding.next.is_empty() {
                        details { summary { "Next steps" } ul { @for next in &finding.next { li { (printable(next)) } } } }
                    }
                    (occurrences(recurring, time))
                }
            }
            @if findings.len() > MAX_FINDINGS { p { "and " (findings.len() - MAX_FINDINGS) " more kinds, less severe ones" } }
        }
    }
}

/// The first occurrences: time and sentence.
fn occurrences(recurring: &FindingGroup, time: &TimeAxis) -> Markup {
    let count = recurring.findings.len();
    if count < 2 {
        return html! {};
    }
    html! {
        details.times {
            summary { "Each time" }
            ul { @for finding in recurring.findings.iter().take(MAX_OCCURRENCES) { li { (format_time_range(finding, time)) ": " (printable(&finding.sentence)) } } }
            @if count > MAX_OCCURRENCES { p { "and " (count - MAX_OCCURRENCES) " times more: --format json has them all" } }
        }
    }
}

fn format_time_range(finding: &Finding, time: &TimeAxis) -> String {
    match finding.until {
        Some(until) => {
            format!(
                "{} to {} ({})",
                time.format_time(finding.since),
                time.format_time(until),
                duration(until.seconds_since(finding.since))
            )
        }
        None => format!("since {}, to the end of the recording", time.format_time(finding.since)),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::findings::{Kind, Subject};
    use crate::sample::Instant;
    use crate::synthetic;

    /// Thousands of short ones in a day are a few hundred bars at most, and one that is far from the others is seen.
    #[test]
    fn what_cannot_be_told_apart_is_one_bar() {
        let at = |second: u64| {
            let ns = second * 1_000_000_000;
            Instant { boottime_ns: ns, monotonic_ns: ns, realtime_ns: i64::try_from(ns).unwrap() }
        };
        let finding = |since: u64, severity: Severity| Finding {
            since: at(since),
            until: Some(at(since + 5)),
            ..synthetic::finding(Kind::SaturatedCore, severity, Subject::Host)
        };
        let time = TimeAxis::new(at(0), at(86_400), false, TimeZone::UTC);
        let bars_of = |all: &[Finding]| bars(&all.iter().collect::<Vec<_>>(), &time);
        let mut all: Vec<Finding> = (0..2000).map(|number| finding(number * 20, Severity::Note)).collect();
        all.push(finding(80_000, Severity::Note));
        let drawn = bars_of(&all);
        assert_eq!(drawn.len(), 2, "{drawn:?}");
        assert!((drawn[0].2 - 0.465).abs() < 0.01 && (drawn[1].1 - 0.926).abs() < 0.001, "{drawn:?}");
        let worse = bars_of(&[finding(0, Severity::Note), finding(60, Severity::Critical)]);
        assert_eq!(worse.iter().map(|bar| bar.0).collect::<Vec<_>>(), [Severity::Note, Severity::Critical]);
    }
}
