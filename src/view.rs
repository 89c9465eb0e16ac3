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
pub mod cells;
pub mod changes;
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
mod strip;
mod tasks;
mod teams;
mod whereabouts;

use crate::safe;
use crate::state::layout::{self, Plan, SMALLEST};
use crate::state::{Click, Screen, State};
use canvas::Canvas;
use cells::Cells;
use text::SafeText;
use theme::{Ink, Theme};
use widgets::table::Table;

/// As much of what is asked for as fits into a line.
fn asking_for_room(width: u16, height: u16) -> SafeText {
    let needs = safe!("{}×{}", SMALLEST.0, SMALLEST.1);
    let ways =
        [safe!("stalltop needs {needs}, this is {width}×{height}"), safe!("stalltop needs {needs}"), safe!("needs {needs}")];
    ways.into_iter().find(|way| way.width() <= usize::from(width)).unwrap_or(needs)
}

/// One frame, on cells of which none is drawn yet.
pub fn render(state: &State, cells: &mut Cells) {
    let theme = Theme::new(state.setup.look);
    let mut canvas = Canvas::new(cells, theme);
    let (width, height) = (canvas.width(), canvas.height());
    if width < SMALLEST.0 || height < SMALLEST.1 {
        canvas.rest(0, 0, asking_for_room(width, height), Ink::Plain);
        return;
    }
    let plan = Plan::of(state);
    frame::head(state, &mut canvas);
    if plan.verdict > 0 {
        frame::verdict(state, &mut canvas.part(0, 1, width, plan.verdict));
    }
    if plan.top > 1 + plan.verdict {
        canvas.rule(plan.top - 1);
    }
    body(state, &plan, &mut canvas.part(0, plan.top, width, plan.body));
    if plan.strip {
        strip::draw(state, &mut canvas.part(0, height - 2, width, 1));
    }
    frame::keys(state, &mut canvas.part(0, height - 1, width, 1));
    if state.help.is_some() {
        help::draw(state, &mut canvas);
    }
}

fn body(state: &State, plan: &Plan, canvas: &mut Canvas) {
    let Some(judged) = &state.current else {
        let waiting = match &state.ended {
            Some(Some(why)) => safe!("nothing to show: {why}"),
            Some(None) => "the recording holds no two samples to compare".into(),
            None => "the first sample is taken; figures need two of them …".into(),
        };
        canvas.rest(2, 1, &waiting, Ink::Dim);
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
pub fn furthest(state: &State) -> Option<usize> {
    if state.help.is_some() {
        return Some(help::furthest(state));
    }
    let (details, judged) = (state.details.as_ref()?, state.current.as_ref()?);
    let plan = Plan::of(state);
    Some(details::furthest(state, judged, details, plan.width, plan.body))
}

/// What is drawn at this column and row.
pub fn hit(state: &State, column: u16, row: u16) -> Click {
    let plan = Plan::of(state);
    if plan.width < SMALLEST.0 || plan.height < SMALLEST.1 || state.help.is_some() {
        return Click::Nothing;
    }
    if row + 1 == plan.height {
        return frame::screen_at(plan.width, column).map_or(Click::Nothing, Click::Screen);
    }
    if plan.strip && row + 2 == plan.height {
        return strip::moment_at(state, plan.width, column).map_or(Click::Nothing, Click::Strip);
    }
    if state.details.is_some() || state.current.is_none() || state.screen == Screen::Overview {
        return Click::Nothing;
    }
    let first = plan.top + plan.before;
    if row + 1 == first {
        return table(state.screen, state, plan.width)
            .and_then(|table| table.column_at(column))
            .map_or(Click::Nothing, Click::Column);
    }
    let mut line = first;
    for (at, &item) in state.rows.iter().enumerate().skip(state.cursor().top) {
        let lines = u16::try_from(layout::lines(state, item)).unwrap_or(1);
        if line >= first + plan.list {
            break;
        }
        if (line..line + lines).contains(&row) {
            return Click::Row(at);
        }
        line += lines;
    }
    Click::Nothing
}

fn table(screen: Screen, state: &State, width: u16) -> Option<Table> {
    match screen {
        Screen::Overview | Screen::Findings => None,
        Screen::Cpu => Some(cpu::table(width)),
        Screen::Disk => Some(disk::table(width)),
        Screen::Network if state.peers => Some(network::peers::table(width)),
        Screen::Network => Some(network::table(width)),
        Screen::Tasks => Some(tasks::table(state, width)),
    }
}

/// Draws the visible rows of the list: `draw(canvas, first line, place in the list, row)`.
fn list(state: &State, plan: &Plan, canvas: &mut Canvas, mut draw: impl FnMut(&mut Canvas, u16, crate::state::Row)) -> u16 {
    let mut y = plan.before;
    let end = plan.before + plan.list;
    let cursor = state.cursor();
    for (at, &row) in state.rows.iter().enumerate().skip(cursor.top) {
        let lines = u16::try_from(layout::lines(state, row)).unwrap_or(1);
        if y >= end {
            break;
        }
        let height = lines.min(end - y);
        draw(&mut canvas.part(0, 0, u16::MAX, y + height), y, row);
        if at == cursor.selected && cursor.item.is_some() {
            canvas.under_cursor(y, height);
        }
        y += height;
    }
    y
}
