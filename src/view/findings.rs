//! The findings screen: active and ended findings.

use super::ScreenView;
use super::active_findings::is_measuring;
use super::displayed_time;
use super::list::{VisibleRow, list_end, list_status, visible_rows};
use super::pane::Pane;
use super::safe_text::SafeText;
use super::text;
use super::theme::{StyleRole, severity_symbol};
use crate::findings::{Evaluation, Finding};
use crate::safe;
use crate::state::layout::ScreenLayout;
use crate::state::{Row, State};
use crate::units::time;

pub const SCREEN: ScreenView = ScreenView { draw, sort_column_at: |_, _, _| None };

fn draw(state: &State, evaluation: &Evaluation, layout: &ScreenLayout, pane: &mut Pane) {
    let now = evaluation.active.len();
    let before = state.rows.iter().filter(|row| matches!(row, Row::EndedFinding(_))).count();
    pane.text(0, 0, 10, "FINDINGS", StyleRole::Heading);
    let words = match (now, before) {
        (0, 0) if is_measuring(state) => "measuring …".into(),
        (0, 0) => "nothing found wrong, now or before".into(),
        (0, before) => safe!("nothing now, {before} before"),
        (now, before) => safe!("{now} now, {before} before"),
    };
    pane.text_to_end(10, 0, &words, StyleRole::Plain);
    let range = list_status(state, layout);
    pane.line_right(0, (&range, StyleRole::Dim));
    let ended: Vec<&Finding> = state.finding_history.ended_before(evaluation.interval.at()).collect();
    let mut headed = None;
    let visible = visible_rows(state, layout);
    for VisibleRow { row, y, height, selected } in visible.iter().copied() {
        let (finding, section) = match row {
            Row::ActiveFinding(at) => (evaluation.active.get(at), "NOW"),
            Row::EndedFinding(at) => (ended.get(at).copied(), "BEFORE"),
            _ => (None, ""),
        };
        let Some(finding) = finding else { continue };
        if headed != Some(section) {
            pane.text(0, y, 6, section, StyleRole::Heading);
            headed = Some(section);
        }
        finding_lines(state, evaluation, finding, &mut pane.subarea(0, 0, u16::MAX, y + height), y);
        if selected {
            pane.highlight_rows(y, height);
        }
    }
    let end = list_end(layout, &visible);
    if now + before == 0 && state.filter().is_empty() {
        pane.line(end + 1, ("Findings that hold in 2 of 3 samples are listed here; ended ones stay below.", StyleRole::Dim));
    }
    if end + 1 < layout.rows_before_list + layout.list_rows && now + before > 0 {
        const WHOLE: &str = "Enter: meaning, evidence, next steps   o: go to its start";
        const SHORT: &str = "Enter: why   o: its start";
        let room = usize::from(pane.width().saturating_sub(7));
        pane.text_to_end(7, end + 1, if WHOLE.len() <= room { WHOLE } else { SHORT }, StyleRole::Dim);
    }
}

fn finding_lines(state: &State, evaluation: &Evaluation, finding: &Finding, pane: &mut Pane, y: u16) {
    let role = StyleRole::from(finding.severity);
    pane.text(7, y, 1, severity_symbol(finding.severity), role);
    let since = displayed_time(state, finding.since);
    let sentence = SafeText::sanitize(finding.sentence.clone());
    if finding.until.is_none() && finding.follows_from.is_some() {
        pane.text(5, y, 1, "↳", StyleRole::Dim);
    }
    let Some(until) = finding.until else {
        let lasted = evaluation.interval.at().seconds_since(finding.since);
        let end = pane.text(9, y, TITLE_WIDTH, rule_title(finding), StyleRole::Bold);
        let x = if pane.width() >= 80 { 9 + TITLE_WIDTH + 1 } else { end + 2 };
        pane.text_to_end(x, y, safe!("since {since} ({})", time::duration(lasted)), StyleRole::Dim);
        let room = pane.width().saturating_sub(10);
        let lines = usize::from(pane.height().saturating_sub(y + 1));
        for (y, line) in (y + 1..).zip(text::wrap(sentence.as_str(), usize::from(room), lines)) {
            pane.text_to_end(9, y, SafeText::sanitize(line), StyleRole::Plain);
        }
        return;
    };
    // One line; a narrow screen omits the title.
    let mut x = 9;
    if pane.width() >= 120 {
        pane.text(x, y, TITLE_WIDTH, rule_title(finding), StyleRole::Plain);
        x += TITLE_WIDTH + 1;
    }
    let x = pane.text_to_end(x, y, safe!("{since} – {}", displayed_time(state, until)), StyleRole::Dim);
    pane.text_to_end(x + 2, y, &sentence, StyleRole::Plain);
}

/// Cells of the title column.
const TITLE_WIDTH: u16 = 37;

/// The title of the finding's rule.
pub fn rule_title(finding: &Finding) -> &'static str {
    finding.kind.rule().map_or("finding", |rule| rule.title)
}
