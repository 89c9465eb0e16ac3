//! The pane of wait chains: the waiting threads, the thread that they wait for, its file, and the device below.

use crate::findings::{Evaluation, wait_chains};
use crate::safe;
use crate::state::State;
use crate::state::layout::ScreenLayout;
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
    let mut inner = pane.framed(("Who waits for whom", StyleRole::Bold), note);
    if chains.is_empty() {
        let words = match &evaluation.interval.idle_blocked {
            Some(_) => "no thread that would run waits for another, a disk or a host",
            None => "no sub-samples yet",
        };
        for (y, line) in (0..inner.height()).zip(text::wrap(words, usize::from(inner.width()), 3)) {
            inner.line(y, (SafeText::sanitize(line), StyleRole::Dim));
        }
        return;
    }
    let lines = chain_lines(evaluation, usize::from(inner.width()));
    for (y, line) in (0..inner.height()).zip(lines) {
        inner.line(y, line);
    }
}
