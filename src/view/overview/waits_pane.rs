//! The pane of wait chains: the waiting threads, the thread that they wait for, its file, and the device below.

use crate::findings::{Evaluation, wait_chains};
use crate::safe;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text::{self, format_number};
use crate::view::theme::StyleRole;

pub fn draw(evaluation: &Evaluation, pane: &mut Pane) {
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
    let mut y = 0;
    for chain in chains {
        let head = SafeLine::new(SafeText::sanitize(chain.group_label), StyleRole::Bold)
            .with(safe!("   {} threads blocked", format_number(chain.threads, 4)), StyleRole::Plain);
        inner.line(y, head);
        y += 1;
        for (depth, link) in (0_u16..).zip(chain.links) {
            let indent = 1 + 3 * depth.min(6);
            let room = usize::from(inner.width().saturating_sub(indent + 3));
            let left = usize::from(inner.height().saturating_sub(y));
            if left == 0 || room < 12 {
                return;
            }
            let what = SafeText::sanitize(link.what);
            let known = safe!("  ({})", link.known_by);
            let fits = what.width() + known.width() <= room;
            for (at, words) in text::wrap(what.as_str(), room, left).into_iter().enumerate() {
                let mut line = SafeLine::new(SafeText::blanks(usize::from(indent)), StyleRole::Plain);
                line.push(if at == 0 { "└▶ " } else { "   " }, StyleRole::Blocked);
                line.push(SafeText::sanitize(words), StyleRole::Plain);
                if fits {
                    line.push(known.clone(), StyleRole::Dim);
                }
                inner.line(y, line);
                y += 1;
            }
        }
    }
}
