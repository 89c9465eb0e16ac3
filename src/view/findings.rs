//! The findings screen: active and ended findings. On large terminals the selected one is explained below.
//!
//! ```text
//! active and ended findings
//! explanation: wait chains, meaning, next steps      evidence over time
//! ```

use super::ScreenView;
use super::active_findings::too_early;
use super::details;
use super::displayed_time;
use super::finding_time::finding_time;
use super::list::{VisibleRow, list_end, list_status, visible_rows};
use super::pane::Pane;
use super::safe_line::SafeLine;
use super::safe_text::SafeText;
use super::text;
use super::theme::{StyleRole, severity_symbol};
use crate::findings::{Evaluation, Finding};
use crate::safe;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, State};

pub const SCREEN: ScreenView = ScreenView { draw, panes: &[list_pane, explanation_pane, evidence_pane] };

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    pane.line(0, SafeLine::new("FINDINGS  ", StyleRole::Heading).with(numbers(state, evaluation), StyleRole::Plain));
    let range = list_status(state, layout);
    pane.line_right(0, (&range, StyleRole::Dim));
    draw_list(state, evaluation, layout, pane);
}

fn list_pane(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let title = SafeLine::new("Findings", StyleRole::Bold).with(safe!(", {}", numbers(state, evaluation)), StyleRole::Plain);
    let range = list_status(state, layout);
    draw_list(state, evaluation, layout, &mut pane.framed(title, (&range, StyleRole::Dim)));
}

/// Wait chains, meaning and next steps of the selected finding.
fn explanation_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let Some(finding) = selected_finding(state, evaluation) else { return };
    let title = SafeLine::new(rule_title(finding), StyleRole::Bold);
    let mut inner = pane.framed(title, ("Enter: its page", StyleRole::Dim));
    details::draw_beginning(&mut inner, |page| details::finding::explanation(evaluation, finding, page));
}

/// Its evidence.
fn evidence_pane(state: &State, evaluation: &Evaluation, _: &ScreenLayout, pane: &mut Pane) {
    let Some(finding) = selected_finding(state, evaluation) else { return };
    let mut inner = pane.framed(("Evidence", StyleRole::Bold), SafeLine::default());
    details::draw_beginning(&mut inner, |page| details::finding::figures(state, evaluation, finding, page));
}

/// How many findings there are.
fn numbers(state: &State, evaluation: &Evaluation) -> SafeText {
    let now = evaluation.active.len();
    let before = state.rows().iter().filter(|row| matches!(row, Row::EndedFinding(_))).count();
    match (now, before) {
        (0, 0) if let Some(words) = too_early(state) => words.into(),
        (0, 0) if state.playback.is_provisional => "evaluating …".into(),
        (0, 0) => "nothing found wrong, now or before".into(),
        (0, before) => safe!("nothing now, {before} before"),
        (now, before) => safe!("{now} now, {before} before"),
    }
}

/// The finding of the row under the cursor.
fn selected_finding<'a>(state: &'a State, evaluation: &'a Evaluation) -> Option<&'a Finding> {
    match *state.rows().get(state.cursor().selected)? {
        Row::ActiveFinding(at) => evaluation.active.get(at),
        Row::EndedFinding(at) => state.finding_history.ended_before(evaluation.interval.at()).nth(at),
        _ => None,
    }
}

fn draw_list(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let ended: Vec<&Finding> = state.finding_history.ended_before(evaluation.interval.at()).collect();
    let mut headed = None;
    let visible = visible_rows(state, layout);
    for VisibleRow { row, y, height, selected, .. } in visible.iter().copied() {
        let (finding, section) = match row {
            Row::ActiveFinding(at) => (evaluation.active.get(at), "NOW"),
            Row::EndedFinding(at) => (ended.get(at).copied(), "BEFORE"),
            _ => (None, ""),
        };
        let Some(finding) = finding else { continue };
        let heading = if headed == Some(section) { "" } else { section };
        headed = Some(section);
        let mut lines = pane.subarea(0, y, u16::MAX, height);
        finding_lines(state, evaluation, finding, heading, &mut lines);
        if selected {
            lines.highlight_rows(0, height);
        }
    }
    let end = list_end(layout, &visible);
    if state.rows().is_empty() && state.filter().is_empty() {
        pane.line(end + 1, ("Findings that hold in 2 of 3 samples are listed here; ended ones stay below.", StyleRole::Dim));
    }
    if end + 1 < layout.rows_before_list + layout.list_rows && !state.rows().is_empty() {
        const WHOLE: &str = "Enter: meaning, evidence, next steps   o: go to its start";
        const SHORT: &str = "Enter: why   o: its start";
        let room = usize::from(pane.width().saturating_sub(7));
        pane.line(end + 1, (safe!("       {}", if WHOLE.len() <= room { WHOLE } else { SHORT }), StyleRole::Dim));
    }
}

/// A finding, with the heading of its section in the first columns.
fn finding_lines(state: &State, evaluation: &Evaluation, finding: &Finding, heading: &'static str, pane: &mut Pane) {
    let sentence = SafeText::sanitize(finding.sentence.clone());
    let follows = finding.until.is_none() && finding.follows_from.is_some();
    let mut line = SafeLine::new(safe!("{heading:<7}"), StyleRole::Heading);
    if follows {
        line = SafeLine::new(safe!("{heading:<5}"), StyleRole::Heading).with("↳ ", StyleRole::Dim);
    }
    line.push(severity_symbol(finding.severity), StyleRole::from(finding.severity));
    line.push(" ", StyleRole::Plain);
    let Some(until) = finding.until else {
        line.push(rule_title(finding), StyleRole::Bold);
        line.pad_to(if pane.width() >= 80 { SENTENCE_COLUMN + TITLE_WIDTH + 1 } else { line.width() + 2 });
        pane.line(0, line.with(finding_time(state, finding, evaluation.interval.at()), StyleRole::Dim));
        let room = usize::from(pane.width()).saturating_sub(SENTENCE_COLUMN + 1);
        let lines = usize::from(pane.height().saturating_sub(1));
        for (y, words) in (1..).zip(text::wrap(sentence.as_str(), room, lines)) {
            let indent = SafeLine::new(SafeText::blanks(SENTENCE_COLUMN), StyleRole::Plain);
            pane.line(y, indent.with(SafeText::sanitize(words), StyleRole::Plain));
        }
        return;
    };
    // One line; a narrow screen omits the title.
    if pane.width() >= 120 {
        line.push(rule_title(finding), StyleRole::Plain);
        line.pad_to(SENTENCE_COLUMN + TITLE_WIDTH + 1);
    }
    line.push(safe!("{} – {}", displayed_time(state, finding.since), displayed_time(state, until)), StyleRole::Dim);
    pane.line(0, line.with("  ", StyleRole::Plain).with(sentence, StyleRole::Plain));
}

/// Cells left of a sentence.
const SENTENCE_COLUMN: usize = 9;

/// Cells of the title column.
const TITLE_WIDTH: usize = 42;

/// The title of the finding's rule.
pub fn rule_title(finding: &Finding) -> &'static str {
    finding.kind.rule().map_or("finding", |rule| rule.title)
}
