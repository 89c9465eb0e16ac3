//! The overview as framed panes, from 100×32, or one of them over the whole body (`z`).
//!
//! ```text
//! CPU over time            who waits for whom
//! cores over time          load, memory, pressure
//! disks, and the slowest operation over time
//! network, and the busiest interface over time
//! tasks
//! ```
//!
//! Graphs do not scroll (`state::graph_columns`), so that few bytes are sent.

use ratatui::layout::{Constraint, Rect};

use super::{cores_pane, cpu_pane, disk_pane, network_pane, system_pane, tables, waits_pane};
use crate::findings::Evaluation;
use crate::safe;
use crate::state::{OverviewPane, State};
use crate::units::time;
use crate::view::pane::Pane;
use crate::view::safe_line::SafeLine;
use crate::view::safe_text::SafeText;
use crate::view::text;
use crate::view::theme::StyleRole;

/// Rows of a band of panes, with its frame.
struct Band {
    minimum: u16,
    /// What its content needs at most
    maximum: u16,
    /// Bands with a lower number grow first, and fall away last
    priority: u8,
}

pub fn draw(state: &State, evaluation: &Evaluation, pane: &mut Pane) {
    if let Some(zoomed) = state.zoomed_pane {
        draw_pane(zoomed, state, evaluation, pane);
        return;
    }
    let [cpu, cores, disks, network, tasks] = band_heights(&bands(state, evaluation), pane.height());
    let heights = [cpu, cores, disks, network, tasks].map(Constraint::Length);
    let rows = pane.framed_rows(&heights);
    let row = |index: usize| rows.get(index).copied().unwrap_or_default();
    let halves = [Constraint::Percentage(56), Constraint::Fill(1)];
    for (index, panes) in [
        (0, &[OverviewPane::Cpu, OverviewPane::Waits][..]),
        (1, &[OverviewPane::Cores, OverviewPane::System]),
        (2, &[OverviewPane::Disks]),
        (3, &[OverviewPane::Network]),
        (4, &[OverviewPane::Tasks]),
    ] {
        let mut band = pane.part(row(index));
        if band.height() < 3 {
            continue;
        }
        let columns = if panes.len() > 1 { band.framed_columns(&halves) } else { [band.area()].into() };
        for (&which, &area) in panes.iter().zip(columns.iter()) {
            draw_pane(which, state, evaluation, &mut band.part(area));
        }
    }
}

/// The bands from top to bottom: CPU, cores, disks, network, tasks.
fn bands(state: &State, evaluation: &Evaluation) -> [Band; 5] {
    let interval = &*evaluation.interval;
    let count = |length: usize| u16::try_from(length).unwrap_or(u16::MAX).min(100);
    let band = |minimum, maximum: u16, priority| Band { minimum, maximum: maximum.max(minimum), priority };
    let cpus = count(interval.online_cpus());
    let disks = count(tables::busiest_disks(state, interval).len());
    let nics = count(tables::busiest_nics(interval).len());
    [
        band(8, 12, 0),
        band(7, 2 + cpus.min(14), 3),
        band(6, (4 + disks).clamp(10, 14), 2),
        band(4, (3 + nics).clamp(7, 11), 4),
        band(5, u16::MAX, 1),
    ]
}

