//! The pane of wait chains: the waiting threads, the thread that they wait for, its file, and the device below. Without one, what to
//! check next for the first finding.

use crate::findings::{Evaluation, Kind, describe_named_holder, describe_process_group, wait_chains};
use crate::interval::Interval;
use crate::interval::idle_blocked::kernel_locks::KernelLockGroup;
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
use crate::view::deadlock;
use crate::view::findings::rule_title;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text;
use crate::view::theme::StyleRole;
use crate::view::wait_chain::chain_lines;

pub fn draw(_: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let chains = wait_chains(&evaluation.interval, &evaluation.latency_statuses);
    let confidence = chains.first().map(|chain| chain.confidence.as_str());
    let note = confidence.map_or_else(SafeLine::default, |word| SafeLine::new(safe!("confidence: {word}"), StyleRole::Dim));
    let deadlock = deadlock::reported_lines(evaluation, usize::from(pane.width().saturating_sub(2)));
    let note = if deadlock.is_empty() { note } else { SafeLine::default() };
    let mut inner = pane.framed(("Who waits for whom", StyleRole::Bold), note);
    if !deadlock.is_empty() {
        let mut next = 0;
        for (y, line) in (0..inner.height()).zip(deadlock) {
            inner.line(y, line);
            next = y + 2;
        }
        next_steps(evaluation, &mut inner, next);
        return;
    }
    if chains.is_empty() {
        let min_threads = evaluation.thresholds().kernel_lock_threads;
        let words = match &evaluation.interval.idle_blocked {
            Some(idle) => match idle
                .kernel_locks
                .as_ref()
                .and_then(|locks| locks.groups.first().filter(|group| group.threads >= min_threads))
            {
                Some(group) => kernel_lock_words(&evaluation.interval, group),
                None => "no thread that would run waits for another, a disk or a host".to_owned(),
            },
            None => "no sub-samples yet".to_owned(),
        };
        let mut y = 0;
        for line in text::wrap(&words, usize::from(inner.width()), 3) {
            inner.line(y, (SafeText::sanitize(line), StyleRole::Dim));
            y += 1;
        }
        next_steps(evaluation, &mut inner, y + 1);
        return;
    }
    let mut next = 0;
    for (y, line) in (0..inner.height()).zip(chain_lines(evaluation, usize::from(inner.width()))) {
        inner.line(y, line);
        next = y + 2;
    }
    // The chain explains another finding than this one.
    if evaluation.active.first().is_some_and(|finding| finding.kind != Kind::IdleButBlocked) {
        next_steps(evaluation, &mut inner, next);
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
