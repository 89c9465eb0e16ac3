//! The timeline: one cell per time span. A finding is a sign where it starts or gets worse, and a line for as long as it lasts.
//!
//! Live mode displays the samples in memory, a replay the whole recording from edge to edge. The time span of a cell is fixed, so
//! that cells do not change while time passes. A cell without data is blank, a mark is `◆`, the displayed time `▼`; the cells of a span are in
//! reverse video.

use super::pane::Pane;
use super::safe_line::SafeLine;
use super::text;
use super::theme::{StyleRole, severity_sign};
use super::widgets::time_cursor::CURSOR;
use crate::findings::Severity;
use crate::safe;
use crate::state::timeline::TimelineRun;
use crate::state::{ClickTarget, State};
use crate::units::time;

/// `12:01 ▁▁▁▁▲───✖━━━━ 12:03`
pub fn draw(state: &State, pane: &mut Pane) {
    let Some(scale) = TimeScale::new(state, pane.width()) else { return };
    let zone = &state.setup.time_zone;
    let clock = |at| match scale.label_seconds {
        true => time::time_of_day(at, zone),
        false => text::format_day_prefix(at, zone, scale.label_days) + &text::format_hours_minutes(at, zone),
    };
    let mut line = SafeLine::new(safe!("{}", clock(scale.cell_middle_ns(0))), StyleRole::Dim);
    line.pad_to(usize::from(scale.first_column));
    let mut cells = TimelineCells { scale: &scale, cells: vec![Cell::default(); scale.cell_count] };
    let mut before = None;
    if state.timeline.ticks.is_empty() {
        for summary in state.graphs.history.iter() {
            let at = summary.at.realtime_ns;
            let begun = at.saturating_sub((f64::from(summary.seconds) * 1e9) as i64);
            cells.add_interval(
                before.filter(|&before| begun.saturating_sub(before) <= scale.cell_ns / 2),
                at,
                summary.worst_severity,
            );
            before = Some(at);
        }
    } else {
        for run in &state.timeline.runs {
            cells.add_run(run);
        }
        state.timeline.marked_ns.iter().for_each(|&mark| cells.add_mark(mark));
    }
    state.timeline.marks.iter().for_each(|mark| cells.add_mark(mark.realtime_ns));
    let here = state.cursor_at().filter(|_| !state.shows_newest()).and_then(|at| scale.cell_at(at.realtime_ns));
    let span =
        state.playback.span.as_ref().and_then(|span| {
            Some(scale.cell_at(span.from.realtime_ns.saturating_add(1))?..=scale.cell_at(span.to.realtime_ns)?)
        });
    let mut before = Cell::default();
    // A marker of its own: a full block in reverse video would look like missing data.
    let glyphs = cells.cells.iter().enumerate().map(|(at, cell)| {
        let (glyph, role) = cell.glyph(std::mem::replace(&mut before, *cell));
        match &span {
            _ if here == Some(at) => (CURSOR, StyleRole::Playback),
            Some(span) if span.contains(&at) => (glyph, StyleRole::Playback),
            _ => (glyph, role),
        }
    });
    line.push_glyphs(glyphs);
    let count = u16::try_from(scale.cell_count).unwrap_or(u16::MAX);
    let end_ns = scale.start_ns.saturating_add(scale.cell_ns.saturating_mul(i64::from(count)));
    pane.subarea(scale.first_column, 0, count, 1).on_click(ClickTarget::Times { start_ns: scale.start_ns, end_ns });
    pane.line(0, line.with(safe!(" {}", clock(scale.end_ns)), StyleRole::Dim));
}

/// `12:01` and a space
const LABEL_WIDTH: u16 = 6;

/// `12:01:30` and a space
const LABEL_WITH_SECONDS_WIDTH: u16 = 9;

/// `Nov 21 12:01` and a space
const LABEL_WITH_DAY_WIDTH: u16 = 13;

/// Minimum width for labels with a day.
const MIN_WIDTH_FOR_DAY: u16 = 70;

/// Timelines shorter than this have labels with seconds.
const SECONDS_LABEL_BELOW_NS: i64 = 600_000_000_000;

#[derive(Clone, Copy, Default)]
struct Cell {
    has_data: bool,
    worst_severity: Option<Severity>,
    has_mark: bool,
}

impl Cell {
    /// The sign of a severity that the cell before it did not have, or the line of one that lasts.
    fn glyph(self, before: Cell) -> (char, StyleRole) {
        let starts = self.worst_severity > before.worst_severity;
        match (self.has_mark, self.has_data, self.worst_severity) {
            (true, ..) => ('◆', StyleRole::Key),
            (_, false, _) => (' ', StyleRole::Plain),
            (_, true, None) => ('▁', StyleRole::Dim),
            (_, true, Some(severity)) if starts => (severity_sign(severity), StyleRole::from(severity)),
            (_, true, Some(Severity::Note)) => ('┈', StyleRole::Note),
            // A background of its own would be a solid bar.
            (_, true, Some(Severity::Warning)) => ('─', StyleRole::WarningLine),
            (_, true, Some(Severity::Critical)) => ('━', StyleRole::Critical),
        }
    }
}

