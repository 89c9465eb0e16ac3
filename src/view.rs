//! Draws a frame from a `State`. Reads no clock and no file, and changes nothing.
//!
//! ```text
//! header      host, time, live or replay
//! findings    active findings, worst first
//! body        the screen, a details page, or help
//! timeline    one cell per time span, colored by its worst finding
//! key line    or a prompt, or a notice
//! ```

pub mod columns;
pub mod hit_area;
pub mod pane;
pub mod safe_line;
pub mod safe_text;
pub mod screen_text;
pub mod svg;
pub mod text;
pub mod theme;
pub mod widgets;

mod active_findings;
mod bottom_line;
mod column_chooser;
mod copied_text;
mod cpu;
mod cpu_segments;
mod deadlock;
mod demo;
mod details;
mod disk;
mod finding_time;
mod findings;
mod fleet;
mod header;
mod help;
mod list;
mod network;
mod overview;
mod palette;
mod panes;
mod pressure;
mod process_titles;
mod settings_menu;
mod signal_question;
mod task_states;
mod tasks;
mod thread_states;
mod time_cells;
mod timeline;
mod wait_chain;
mod wait_location;

use crate::findings::Evaluation;
use crate::safe;
use crate::sample::Instant;
use crate::state::fleet::{FleetEvent, FleetState};
use crate::state::layout::{MIN_SIZE, ScreenLayout};
use crate::state::screen::with_screens;
use crate::state::{ClickTarget, Event, Overlay, PageItems, Screen, SourceStatus, State};
use crate::units::time;
pub use copied_text::{command_text, copied_text};
use hit_area::HitArea;
use pane::Pane;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use safe_line::SafeLine;
use safe_text::SafeText;
use theme::{StyleRole, Theme};

/// The longest message about the required size that fits into a line.
fn too_small_message(width: u16, height: u16, required: (u16, u16)) -> SafeLine {
    let needs = safe!("{}×{}", required.0, required.1);
    let ways =
        [safe!("stalltop needs {needs}, this is {width}×{height}"), safe!("stalltop needs {needs}"), safe!("needs {needs}")];
    let message = ways.into_iter().find(|way| way.width() <= usize::from(width)).unwrap_or(needs);
    SafeLine::new(message, StyleRole::Plain)
}

/// How a screen is drawn. What it lists is in `state::screen`.
struct ScreenView {
    /// Draws the body of a terminal that is too small for panes
    draw: fn(&State, &Evaluation, &ScreenLayout, &mut Pane),
    /// Draw the panes, in the order of the screen's bands
    panes: &'static [panes::Draw],
}

macro_rules! list_views {
    ($($variant:ident => $file:ident,)*) => {
        const SCREENS: [ScreenView; Screen::ALL.len()] = [$($file::SCREEN),*];
    };
}

with_screens!(list_views);

/// Each pane of the state's bands has a function that draws it.
const _: () = {
    let mut at = 0;
    while at < SCREENS.len() {
        assert!(
            SCREENS[at].panes.len() == Screen::ALL[at].definition().pane_count(),
            "a pane without a function that draws it"
        );
        at += 1;
    }
};

fn view_of(screen: Screen) -> &'static ScreenView {
    &SCREENS[screen as usize]
}

/// Draws a frame; returns what a click on each part does.
pub fn render(state: &State, frame: &mut Frame) -> Vec<HitArea> {
    render_into(state, frame.buffer_mut())
}

/// Draws a frame into an empty buffer; returns what a click on each part does.
pub fn render_into(state: &State, buffer: &mut Buffer) -> Vec<HitArea> {
    let theme = Theme::new(state.setup.terminal);
    let mut hit_areas = Vec::new();
    draw_frame(state, &mut Pane::new(buffer, &mut hit_areas, theme));
    if theme.is_ascii() {
        theme::replace_with_ascii(buffer);
    }
    hit_areas
}

/// Draws a frame of the fleet; returns what a click on each part does.
pub fn render_fleet(state: &FleetState, frame: &mut Frame) -> Vec<HitArea> {
    render_fleet_into(state, frame.buffer_mut())
}

/// Draws a frame of the fleet into an empty buffer.
pub fn render_fleet_into(state: &FleetState, buffer: &mut Buffer) -> Vec<HitArea> {
    let theme = Theme::new(state.setup().terminal);
    let mut hit_areas = Vec::new();
    fleet::draw(state, &mut Pane::new(buffer, &mut hit_areas, theme));
    if theme.is_ascii() {
        theme::replace_with_ascii(buffer);
    }
    hit_areas
}

/// An event with what the drawn frame of the fleet shows; sent before keys and the wheel.
pub fn fleet_frame_event(state: &FleetState) -> Option<FleetEvent> {
    state.help().map(|_| FleetEvent::MaxScroll(fleet::max_help_scroll(state)))
}

/// A frame of its own, as large as the terminal, for what is not drawn on it.
pub fn drawn_frame(state: &State) -> (Buffer, Vec<HitArea>) {
    let (width, height) = state.setup.size;
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, height));
    let hit_areas = render_into(state, &mut buffer);
    (buffer, hit_areas)
}

