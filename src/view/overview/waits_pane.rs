//! The pane of the chain that explains the first finding: from its tasks to what limits them; of idle-but-blocked the waiting threads, the
//! thread that they wait for, its file, and the device below. Below it what to check next.

use crate::findings::{Evaluation, Kind, WaitChain, describe_named_holder, describe_process_group, wait_chains};
use crate::interval::Interval;
use crate::interval::idle_blocked::kernel_locks::KernelLockGroup;
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::view::deadlock;
use crate::view::finding_time::figures_age;
use crate::view::findings::rule_title;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text;
use crate::view::theme::StyleRole;
use crate::view::wait_chain::{chain_lines, confidence_words, finding_chain_lines};

pub fn draw(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let width = usize::from(pane.width().saturating_sub(2));
    let deadlock = deadlock::reported_lines(evaluation, width);
    if !deadlock.is_empty() {
        let mut inner = pane.framed((WHO_WAITS, StyleRole::Bold), SafeLine::default());
        let next = draw_lines(&mut inner, 0, deadlock);
        next_steps(evaluation, &mut inner, next);
        return;
    }
    let first = evaluation.active.first().filter(|finding| finding.kind != Kind::IdleButBlocked);
    let of_first = first.map(|finding| finding_chain_lines(finding, width)).unwrap_or_default();
    let chains = wait_chains(&evaluation.interval, &evaluation.latency_statuses);
    if !of_first.is_empty() {
        let age = first.and_then(|finding| figures_age(finding, evaluation.interval.at()));
        let note = age.map(|age| safe!("{age} ago")).or_else(|| first.and_then(confidence_words));
        let note = note.map_or_else(SafeLine::default, |note| SafeLine::new(note, StyleRole::Dim));
        let mut inner = pane.framed(("From the tasks to the limit", StyleRole::Bold), note);
        let mut next = draw_lines(&mut inner, 0, of_first);
        if !chains.is_empty() {
            let mut heading = who_waits(state).with("   ", StyleRole::Plain);
            heading.append(confidence_note(&chains));
            inner.line(next, heading);
            next = draw_lines(&mut inner, next + 1, chain_lines(evaluation, width));
        }
        next_steps(evaluation, &mut inner, next);
        return;
    }
    let title = who_waits(state);
    let mut inner = pane.framed(title, confidence_note(&chains));
    if chains.is_empty() {
        let words = text::wrap(&no_chain_words(evaluation), usize::from(inner.width()), 3);
        let lines = words.into_iter().map(|words| SafeLine::new(SafeText::sanitize(words), StyleRole::Dim));
        let next = draw_lines(&mut inner, 0, lines);
        next_steps(evaluation, &mut inner, next);
        return;
    }
    let next = draw_lines(&mut inner, 0, chain_lines(evaluation, width));
    // The chain explains another finding than this one.
    if first.is_some() {
        next_steps(evaluation, &mut inner, next);
    }
}

/// The title of the chains. Sub-samples belong to one interval: of a span to its last one.
fn who_waits(state: &State) -> SafeLine {
    let is_span = state.playback.span.as_ref().is_some_and(|span| span.intervals > 1);
    SafeLine::new(WHO_WAITS, StyleRole::Bold).with(if is_span { ", at its end" } else { "" }, StyleRole::Dim)
}

/// The confidence of the first chain.
fn confidence_note(chains: &[WaitChain]) -> SafeLine {
    let confidence = chains.first().map(|chain| chain.confidence.as_str());
    confidence.map_or_else(SafeLine::default, |word| SafeLine::new(safe!("confidence: {word}"), StyleRole::Dim))
}

const WHO_WAITS: &str = "Who waits for whom";

/// Draws lines from row `y` on. Returns the row after an empty one below them.
fn draw_lines(pane: &mut Pane, y: u16, lines: impl IntoIterator<Item = SafeLine>) -> u16 {
    let mut next = y;
    for (y, line) in (y..pane.height()).zip(lines) {
        pane.line(y, line);
        next = y + 2;
    }
    next
}

/// What is said where no chain is known.
fn no_chain_words(evaluation: &Evaluation) -> String {
    let Some(idle) = &evaluation.interval.idle_blocked else { return "no sub-samples yet".to_owned() };
    let min_threads = evaluation.thresholds().kernel_lock_threads;
    let group = idle.kernel_locks.as_ref().and_then(|locks| locks.groups.first());
    match group.filter(|group| group.threads >= min_threads) {
        Some(group) => kernel_lock_words(&evaluation.interval, group),
        None => "no thread that would run waits for another, a disk or a host".to_owned(),
    }
}

/// `klock (4711): 27 threads in D inside the kernel, behind protector/4720, which runs with the lock held`
fn kernel_lock_words(interval: &Interval, group: &KernelLockGroup) -> String {
    let label = describe_process_group(&group.group, &group.label);
    let behind = group.holder.as_ref().map(|holder| format!(", behind {}", describe_named_holder(interval, holder)));
    format!("{label}: {:.0} threads in D inside the kernel{}", group.threads, behind.unwrap_or_default())
}

/// The next steps of the first finding, from this row on.
fn next_steps(evaluation: &Evaluation, pane: &mut Pane, y: u16) {
    let Some(finding) = evaluation.active.first().filter(|finding| !finding.next.is_empty()) else { return };
    pane.line(y, SafeLine::new("Next steps: ", StyleRole::Bold).with(rule_title(finding), StyleRole::Plain));
    let room = usize::from(pane.width()).saturating_sub(2);
    let lines = finding.next.iter().flat_map(|next| {
        let wrapped = text::wrap(next, room, usize::MAX).into_iter().enumerate();
        wrapped.map(|(at, line)| safe!("{} {line}", if at == 0 { "•" } else { " " })).collect::<Vec<_>>()
    });
    for (y, line) in (y + 1..pane.height()).zip(lines) {
        pane.line(y, (&line, StyleRole::Plain));
    }
}
