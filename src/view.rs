//! Draws a state. A pure function of it: no clock, no file, no change of anything.
//!
//! ```text
//! head        who, when, live or replay
//! verdict     where the eye lands: what is wrong, in words
//! body        the screen, or details, or help
//! strip       time, coloured by the worst finding
//! keys        or a prompt, or a notice
//! ```

pub mod canvas;
pub mod cell_buffer;
pub mod frame_diff;
pub mod text;
pub mod theme;
pub mod widgets;

mod cpu;
mod details;
mod disk;
mod findings;
mod frame;
mod help;
mod network;
mod overview;
mod process_groups;
mod tasks;
mod timeline;
mod wait_location;

use crate::safe;
use crate::state::layout::{self, MIN_SIZE, ScreenLayout};
use crate::state::{ClickTarget, Screen, State};
use canvas::Canvas;
use cell_buffer::CellBuffer;
use text::SafeText;
use theme::{StyleRole, Theme};
use widgets::table::Table;

/// As much of what is asked for as fits into a line.
fn too_small_message(width: u16, height: u16) -> SafeText {
    let needs = safe!("{}×{}", MIN_SIZE.0, MIN_SIZE.1);
    let ways =
        [safe!("stalltop needs {needs}, this is {width}×{height}"), safe!("stalltop needs {needs}"), safe!("needs {needs}")];
    ways.into_iter().find(|way| way.width() <= usize::from(width)).unwrap_or(needs)
}

/// One frame, on cells of which none is drawn yet.
pub fn render(state: &State, cells: &mut CellBuffer) {
    let theme = Theme::new(state.setup.terminal);
    let mut canvas = Canvas::new(cells, theme);
    let (width, height) = (canvas.width(), canvas.height());
    if width < MIN_SIZE.0 || height < MIN_SIZE.1 {
        canvas.text_to_end(0, 0, too_small_message(width, height), StyleRole::Plain);
        return;
    }
    let plan = ScreenLayout::new(state);
    frame::header(state, &mut canvas);
    if plan.finding_rows > 0 {
        frame::active_findings(state, &mut canvas.subarea(0, 1, width, plan.finding_rows));
    }
    if plan.body_top > 1 + plan.finding_rows {
        canvas.rule(plan.body_top - 1);
    }
    draw_body(state, &plan, &mut canvas.subarea(0, plan.body_top, width, plan.body_rows));
    if plan.has_timeline {
        timeline::draw(state, &mut canvas.subarea(0, height - 2, width, 1));
    }
    frame::bottom_line(state, &mut canvas.subarea(0, height - 1, width, 1));
    if state.help.is_some() {
        help::draw(state, &mut canvas);
    }
}

fn draw_body(state: &State, plan: &ScreenLayout, canvas: &mut Canvas) {
    let Some(judged) = &state.current else {
        let waiting = match &state.source_ended {
            Some(Some(why)) => safe!("nothing to show: {why}"),
            Some(None) => "the recording holds no two samples to compare".into(),
            None => "the first sample is taken; figures need two of them …".into(),
        };
        canvas.text_to_end(2, 1, &waiting, StyleRole::Dim);
        return;
    };
    if let Some(open) = &state.details {
        details::draw(state, judged, open, canvas);
        return;
    }
    match state.screen {
        Screen::Overview => overview::draw(state, judged, canvas),
        Screen::Cpu => cpu::draw(state, judged, plan, canvas),
        Screen::Disk => disk::draw(state, judged, plan, canvas),
        Screen::Network => network::draw(state, judged, plan, canvas),
        Screen::Tasks => tasks::draw(state, judged, plan, canvas),
        Screen::Findings => findings::draw(state, judged, plan, canvas),
    }
}

/// By how many lines the page that is open (help, details) can be scrolled: only who draws it knows how long it is.
pub fn max_scroll(state: &State) -> Option<usize> {
    if state.help.is_some() {
        return Some(help::max_scroll(state));
    }
    let (details, judged) = (state.details.as_ref()?, state.current.as_ref()?);
    let plan = ScreenLayout::new(state);
    Some(details::furthest(state, judged, details, plan.width, plan.body_rows))
}

/// What is drawn at this column and row.
pub fn click_target(state: &State, column: u16, row: u16) -> ClickTarget {
    let plan = ScreenLayout::new(state);
    if plan.width < MIN_SIZE.0 || plan.height < MIN_SIZE.1 || state.help.is_some() {
        return ClickTarget::Nothing;
    }
    if row + 1 == plan.height {
        return frame::screen_at(plan.width, column).map_or(ClickTarget::Nothing, ClickTarget::Screen);
    }
    if plan.has_timeline && row + 2 == plan.height {
        return timeline::time_at(state, plan.width, column).map_or(ClickTarget::Nothing, ClickTarget::Timeline);
    }
    if state.details.is_some() || state.current.is_none() || state.screen == Screen::Overview {
        return ClickTarget::Nothing;
    }
    let first = plan.body_top + plan.rows_before_list;
    if row + 1 == first {
        return list_table(state.screen, state, plan.width)
            .and_then(|table| table.sort_column_at(column))
            .map_or(ClickTarget::Nothing, ClickTarget::Column);
    }
    let mut line = first;
    for (at, &item) in state.rows.iter().enumerate().skip(state.cursor().top) {
        let lines = u16::try_from(layout::row_height(state, item)).unwrap_or(1);
        if line >= first + plan.list_rows {
            break;
        }
        if (line..line + lines).contains(&row) {
            return ClickTarget::Row(at);
        }
        line += lines;
    }
    ClickTarget::Nothing
}

fn list_table(screen: Screen, state: &State, width: u16) -> Option<Table> {
    match screen {
        Screen::Overview | Screen::Findings => None,
        Screen::Cpu => Some(cpu::table(width)),
        Screen::Disk => Some(disk::table(width)),
        Screen::Network if state.show_remote_hosts => Some(network::remote_hosts::table(width)),
        Screen::Network => Some(network::table(width)),
        Screen::Tasks => Some(tasks::table(state, width)),
    }
}

/// Draws the visible rows of the list: `draw(canvas, first line, place in the list, row)`.
fn draw_list(
    state: &State,
    plan: &ScreenLayout,
    canvas: &mut Canvas,
    mut draw: impl FnMut(&mut Canvas, u16, crate::state::Row),
) -> u16 {
    let mut y = plan.rows_before_list;
    let end = plan.rows_before_list + plan.list_rows;
    let cursor = state.cursor();
    for (at, &row) in state.rows.iter().enumerate().skip(cursor.top) {
        let lines = u16::try_from(layout::row_height(state, row)).unwrap_or(1);
        if y >= end {
            break;
        }
        let height = lines.min(end - y);
        draw(&mut canvas.subarea(0, 0, u16::MAX, y + height), y, row);
        if at == cursor.selected && cursor.item.is_some() {
            canvas.highlight_rows(y, height);
        }
        y += height;
    }
    y
}
