//! The details page of a finding: wait chains, meaning, next steps, evidence over time, cross-checks, rule.

use super::entry::{Plot, graph_width};
use super::page::Page;
use super::table::{PageTable, number, words};
use super::{cross_checks, finding_items};
use crate::baseline::LatencyStatus;
use crate::findings::{
    Evaluation, Evidence, EvidenceUnit, Finding, Kind, Subject, Value, holder_line, user_holder_line, wait_chains,
};
use crate::ids::DiskId;
use crate::interval::Interval;
use crate::interval::disk::Operation;
use crate::safe;
use crate::state::State;
use crate::state::history::IntervalSummary;
use crate::view::deadlock;
use crate::view::finding_time::finding_time;
use crate::view::safe_text::SafeText;
use crate::view::text::{format_number, format_optional};
use crate::view::theme::{StyleRole, severity_symbol};
use crate::view::wait_chain::{chain_lines, confidence_words, finding_chain_lines};

/// Evidence that has a section of its own
const HOLDER_STACK: &str = "holder_stack";
const KERNEL_STACK: &str = "kernel_stack";
const HOLDER_USER_STACK: &str = "holder_user_stack";
const USER_STACK: &str = "user_stack";

/// The page of a finding.
pub fn page(state: &State, evaluation: &Evaluation, finding: &Finding, page: &mut Page) {
    let rule = finding.kind.rule();
    let title = rule.map_or("finding", |rule| rule.title);
    let when = finding_time(state, finding, evaluation.interval.at());
    page.line(0, safe!("{} {title}   {when}", severity_symbol(finding.severity)), StyleRole::from(finding.severity));
    page.paragraph(2, &SafeText::sanitize(finding.sentence.clone()), StyleRole::Bold);
    if let Some(cause) = finding.follows_from.as_ref().and_then(|cause| cause.kind.rule()) {
        page.line(2, safe!("Follows from: {} ({})", cause.title, cause.kind.as_str()), StyleRole::Plain);
    }
    explanation(evaluation, finding, page);
    figures(state, evaluation, finding, page);
    finding_items::section(&evaluation.interval, finding, page);
    if let Some(rule) = rule {
        page.heading("THE RULE");
        page.line(2, safe!("{}", rule.kind.as_str()), StyleRole::Dim);
        page.paragraph(2, &rule.computed.into(), StyleRole::Dim);
        page.heading("WHEN IT IS WRONG");
        page.paragraph(2, &rule.caveats.into(), StyleRole::Dim);
    }
}

/// Wait chains, meaning and next steps.
pub fn explanation(evaluation: &Evaluation, finding: &Finding, page: &mut Page) {
    if is_active_blocking(finding) {
        chain_section(evaluation, page);
        page.heading("MEANING");
    }
    let deadlock = deadlock::lines_of_finding(&evaluation.interval, finding, usize::from(page.width.saturating_sub(2)));
    if !deadlock.is_empty() {
        page.heading("WHO WAITS FOR WHOM");
        deadlock.iter().cloned().for_each(|line| page.styled(2, line));
        confidence(finding, page);
        page.heading("MEANING");
    }
    if !is_active_blocking(finding) && deadlock.is_empty() {
        let drawn = finding_chain_lines(finding, usize::from(page.width.saturating_sub(2)));
        if !drawn.is_empty() {
            page.heading("FROM THE TASKS TO THE LIMIT");
            drawn.into_iter().for_each(|line| page.styled(2, line));
            confidence(finding, page);
            page.heading("MEANING");
        }
    }
    if let Some(rule) = finding.kind.rule() {
        page.paragraph(2, &rule.meaning.into(), StyleRole::Plain);
    }
    next_steps(finding, page);
    stacks(&evaluation.interval, finding, page);
}

/// Evidence over time and now, cross-checks.
pub fn figures(state: &State, evaluation: &Evaluation, finding: &Finding, page: &mut Page) {
    evidence_graph(state, evaluation, finding, page);
    cross_checks::section(evaluation, finding, page);
    if finding.kind == Kind::ShortLivedProcesses && finding.until.is_none() {
        short_lived(&evaluation.interval, page);
    }
    if !finding.evidence.is_empty() {
        page.heading("EVIDENCE");
        let of_page = |evidence: &&Evidence| {
            !matches!(evidence.value, Value::Chain(_))
                && ![HOLDER_STACK, KERNEL_STACK, HOLDER_USER_STACK, USER_STACK].contains(&evidence.name)
        };
        for evidence in finding.evidence.iter().filter(of_page) {
            let (label, value) = evidence_text(evidence);
            page.labelled(label, value);
        }
    }
}

fn is_active_blocking(finding: &Finding) -> bool {
    finding.kind == Kind::IdleButBlocked && finding.until.is_none()
}

/// Next steps, above all numbers.
fn next_steps(finding: &Finding, page: &mut Page) {
    if finding.next.is_empty() {
        return;
    }
    page.heading("NEXT STEPS");
    for next in &finding.next {
        page.paragraph(2, &safe!("• {next}"), StyleRole::Plain);
    }
}