fn draw_frame(state: &State, pane: &mut Pane) {
    pane.fill();
    let (width, height) = (pane.width(), pane.height());
    if width < MIN_SIZE.0 || height < MIN_SIZE.1 {
        pane.line(0, too_small_message(width, height, MIN_SIZE));
        return;
    }
    let layout = ScreenLayout::new(state);
    header::draw(state, pane);
    if layout.finding_rows > 0 {
        active_findings::draw(state, &mut pane.subarea(0, 1, width, layout.finding_rows));
    }
    if layout.body_top > 1 + layout.finding_rows {
        pane.rule(layout.body_top - 1);
        overview::draw_cpu_history(state, &mut pane.subarea(0, layout.body_top - 1, width, 1));
    }
    draw_body(state, &layout, &mut pane.subarea(0, layout.body_top, width, layout.body_rows));
    if let Some(note) = &state.options.demo {
        demo::draw(note, &mut pane.subarea(0, layout.body_top + layout.body_rows, width, layout.note_rows));
    }
    if layout.has_timeline {
        timeline::draw(state, &mut pane.subarea(0, height - 2, width, 1));
    }
    bottom_line::draw(state, &mut pane.subarea(0, height - 1, width, 1));
    match &state.overlay {
        Some(Overlay::Help { scroll_offset }) => help::draw(state, *scroll_offset, pane),
        Some(Overlay::Palette(open)) => palette::draw(open, pane),
        Some(Overlay::ColumnChooser(open)) => column_chooser::draw(state, open, pane),
        Some(Overlay::Settings(open)) => settings_menu::draw(state, open, pane),
        Some(Overlay::SignalQuestion(open)) => signal_question::draw(open, pane),
        None => {}
    }
}

fn draw_body(state: &State, layout: &ScreenLayout, pane: &mut Pane) {
    let Some(evaluation) = state.current() else {
        let waiting = match &state.arrival.status {
            SourceStatus::Failed(error) => safe!("nothing to show: {error}"),
            SourceStatus::Ended => "the recording has fewer than two samples".into(),
            SourceStatus::Open => waiting_message(state),
        };
        pane.line(1, (safe!("  {waiting}"), StyleRole::Dim));
        return;
    };
    if let Some(open) = &state.details {
        details::draw(state, evaluation, open, pane);
        return;
    }
    let view = view_of(state.screen);
    match layout.has_panes() {
        true => panes::draw(view.panes, state, evaluation, layout, pane),
        false => {
            let is_cut = list::is_cut(state, layout);
            (view.draw)(state, evaluation, layout, &mut pane.with_scroll_bar(is_cut));
        }
    }
    if layout.has_list(state.screen.definition().list_pane) {
        list::draw_scroll_bar_and_targets(state, layout, pane);
    }
}

/// What the screen waits for before the first interval.
fn waiting_message(state: &State) -> SafeText {
    let late = state.first_interval_late_seconds().map_or_else(String::new, |late| format!(" for {late:.0} s"));
    match state.arrival.has_first_sample {
        _ if !state.capabilities().follows_newest => "reading the recording …".into(),
        false => safe!("waiting for the first sample{late} …"),
        true if late.is_empty() => "first sample taken; rates need two samples …".into(),
        true => safe!("first sample taken; waiting for the second one{late} …"),
    }
}

/// Maximum scroll offset of the open page (help or details); `None` if none is open.
pub fn max_scroll(state: &State) -> Option<usize> {
    if state.help().is_some() {
        return Some(help::max_scroll(state));
    }
    let (details, evaluation) = (state.details.as_ref()?, state.current()?);
    let layout = ScreenLayout::new(state);
    Some(details::max_scroll(state, evaluation, details, layout.width, layout.body_rows))
}

/// The items that the open page lists.
fn page_items(state: &State) -> Option<PageItems> {
    let (details, evaluation) = (state.details.as_ref()?, state.current()?);
    let layout = ScreenLayout::new(state);
    Some(details::page_items(state, evaluation, details, layout.width, layout.body_rows))
}

/// Events with what the drawn frame shows; sent before keys, clicks, wheel.
pub fn frame_events(state: &State, areas: &[HitArea]) -> Vec<Event> {
    let mut events = vec![Event::ListEndOffset(hit_area::list_end_offset(areas))];
    // A page that was opened from the overview has items of its own.
    if state.screen == Screen::Overview && state.details.is_none() {
        events.push(Event::DrawnItems(hit_area::drawn_items(areas)));
    }
    events.extend(page_items(state).map(Event::PageItems));
    events.extend(max_scroll(state).map(Event::MaxScroll));
    events
}

/// The click target at this column and row.
pub fn click_target(state: &State, column: u16, row: u16) -> ClickTarget {
    hit_area::target_at(&drawn_frame(state).1, column, row)
}

/// A time of day in the displayed time zone, with the day if the recording spans days.
fn displayed_time(state: &State, at: Instant) -> String {
    let zone = &state.setup.time_zone;
    text::format_day_prefix(at.realtime_ns, zone, state.spans_days()) + &time::time_of_day(at.realtime_ns, zone)
}
