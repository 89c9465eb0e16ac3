//! The findings screen: what is wrong now, what was before.

use super::canvas::Canvas;
use super::frame::arrangement;
use super::text::{self, SafeText};
use super::theme::{Ink, sign};
use crate::findings::{Finding, Judged, RULES};
use crate::safe;
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
    if end + 1 < plan.before + plan.list && now + before > 0 {
        canvas.rest(7, end + 1, "Enter: meaning, evidence, what to look at next   o: go to when it began", Ink::Dim);
    }
}

fn finding_lines(state: &State, judged: &Judged, finding: &Finding, canvas: &mut Canvas, y: u16) {
    let zone = &state.setup.zone;
    let ink = Ink::from(finding.severity);
    canvas.text(7, y, 1, sign(finding.severity), ink);
    canvas.text(9, y, 30, title(finding), if finding.until.is_none() { Ink::Bold } else { Ink::Plain });
    let since = text::clock(finding.since.realtime_ns, zone);
    let lasted = finding.until.unwrap_or(judged.interval.at()).seconds_since(finding.since);
    let times = match finding.until {
        None => safe!("since {since} ({})", text::span(lasted)),
        Some(until) => safe!("{since} – {}", text::clock(until.realtime_ns, zone)),
    };
    let sentence = SafeText::of(finding.sentence.clone());
    let x = canvas.rest(40, y, &times, Ink::Dim);
    if finding.until.is_some() {
        canvas.rest(x.max(60) + 2, y, &sentence, Ink::Dim);
    } else {
        let room = canvas.width().saturating_sub(10);
        let lines = usize::from(canvas.height().saturating_sub(y + 1));
        for (y, line) in (y + 1..).zip(text::wrap(sentence.as_str(), usize::from(room), lines)) {
            canvas.rest(9, y, SafeText::of(line), Ink::Plain);
        }
    }
}

/// The rule's heading.
pub fn title(finding: &Finding) -> &'static str {
    RULES.iter().find(|rule| rule.kind == finding.kind).map_or("finding", |rule| rule.title)
}
