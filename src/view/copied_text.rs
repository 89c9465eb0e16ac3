//! What `y` and `Y` copy: the selected row as it is drawn, the sentence of a finding, a command line.

use super::drawn_frame;
use super::screen_text::row_text;
use super::tasks::command_line;
use crate::findings::Finding;
use crate::state::layout::ScreenLayout;
use crate::state::{ClickTarget, Item, State};

/// The sentence of the open or selected finding, or the text of the selected row, or of the open page. `None`: nothing is
/// selected.
pub fn copied_text(state: &State) -> Option<String> {
    let item = state.open_or_selected_item();
    if let Some(finding) = item.as_ref().and_then(|item| finding(state, item)) {
        return Some(finding.sentence.clone());
    }
    let (buffer, hit_areas) = drawn_frame(state);
    let layout = ScreenLayout::new(state);
    let area = if state.details.is_some() {
        let mut body = buffer.area;
        (body.y, body.height) = (layout.body_top, layout.body_rows);
        // The last column is that of the scroll bar.
        body.width = body.width.saturating_sub(1);
        body
    } else {
        let is_selected = |target: &ClickTarget| match target {
            ClickTarget::Row(row) => *row == state.cursor().selected,
            ClickTarget::Item(drawn) => Some(drawn) == item.as_ref(),
            _ => false,
        };
        hit_areas.iter().find(|hit| is_selected(&hit.target))?.area
    };
    let rows = area.rows().map(|row| row_text(&buffer, row).trim_end().to_owned());
    let rows: Vec<String> = rows.skip_while(String::is_empty).collect();
    Some(rows.join("\n").trim_end().to_owned()).filter(|text| !text.is_empty())
}

/// The command line of the task, or the next steps of the finding, that is open or selected.
pub fn command_text(state: &State) -> Option<String> {
    let item = state.open_or_selected_item()?;
    if let Some(finding) = finding(state, &item) {
        return Some(finding.next.join("\n")).filter(|text| !text.is_empty());
    }
    let pid = match item {
        Item::Process(id) => id.pid,
        Item::Thread(id) => id.pid,
        _ => return None,
    };
    let tasks = state.current()?.interval.newer.tasks.as_ref().ok()?;
    Some(command_line(tasks.process(pid)?).as_str().to_owned()).filter(|text| !text.is_empty())
}

fn finding<'a>(state: &'a State, item: &Item) -> Option<&'a Finding> {
    let evaluation = state.current()?;
    let ended = state.finding_history.ended_before(evaluation.interval.at());
    evaluation.active.iter().chain(ended).find(|finding| Item::from_finding(finding) == *item)
}
