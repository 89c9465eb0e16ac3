//! The findings screen: what is wrong now, what was before.

use super::canvas::Canvas;
use super::frame::arrangement;
use super::text::{self, SafeText};
use super::theme::{Ink, sign};
use crate::findings::{Finding, Judged, RULES};
use crate::safe;
use crate::sample::Instant;
use crate::state::layout::Plan;
use crate::state::{Row, State};

pub fn draw(state: &State, judged: &Judged, plan: &Plan, canvas: &mut Canvas) {
    let now = judged.verdict.len();
    let before = state.rows.iter().filter(|row| matches!(row, Row::Before(_))).count();
    canvas.text(0, 0, 10, "FINDINGS", Ink::Heading);
    let words = match (now, before) {
        (0, 0) => "nothing found wrong, now or before".into(),
        (0, before) => safe!("nothing now, {before} before"),
        (now, before) => safe!("{now} now, {before} before"),
    };
    canvas.rest(10, 0, &words, Ink::Plain);
    let range = arrangement(state, plan);
    canvas.right(0, 0, canvas.width(), &range, Ink::Dim);
    let ended: Vec<&Finding> = state.timeline.ended_before(judged.interval.at()).collect();
    let mut headed = None;
    let end = super::list(state, plan, canvas, |canvas, y, row| {
        let (finding, section) = match row {
            Row::Now(at) => (judged.verdict.get(at), "NOW"),
            Row::Before(at) => (ended.get(at).copied(), "BEFORE"),
            _ => (None, ""),
        };
        let Some(finding) = finding else { return };
        if headed != Some(section) {
            canvas.text(0, y, 6, section, Ink::Heading);
            headed = Some(section);
        }
        finding_lines(state, judged, finding, canvas, y);
    });
    if now + before == 0 && state.search().text().is_empty() {
        canvas.rest(0, end + 1, "What 2 of 3 samples show is listed here; what has ended stays, below it.", Ink::Dim);
    }
    if end + 1 < plan.before + plan.list && now + before > 0 {
        const WHOLE: &str = "Enter: meaning, evidence, what to look at next   o: go to when it began";
        const SHORT: &str = "Enter: why   o: when it began";
        let room = usize::from(canvas.width().saturating_sub(7));
        canvas.rest(7, end + 1, if WHOLE.len() <= room { WHOLE } else { SHORT }, Ink::Dim);
    }
}

fn finding_lines(state: &State, judged: &Judged, finding: &Finding, canvas: &mut Canvas, y: u16) {
    let zone = &state.setup.zone;
    let ink = Ink::from(finding.severity);
    canvas.text(7, y, 1, sign(finding.severity), ink);
    let clock = |at: Instant| text::day(at.realtime_ns, zone, state.spans_days()) + &text::clock(at.realtime_ns, zone);
    let since = clock(finding.since);
    let sentence = SafeText::of(finding.sentence.clone());
    let Some(until) = finding.until else {
        let lasted = judged.interval.at().seconds_since(finding.since);
        let end = canvas.text(9, y, TITLE, title(finding), Ink::Bold);
        let x = if canvas.width() >= 80 { 9 + TITLE + 1 } else { end + 2 };
        canvas.rest(x, y, safe!("since {since} ({})", text::span(lasted)), Ink::Dim);
        let room = canvas.width().saturating_sub(10);
        let lines = usize::from(canvas.height().saturating_sub(y + 1));
        for (y, line) in (y + 1..).zip(text::wrap(sentence.as_str(), usize::from(room), lines)) {
            canvas.rest(9, y, SafeText::of(line), Ink::Plain);
        }
        return;
    };
    // One line: where there is no room for both, the sentence says more than the heading.
    let mut x = 9;
    if canvas.width() >= 120 {
        canvas.text(x, y, TITLE, title(finding), Ink::Plain);
        x += TITLE + 1;
    }
    let x = canvas.rest(x, y, safe!("{since} – {}", clock(until)), Ink::Dim);
    canvas.rest(x + 2, y, &sentence, Ink::Plain);
}

/// Cells for a rule's heading.
const TITLE: u16 = 37;

/// The rule's heading.
pub fn title(finding: &Finding) -> &'static str {
    RULES.iter().find(|rule| rule.kind == finding.kind).map_or("finding", |rule| rule.title)
}
