//! The active findings above each screen, and notes on hidden tasks and iowait.

use super::cpu_segments::CpuTimeParts;
use super::finding_time::figures_age;
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::{self, StyleRole};
use crate::findings::{Evaluation, Finding, Severity, cross_checks, headline, incidents};
use crate::interval::Interval;
use crate::safe;
use crate::state::{ClickTarget, Item, Screen, Source, State};
use crate::units::format;

/// The root causes among the active findings in their order, or that there is none.
pub fn draw(state: &State, pane: &mut Pane) {
    let Some(evaluation) = state.current() else { return };
    let (width, lines) = (pane.width(), usize::from(pane.height()));
    // What follows from another finding is only counted: its cause is what to look at.
    let incidents: Vec<&[Finding]> = incidents(&evaluation.active).collect();
    if incidents.is_empty() {
        no_findings(state, pane);
        return;
    }
    // The selected finding has a line: those above it make room where it would not be drawn otherwise.
    let on_overview = state.screen == Screen::Overview;
    let is_selected = |incident: &&[Finding]| {
        on_overview && incident.first().is_some_and(|finding| state.is_selected(&Item::from_finding(finding)))
    };
    let selected = incidents.iter().position(is_selected);
    let first = selected.filter(|&at| laid_out(evaluation, &incidents, 0, width, lines).len() <= at).unwrap_or(0);
    let mut y = 0;
    let shown = laid_out(evaluation, &incidents, first, width, lines);
    let used: usize = shown.iter().map(|sentence| sentence.words.len().max(1)).sum();
    let hidden = incidents.len() - shown.len();
    // Lines that nothing needs name what follows from a finding.
    let mut free = lines.saturating_sub(used + usize::from(hidden > 0));
    for (at, (incident, Sentence { words, worst, more })) in (first..).zip(incidents.iter().skip(first).zip(&shown)) {
        let role = if at == first { StyleRole::Bold } else { StyleRole::Plain };
        let Some((finding, consequences)) = incident.split_first() else { continue };
        // Those that are all named below need no count.
        let recounted = (!consequences.is_empty() && consequences.len() <= free && more.is_none())
            .then(|| wrapped_headline(evaluation, finding, "", room(width), words.len()));
        let words = recounted.as_ref().unwrap_or(words);
        let count = u16::try_from(words.len()).unwrap_or(1);
        let mut block = pane.subarea(0, y, u16::MAX, count);
        for (at, words) in (0..).zip(words) {
            let line = match at {
                0 => SafeLine::new(theme::severity_symbol(*worst), StyleRole::from(*worst)).with(" ", StyleRole::Plain),
                _ => SafeLine::new("  ", StyleRole::Plain),
            };
            block.line(at, line.with(SafeText::sanitize(words.clone()), role));
        }
        if let Some(others) = more {
            block.line_right(0, (safe!(" +{others} (key 6)"), StyleRole::Dim));
        }
        block.on_click(ClickTarget::Item(Item::from_finding(finding)));
        if selected == Some(at) {
            block.highlight_rows(0, count);
        }
        y += count;
        for consequence in consequences.iter().take(free) {
            let mut line = pane.subarea(0, y, u16::MAX, 1);
            line.line(0, consequence_line(evaluation, consequence, width));
            let item = Item::from_finding(consequence);
            if on_overview && state.is_selected(&item) {
                line.highlight_rows(0, 1);
            }
            line.on_click(ClickTarget::Item(item));
            y += 1;
            free -= 1;
        }
    }
    if hidden > 0 && usize::from(y) < lines {
        pane.line(y, (safe!("  +{hidden} more (key 6)"), StyleRole::Dim));
        y += 1;
    }
    iowait_artefact_note(&evaluation.interval, pane, y);
}

/// What follows from the finding above, in a line.
fn consequence_line(evaluation: &Evaluation, finding: &Finding, width: u16) -> SafeLine {
    let sign = theme::severity_symbol(finding.severity);
    let line = SafeLine::new("  ↳ ", StyleRole::Dim).with(sign, StyleRole::from(finding.severity)).with(" ", StyleRole::Plain);
    let room = usize::from(width).saturating_sub(line.width());
    let words = SafeText::sanitize(current_headline(evaluation, finding, room));
    line.with(words, StyleRole::Dim).truncated(usize::from(width))
}

/// The headline, and how old its figures are if the interval does not show the finding at its severity.
fn current_headline(evaluation: &Evaluation, finding: &Finding, cells: usize) -> String {
    let age = figures_age(finding, evaluation.interval.at());
    let age = age.map_or_else(String::new, |age| format!(" ({age} ago)"));
    headline(evaluation, finding, cells.saturating_sub(format::width(&age))) + &age
}