/// A graph of the finding's value, with a line at the threshold.
fn evidence_graph(state: &State, evaluation: &Evaluation, finding: &Finding, page: &mut Page) {
    let columns = state.page_columns(graph_width(page.width));
    let disk = disk_and_baseline(evaluation, finding);
    let value = |summary: &IntervalSummary| {
        let times = disk.and_then(|(id, operation, baseline)| Some(summary.disk_await(id, operation)? / baseline));
        summary.finding_value(finding).or(times)
    };
    let values = columns.nearby(value, |&value| value);
    if values.iter().flatten().count() < 2 {
        return;
    }
    let most = values.iter().flatten().copied().fold(0.0_f32, f32::max).max(finding.threshold as f32 * 1.2);
    let top = if finding.value_unit() == EvidenceUnit::Ratio && most <= 1.0 { most.min(1.0) } else { most };
    // Both labels are in the same unit.
    let label = |value: f64| match finding.value_unit() {
        EvidenceUnit::Ratio if top > 1.5 => safe!("{}×", format_number(value, 5)),
        unit => safe!("{}", unit.format(value)),
    };
    page.heading("OVER TIME");
    page.plot(
        state,
        &columns,
        Plot {
            values,
            threshold: Some(finding.threshold as f32),
            max: top,
            max_label: label(f64::from(top)),
            threshold_label: label(finding.threshold),
            height: 5,
            role_above_threshold: StyleRole::from(finding.severity),
        },
    );
}

/// Of a latency finding about the mean: disk, operation and baseline, from which earlier multiples are computed.
fn disk_and_baseline(evaluation: &Evaluation, finding: &Finding) -> Option<(DiskId, Operation, f32)> {
    let (Kind::DiskLatency, Subject::Disk { id, .. }) = (finding.kind, &finding.subject) else { return None };
    let word = |name: &str| {
        finding.evidence.iter().find_map(|evidence| match &evidence.value {
            Value::Text(word) if evidence.name == name => Some(word.as_bytes()),
            _ => None,
        })
    };
    // The value of a tail is no multiple of await.
    let word = word("operation").filter(|_| word("measure").is_none())?;
    let of = |status: &&LatencyStatus| status.disk == *id && status.operation.plural().as_bytes() == word;
    let status = evaluation.latency_statuses.iter().find(of)?;
    Some((*id, status.operation, status.baseline.0 as f32)).filter(|disk| disk.2 > 0.0)
}

/// Label and value of evidence.
fn evidence_text(evidence: &Evidence) -> (SafeText, SafeText) {
    let value = match &evidence.value {
        Value::Number(number) => safe!("{}", evidence.unit().format(*number)),
        Value::Text(name) => SafeText::from_name(name),
        // Chains have a section of their own.
        Value::Chain(_) | Value::Unknown => "-".into(),
    };
    (safe!("{}", evidence.label()), value)
}

/// Wait chains as on the overview, with their confidence.
fn chain_section(evaluation: &Evaluation, page: &mut Page) {
    page.heading("WHO WAITS FOR WHOM");
    for line in chain_lines(evaluation, usize::from(page.width.saturating_sub(2))) {
        page.styled(2, line);
    }
    if let Some(chain) = wait_chains(&evaluation.interval, &evaluation.latency_statuses).first() {
        page.line(2, safe!("confidence: {}", chain.confidence.as_str()), StyleRole::Dim);
    }
}

fn confidence(finding: &Finding, page: &mut Page) {
    if let Some(words) = confidence_words(finding) {
        page.line(2, words, StyleRole::Dim);
    }
}

/// The stacks of the thread at the end of the first chain; of other findings those in their evidence.
fn stacks(interval: &Interval, finding: &Finding, page: &mut Page) {
    let group = interval.idle_blocked.as_ref().and_then(|blocked| blocked.groups.first());
    let of_evidence = |of_holder: &str, of_thread: &str| {
        finding.evidence.iter().find_map(|evidence| match &evidence.value {
            Value::Text(stack) if evidence.name == of_holder => Some(format!("holder: {}", stack.to_string_lossy())),
            Value::Text(stack) if evidence.name == of_thread => Some(stack.to_string_lossy()),
            _ => None,
        })
    };
    let (kernel, user) = match is_active_blocking(finding) {
        true => {
            (group.and_then(|group| holder_line(interval, group)), group.and_then(|group| user_holder_line(interval, group)))
        }
        false => (of_evidence(HOLDER_STACK, KERNEL_STACK), of_evidence(HOLDER_USER_STACK, USER_STACK)),
    };
    for (heading, line) in [("KERNEL STACK", kernel), ("USER STACK", user)] {
        if let Some(line) = line {
            page.heading(heading);
            page.paragraph(2, &SafeText::sanitize(line), StyleRole::Plain);
        }
    }
}

/// Processes that ended between samples, by parent and name.
fn short_lived(interval: &Interval, page: &mut Page) {
    let Some(short) = interval.short_lived.as_ref().filter(|short| !short.groups.is_empty()) else { return };
    page.heading("SHORT-LIVED PROCESSES");
    let mut table = PageTable::new([number("ended/s", 8), number("CPUs", 6), words("parent", 0)]);
    for family in short.groups.iter().take(12) {
        let of = match family.owner {
            Some(id) => safe!("{} ({})", SafeText::from_name(&family.owner_name), id.pid),
            None => "an exited parent".into(),
        };
        let whose = match &family.name {
            Some(name) if family.are_threads => safe!("threads {} of {of}", SafeText::from_name(name)),
            Some(name) => safe!("{of} → {}", SafeText::from_name(name)),
            None => safe!("children of {of}"),
        };
        let rate = safe!("{}", format_optional(family.rate.map(|rate| rate.0), 6));
        table.push([rate, safe!("{}", format_number(family.cpus, 5)), whose], StyleRole::Plain);
    }
    page.table(table);
}