/// The height of each band. Neighbors share a line. The first by priority gets its minimum first; then all grow in turns.
fn band_heights(bands: &[Band; 5], height: u16) -> [u16; 5] {
    let mut heights = [0_u16; 5];
    let mut order = [0, 1, 2, 3, 4];
    order.sort_by_key(|&index| bands.get(index).map_or(u8::MAX, |band| band.priority));
    let mut left = height;
    for index in order {
        let (Some(band), Some(rows)) = (bands.get(index), heights.get_mut(index)) else { continue };
        // The first band has both lines of its frame, each other one only its own lower line.
        let needed = if left == height { band.minimum } else { band.minimum - 1 };
        if needed <= left {
            *rows = band.minimum;
            left -= needed;
        }
    }
    while left > 0 {
        let before = left;
        for index in order {
            let (Some(band), Some(rows)) = (bands.get(index), heights.get_mut(index)) else { continue };
            if left > 0 && *rows > 0 && *rows < band.maximum {
                *rows += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    heights
}

fn draw_pane(which: OverviewPane, state: &State, evaluation: &Evaluation, pane: &mut Pane) {
    match which {
        OverviewPane::Cpu => cpu_pane::draw(state, evaluation, pane),
        OverviewPane::Waits => waits_pane::draw(evaluation, pane),
        OverviewPane::Cores => cores_pane::draw(state, evaluation, pane),
        OverviewPane::System => system_pane::draw(evaluation, pane),
        OverviewPane::Disks => disk_pane::draw(state, evaluation, pane),
        OverviewPane::Network => network_pane::draw(state, evaluation, pane),
        OverviewPane::Tasks => {
            let note = SafeLine::new("blocked and running first; key 5: all", StyleRole::Dim);
            let mut inner = pane.framed(("Tasks: where their time goes", StyleRole::Bold), note);
            tables::task_table(state, &evaluation.interval, &mut inner);
        }
    }
}

/// `CPU, last 1m52s`; in a replay `CPU, 12:03:10–12:05:02`; with `│ max` where a column shows several intervals.
pub fn over_time(what: &'static str, state: &State, width: u16) -> SafeLine {
    SafeLine::new(what, StyleRole::Bold).with(safe!(", {}", shown_time(state, width)), StyleRole::Dim)
}

/// The time that a graph of this width shows.
pub fn shown_time(state: &State, width: u16) -> SafeText {
    let peaks = if state.graph_columns(width).has_peaks { "  │ max" } else { "" };
    let Some(window) = state.graph_window() else {
        let seconds = f64::from(width.saturating_sub(1)) * state.sweep_step_ns(width) as f64 / 1e9;
        return safe!("last {}{peaks}", time::duration(seconds));
    };
    let zone = &state.setup.time_zone;
    let day = |at| text::format_day_prefix(at, zone, state.spans_days());
    let clock = |at| match window.length_ns() {
        7_200_000_000_000.. => text::format_hours_minutes(at, zone),
        _ => time::time_of_day(at, zone),
    };
    let (start, end) = (window.start_ns, window.end_ns);
    safe!("{}{}–{} ({}){peaks}", day(start), clock(start), clock(end), time::duration(window.length_ns() as f64 / 1e9))
}

/// Cells of the axis of a graph in the left half, so that the same time is in the same column of all of them.
pub const AXIS_WIDTH: u16 = 8;

/// Cells of the figures right of such a graph.
pub fn figures_width(pane: &Pane) -> u16 {
    if pane.width() >= 90 { 30 } else { 23 }
}

/// Where a pane has its table, and its graph: beside the table, below its rows, or nowhere.
pub fn table_and_graph(pane: &Pane, rows: usize) -> (Rect, Option<Rect>) {
    let area = pane.area();
    if area.width >= TABLE_WIDTH + MIN_GRAPH_WIDTH {
        let [table, graph] = pane.columns([Constraint::Length(TABLE_WIDTH), Constraint::Fill(1)]);
        return (table, Some(graph));
    }
    let rows = u16::try_from(rows.max(1)).unwrap_or(u16::MAX).saturating_add(2);
    if area.height >= rows.saturating_add(MIN_GRAPH_HEIGHT) {
        let [table, graph] = pane.rows([Constraint::Length(rows), Constraint::Fill(1)]);
        return (table, Some(graph));
    }
    (area, None)
}

/// The title of a graph: as many parts as fit.
pub fn graph_title(parts: impl IntoIterator<Item = SafeLine>, width: u16) -> SafeLine {
    let mut title = SafeLine::default();
    for part in parts {
        if !title.is_empty() && title.width() + part.width() > usize::from(width) {
            break;
        }
        title.append(part);
    }
    title
}

/// Cells of the figures beside a graph.
const TABLE_WIDTH: u16 = 79;

/// Of a graph, its title and axis included.
const MIN_GRAPH_WIDTH: u16 = 24;
const MIN_GRAPH_HEIGHT: u16 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn heights(height: u16) -> [u16; 5] {
        let band = |minimum, maximum, priority| Band { minimum, maximum, priority };
        let bands = [band(8, 12, 0), band(7, 8, 3), band(6, 7, 2), band(4, 6, 4), band(5, u16::MAX, 1)];
        band_heights(&bands, height)
    }

    #[test]
    fn bands_fill_the_height_and_fall_away_by_priority() {
        // Neighbors share a line: the sum is four rows more than the height.
        assert_eq!(heights(44).iter().sum::<u16>(), 48);
        assert_eq!(heights(44), [12, 8, 7, 6, 15]);
        assert_eq!(heights(26), [8, 7, 6, 4, 5]);
        assert_eq!(heights(20), [8, 0, 6, 4, 5]);
        assert_eq!(heights(9), [9, 0, 0, 0, 0]);
    }
}