/// The sentence of a finding, in lines.
struct Sentence {
    words: Vec<String>,
    /// Of the finding and of what follows from it
    worst: Severity,
    /// On a single last line: the number of findings that are not shown
    more: Option<usize>,
}

/// The sentences from the finding with this index on, as many as fit.
fn laid_out(evaluation: &Evaluation, incidents: &[&[Finding]], first: usize, width: u16, lines: usize) -> Vec<Sentence> {
    let max_lines = if width >= ROOMY_WIDTH { MAX_LINES } else { usize::MAX };
    let mut shown: Vec<Sentence> = Vec::new();
    let mut used = 0;
    for (at, incident) in incidents.iter().enumerate().skip(first) {
        let (Some((finding, consequences)), worst) = (incident.split_first(), incident.iter().map(|one| one.severity).max())
        else {
            continue;
        };
        let left = lines.saturating_sub(used);
        if left == 0 {
            break;
        }
        let others = incidents.len() - at - 1;
        // The first finding may take all lines but one; the others share the rest.
        let kept = if at == first { others.min(1) } else { others };
        let most = left.saturating_sub(kept).max(1);
        let last = most == left && others + first > 0;
        let more = (last && most == 1).then_some(others + first);
        let cells = more.map_or(room(width), |others| room(width).saturating_sub(safe!(" +{others} (key 6)").width()));
        let words = match most.min(max_lines) {
            1 => single_line(evaluation, finding, consequences.len(), cells, more.is_none()),
            most => wrapped_headline(evaluation, finding, &following(consequences.len()), cells, most),
        };
        used += words.len().max(1);
        shown.push(Sentence { words, worst: worst.unwrap_or(finding.severity), more });
    }
    shown
}

/// Cells of a sentence.
fn room(width: u16) -> usize {
    usize::from(width).saturating_sub(2)
}

/// How many findings follow from one.
fn following(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " (1 more follows from it: key 6)".to_owned(),
        _ => format!(" ({count} more follow from it: key 6)"),
    }
}

/// The headline in one line, and how many findings follow from it, in few words if no clause has to make room for them.
fn single_line(evaluation: &Evaluation, finding: &Finding, consequences: usize, cells: usize, is_alone: bool) -> Vec<String> {
    let words = current_headline(evaluation, finding, cells);
    let few_words = if consequences == 1 { " (1 follows)".to_owned() } else { format!(" ({consequences} follow)") };
    let mut counts = if consequences == 0 { Vec::new() } else { vec![following(consequences), few_words] };
    // Beside the number of other findings a number without a word would be taken for one of those.
    if consequences > 0 && is_alone {
        counts.push(format!(" (+{consequences})"));
    }
    let with_count = counts.into_iter().map(|count| words.clone() + &count);
    let fitting = with_count.filter(|line| format::width(line) <= cells).map(|line| wrap_safe(line, cells, usize::MAX));
    fitting.into_iter().find(|lines| lines.len() == 1).unwrap_or_else(|| wrap_safe(words, cells, 1))
}

/// Lines of one finding, from the width of 80 columns on.
const MAX_LINES: usize = 2;
const ROOMY_WIDTH: u16 = 78;

/// The headline with as many clauses as fit into these lines, and how many findings follow from it.
fn wrapped_headline(evaluation: &Evaluation, finding: &Finding, following: &str, cells: usize, lines: usize) -> Vec<String> {
    longest_wrapped(|room| current_headline(evaluation, finding, room), following, cells, lines)
}

/// The longest words, of those for a number of characters, that fit into these lines. Words may be longer than their number of characters,
/// and fewer characters may have longer words.
fn longest_wrapped(words_for: impl Fn(usize) -> String, following: &str, cells: usize, lines: usize) -> Vec<String> {
    let mut room = cells.saturating_mul(lines.min(MAX_WRAPPED_LINES)).saturating_sub(following.chars().count());
    loop {
        let words = words_for(room);
        let wrapped = wrap_safe(words.clone() + following, cells, usize::MAX);
        if wrapped.len() <= lines {
            return wrapped;
        }
        let shorter = words.chars().count().min(room).saturating_sub(1);
        if shorter == room || words_for(shorter) == words {
            // The first clause alone: it may need the room of the rest.
            return wrap_safe(words, cells, lines);
        }
        room = shorter;
    }
}

/// No headline is longer.
const MAX_WRAPPED_LINES: usize = 16;

fn wrap_safe(words: String, cells: usize, lines: usize) -> Vec<String> {
    text::wrap(SafeText::sanitize(words).as_str(), cells, lines)
}