/// The cells of a timeline while intervals are added.
struct TimelineCells<'a> {
    scale: &'a TimeScale,
    cells: Vec<Cell>,
}

impl TimelineCells<'_> {
    /// Adds an interval that ended at `at`. `before` is the end of the interval directly before it: all cells after `before`
    /// belong to this interval, because intervals vary in length and may skip a cell.
    fn add_interval(&mut self, before: Option<i64>, at: i64, worst: Option<Severity>) {
        let Some(last) = self.scale.cell_at(at) else { return };
        let first = before.and_then(|before| self.scale.cell_at(before)).map_or(last, |before| last.min(before + 1));
        for cell in self.cells.get_mut(first..=last).into_iter().flatten() {
            cell.has_data = true;
            cell.worst_severity = cell.worst_severity.max(worst);
        }
    }

    /// The same for intervals that follow each other.
    fn add_run(&mut self, run: &TimelineRun) {
        self.add_interval(run.before_ns, run.first_ns, run.worst_severity);
        if run.end_ns > run.first_ns {
            self.add_interval(Some(run.first_ns), run.end_ns, run.worst_severity);
        }
    }

    fn add_mark(&mut self, at: i64) {
        if let Some(cell) = self.scale.cell_at(at).and_then(|at| self.cells.get_mut(at)) {
            cell.has_mark = true;
        }
    }
}

/// Maps times to cells.
struct TimeScale {
    /// Start of the first cell
    start_ns: i64,
    end_ns: i64,
    /// Nanoseconds per cell
    cell_ns: i64,
    first_column: u16,
    cell_count: usize,
    /// Whether the labels have seconds
    label_seconds: bool,
    /// Whether the labels have the day
    label_days: bool,
}

impl TimeScale {
    fn new(state: &State, width: u16) -> Option<TimeScale> {
        let (first, last, typical) = if state.timeline.ticks.is_empty() {
            let first = state.graphs.history.iter().next()?;
            let last = state.graphs.history.iter().next_back()?;
            (first.at.realtime_ns, last.at.realtime_ns, i64::try_from(state.setup.interval_ms).ok()?.saturating_mul(1_000_000))
        } else {
            let (first, last) = (state.timeline.ticks.first()?.realtime_ns, state.timeline.ticks.last()?.realtime_ns);
            let ticks = i64::try_from(state.timeline.ticks.len()).ok()?.saturating_sub(1).max(1);
            (first, last, last.saturating_sub(first) / ticks)
        };
        let typical = typical.max(1_000_000);
        let covered = last.saturating_sub(first).max(0);
        let seconds = !state.capabilities().follows_newest && covered < SECONDS_LABEL_BELOW_NS;
        let days = state.spans_days() && width >= MIN_WIDTH_FOR_DAY;
        let first_cell = match (seconds, days) {
            (true, _) => LABEL_WITH_SECONDS_WIDTH,
            (false, true) => LABEL_WITH_DAY_WIDTH,
            (false, false) => LABEL_WIDTH,
        };
        let count = usize::from(width.checked_sub(2 * first_cell).filter(|&cells| cells > 0)?);
        let cells = i64::try_from(count).ok()?;
        if state.capabilities().follows_newest {
            // A whole number of intervals per cell, aligned to multiples of the cell length.
            let steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 36_000, 360_000];
            let fits = |step: &i64| covered / typical.saturating_mul(*step) + 2 <= cells;
            let cell_ns = typical.saturating_mul(steps.into_iter().find(fits).unwrap_or(3_600_000));
            let end = (last.div_euclid(cell_ns) + 1).saturating_mul(cell_ns);
            let first_ns = end.saturating_sub(cell_ns.saturating_mul(cells));
            return Some(TimeScale {
                start_ns: first_ns,
                end_ns: last,
                cell_ns,
                first_column: first_cell,
                cell_count: count,
                label_seconds: seconds,
                label_days: days,
            });
        }
        // Intervals end in the middle of a cell, so that small variations do not skip one.
        let cell_ns = (covered / (cells - 1).max(1) + 1).max(1_000_000);
        let first_ns = first.saturating_sub(cell_ns / 2);
        let count = usize::try_from(last.saturating_sub(first_ns) / cell_ns + 1).unwrap_or(count).min(count);
        Some(TimeScale {
            start_ns: first_ns,
            end_ns: last,
            cell_ns,
            first_column: first_cell,
            cell_count: count,
            label_seconds: seconds,
            label_days: days,
        })
    }

    fn cell_middle_ns(&self, cell: i64) -> i64 {
        self.start_ns.saturating_add(self.cell_ns.saturating_mul(cell)).saturating_add(self.cell_ns / 2)
    }

    fn cell_at(&self, at: i64) -> Option<usize> {
        let at = usize::try_from(at.checked_sub(self.start_ns)?.div_euclid(self.cell_ns)).ok()?;
        (at < self.cell_count).then_some(at)
    }
}
