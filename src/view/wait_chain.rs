//! Wait chains as drawn lines: the waiting threads, the thread that they wait for, its file, and the device below.

use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text::{self, format_number};
use super::theme::StyleRole;
use crate::findings::{CHAIN_CONFIDENCE, ChainLink, Evaluation, Finding, Value, WaitChain, wait_chains};
use crate::safe;
use crate::units::format::{fitting_end, width};

/// Cells by which each link is indented below the one before, and the deepest that is.
const INDENT: usize = 3;
const MAX_DEPTH: usize = 6;

/// A line shorter than this says nothing.
const MIN_WIDTH: usize = 12;

/// The most blocked groups, each with the links to what it waits for and how each link is known.
pub fn chain_lines(evaluation: &Evaluation, width: usize) -> Vec<SafeLine> {
    wait_chains(&evaluation.interval, &evaluation.latency_statuses).into_iter().flat_map(|chain| lines(chain, width)).collect()
}

/// A link that is a file: the end of a path that does not fit into a line, without its mount.
fn end_of_path(what: String, cells: usize) -> String {
    const FILE: &str = "file ";
    let Some(path) = what.strip_prefix(FILE).filter(|_| width(&what) > cells) else { return what };
    let path = path.split(", on ").next().unwrap_or(path);
    let room = cells.saturating_sub(FILE.len() + 1);
    match fitting_end(path, room) {
        end if end == path => format!("{FILE}{path}"),
        end => format!("{FILE}…{end}"),
    }
}

fn lines(chain: WaitChain, width: usize) -> Vec<SafeLine> {
    let label = SafeLine::new(SafeText::sanitize(chain.group_label), StyleRole::Bold);
    let threads = format_number(chain.threads, 4);
    let (long, short) = (safe!("   {threads} threads blocked on average"), safe!("   {threads} blocked"));
    let blocked = if label.width() + long.width() <= width { long } else { short };
    let mut lines = vec![label.with(blocked, StyleRole::Plain)];
    lines.extend(link_lines(chain.links, width));
    lines
}

/// The chain in the evidence of a finding, from its tasks to what limits them; empty for a finding without one.
pub fn finding_chain_lines(finding: &Finding, width: usize) -> Vec<SafeLine> {
    let of_finding = finding.evidence.iter().find_map(|evidence| match &evidence.value {
        Value::Chain(links) => links.split_first(),
        _ => None,
    });
    let Some((first, rest)) = of_finding else { return Vec::new() };
    let what = text::wrap(&first.what, width, usize::MAX);
    let one_line = what.len() == 1;
    let mut lines: Vec<SafeLine> =
        what.into_iter().map(|words| SafeLine::new(SafeText::sanitize(words), StyleRole::Bold)).collect();
    let known = safe!("  ({})", SafeText::sanitize(first.known_by.to_string()));
    if let Some(line) = lines.first_mut().filter(|line| one_line && line.width() + known.width() <= width) {
        line.push(known, StyleRole::Dim);
    }
    lines.extend(link_lines(rest.to_vec(), width));
    lines
}

/// `confidence: high`: how sure the chain in the evidence of a finding is; `None` where that does not say it.
pub fn confidence_words(finding: &Finding) -> Option<SafeText> {
    let word = finding.evidence.iter().find(|evidence| evidence.name == CHAIN_CONFIDENCE)?;
    let Value::Text(word) = &word.value else { return None };
    Some(safe!("confidence: {}", SafeText::from_name(word)))
}

/// Each link below the one before, further to the right.
fn link_lines(links: Vec<ChainLink>, width: usize) -> Vec<SafeLine> {
    let mut lines = Vec::new();
    for (depth, link) in links.into_iter().enumerate() {
        let indent = 1 + INDENT * depth.min(MAX_DEPTH);
        let room = width.saturating_sub(indent + INDENT);
        if room < MIN_WIDTH {
            break;
        }
        let what = SafeText::sanitize(end_of_path(link.what, room));
        let known = safe!("  ({})", link.known_by);
        let fits = what.width() + known.width() <= room;
        for (at, words) in text::wrap(what.as_str(), room, usize::MAX).into_iter().enumerate() {
            let mut line = SafeLine::new(SafeText::blanks(indent), StyleRole::Plain);
            line.push(if at == 0 { "└▶ " } else { "   " }, StyleRole::Blocked);
            line.push(SafeText::sanitize(words), StyleRole::Plain);
            if fits {
                line.push(known.clone(), StyleRole::Dim);
            }
            lines.push(line);
        }
    }
    lines
}