/// Intervals that an all-clear needs; a finding needs as many.
const MIN_INTERVALS: usize = 2;

/// Share of CPU time that is free from which the all-clear says so.
const MIN_NAMED_FREE: f64 = 0.2;

/// What is said in place of an all-clear while there are too few intervals for one: live of the time since the start, in a recording at
/// its beginning.
pub fn too_early(state: &State) -> Option<&'static str> {
    let is_span = state.playback.span.as_ref().is_some_and(|span| span.intervals > 1);
    let is_first = || state.timeline.position.as_ref().is_some_and(|position| position.index + 1 < MIN_INTERVALS && !is_span);
    match state.setup.source {
        Source::Live => (state.graphs.history.len() < MIN_INTERVALS).then_some("measuring …"),
        Source::Replay { .. } | Source::Pipe { .. } => is_first().then_some("first interval: too early for an all-clear"),
        Source::Host { .. } => None,
    }
}

fn no_findings(state: &State, pane: &mut Pane) {
    let Some(evaluation) = state.current() else { return };
    if let Some(words) = too_early(state) {
        pane.line(0, (safe!("  {words}"), StyleRole::Bold));
        return;
    }
    if state.playback.is_provisional {
        pane.line(0, ("  evaluating …", StyleRole::Bold));
        return;
    }
    let interval = &*evaluation.interval;
    let free = interval.cpu.as_ref().map(|span| CpuTimeParts::new(interval, span).free);
    let words = match free {
        Some(free) if free >= MIN_NAMED_FREE && pane.width() < 60 => {
            safe!("nothing found wrong: {} % is free", text::format_number(free * 100.0, 5))
        }
        Some(free) if free >= MIN_NAMED_FREE => {
            safe!("nothing found wrong: {} % of CPU time is free", text::format_number(free * 100.0, 5))
        }
        Some(_) => "nothing found wrong".into(),
        None => "nothing found wrong in the readable data".into(),
    };
    pane.line(0, SafeLine::new("✔", StyleRole::Good).with(safe!(" {words}"), StyleRole::Bold));
    let mut y = 1;
    if pane.height() > y
        && let Some(limits) = hidden_tasks_note(state)
    {
        pane.line(y, (safe!("  {limits}"), StyleRole::Dim));
        y += 1;
    }
    iowait_artefact_note(&evaluation.interval, pane, y);
}

/// Explains a high iowait that is no problem, if there are rows left.
fn iowait_artefact_note(interval: &Interval, pane: &mut Pane, y: u16) {
    let left = usize::from(pane.height().saturating_sub(y));
    if left == 0 {
        return;
    }
    let Some(words) = cross_checks::current_io_uring_artefact(interval) else { return };
    let room = usize::from(pane.width()).saturating_sub(2);
    for (y, line) in (y..).zip(text::wrap(SafeText::sanitize(words).as_str(), room, left)) {
        pane.line(y, (safe!("  {line}"), StyleRole::Dim));
    }
}

/// Which data this user may not read.
pub fn hidden_tasks_note(state: &State) -> Option<SafeText> {
    let interval = &state.current()?.interval;
    let hidden = interval.newer.tasks.as_ref().ok()?.hidden;
    if hidden.processes {
        let threads = interval.tasks.as_ref().and_then(|tasks| tasks.hidden_threads);
        let subject = threads.map_or("some processes".into(), |threads| {
            safe!("processes with {}", format::plural(threads, "thread", "threads"))
        });
        return Some(safe!("{subject} are hidden (hidepid or a container): needs root on the host"));
    }
    (hidden.wait_channels > 0 && !interval.host.privilege.has_cap_sys_ptrace).then(|| match hidden.wait_channels {
        1 => "the waits of 1 task of another user are hidden (-): needs root".into(),
        tasks => safe!("the waits of {tasks} tasks of other users are hidden (-): needs root"),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn words_that_become_longer_in_less_room_end_the_search() {
        let calls = Cell::new(0);
        // As a sentence whose first clause is left out where there is little room for it.
        let words_for = |room: usize| {
            calls.set(calls.get() + 1);
            assert!(calls.get() < 1000, "the search has no end");
            if room >= 30 {
                "a clause of 30 characters here".to_owned()
            } else {
                "another clause that is longer than it".to_owned()
            }
        };
        for cells in 1..40 {
            for lines in 1..4 {
                calls.set(0);
                let wrapped = longest_wrapped(words_for, " +2", cells, lines);
                assert!(wrapped.len() <= lines, "{cells} cells, {lines} lines: {wrapped:?}");
            }
        }
        calls.set(0);
        assert_eq!(longest_wrapped(words_for, "", 30, 1), ["a clause of 30 characters here"]);
    }
}
