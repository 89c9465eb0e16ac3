//! The strip of time: one cell an interval or several, coloured and shaped by the worst finding in it.
//!
//! Live it shows what is in memory, in a replay the whole recording. Cells stand for fixed spans of time, so that they do
//! not shimmer while time goes on; a cell of which no interval knows anything is a hole.

use super::canvas::Canvas;
use super::text;
use super::theme::Ink;
use crate::findings::Severity;
use crate::safe;
use crate::state::State;

/// `12:01 ▁▁▁▁▂▂███ 12:03`
pub fn draw(state: &State, canvas: &mut Canvas) {
    let Some(scale) = Scale::of(state, canvas.width()) else { return };
    let zone = &state.setup.zone;
    let clock = |at| match scale.seconds {
        true => text::clock(at, zone),
        false => text::day(at, zone, scale.days) + &text::clock_short(at, zone),
    };
    canvas.text(0, 0, scale.first_cell, safe!("{}", clock(scale.middle_of(0))), Ink::Dim);
    let right = scale.first_cell + u16::try_from(scale.count).unwrap_or(0) + 1;
    canvas.rest(right, 0, safe!("{}", clock(scale.last_ns)), Ink::Dim);
    let mut cells = Cells { scale: &scale, cells: vec![Cell::default(); scale.count] };
    let mut before = None;
    if state.strip.is_empty() {
        for digest in state.history.iter() {
            let at = digest.at.realtime_ns;
            let begun = at.saturating_sub((f64::from(digest.seconds) * 1e9) as i64);
            cells.put(before.filter(|&before| begun.saturating_sub(before) <= scale.cell_ns / 2), at, digest.worst);
            before = Some(at);
        }
    } else {
        for tick in state.strip.iter() {
            cells.put(before.filter(|_| !tick.gap), tick.realtime_ns, tick.worst);
            before = Some(tick.realtime_ns);
        }
        state.strip.iter().filter(|tick| tick.mark.is_some()).for_each(|tick| cells.mark(tick.realtime_ns));
    }
    state.marks.iter().for_each(|mark| cells.mark(mark.realtime_ns));
    let here = state
        .at()
        .filter(|_| state.paused || !state.capabilities().follows_newest)
        .and_then(|at| scale.cell_of(at.realtime_ns));
    for (at, cell) in (0_u16..).zip(&cells.cells) {
        // A full block in reverse would look like a hole.
        let (glyph, ink) = if here == Some(usize::from(at)) { ('▼', Ink::Playback) } else { cell.looks() };
        canvas.glyph(scale.first_cell + at, 0, glyph, ink);
    }
}

/// The moment that a click on that column means.
pub fn moment_at(state: &State, width: u16, column: u16) -> Option<i64> {
    let scale = Scale::of(state, width)?;
    let at = usize::from(column.checked_sub(scale.first_cell)?);
    let cell = i64::try_from(at).ok()?;
    (at < scale.count).then(|| scale.middle_of(cell))
}

/// `12:01` and a space
const LABEL: u16 = 6;

/// `12:01:30` and a space
const LABEL_WITH_SECONDS: u16 = 9;

/// `Nov 21 12:01` and a space
const LABEL_WITH_DAY: u16 = 13;

/// Narrower ones have no room for the day.
const LEAST_FOR_DAYS: u16 = 70;

/// Of less than this the minutes alone do not tell the ends apart, nanoseconds.
const SHORT_NS: i64 = 600_000_000_000;

#[derive(Clone, Copy, Default)]
struct Cell {
    seen: bool,
    worst: Option<Severity>,
    mark: bool,
}

impl Cell {
    fn looks(self) -> (char, Ink) {
        match (self.mark, self.seen, self.worst) {
            (true, ..) => ('◆', Ink::Key),
            (_, false, _) => (' ', Ink::Plain),
            (_, true, None) => ('▁', Ink::Dim),
            (_, true, Some(Severity::Note)) => ('▂', Ink::Note),
            (_, true, Some(Severity::Warning)) => ('▅', Ink::Warning),
            (_, true, Some(Severity::Critical)) => ('█', Ink::Critical),
        }
    }
}

/// The strip while it is filled.
struct Cells<'a> {
    scale: &'a Scale,
    cells: Vec<Cell>,
}

impl Cells<'_> {
    /// An interval that ended at `at`. Where it follows the one that ended at `before`, the cells between them are its own:
    /// intervals are never so regular that there is exactly one in each cell.
    fn put(&mut self, before: Option<i64>, at: i64, worst: Option<Severity>) {
        let Some(last) = self.scale.cell_of(at) else { return };
        let first = before.and_then(|before| self.scale.cell_of(before)).map_or(last, |before| last.min(before + 1));
        for cell in self.cells.get_mut(first..=last).into_iter().flatten() {
            cell.seen = true;
            cell.worst = cell.worst.max(worst);
        }
    }

    fn mark(&mut self, at: i64) {
        if let Some(cell) = self.scale.cell_of(at).and_then(|at| self.cells.get_mut(at)) {
            cell.mark = true;
        }
    }
}

/// From time to cells.
struct Scale {
    /// The edge of the first cell
    first_ns: i64,
    last_ns: i64,
    /// Nanoseconds a cell
    cell_ns: i64,
    first_cell: u16,
    count: usize,
    /// Whether the ends are told to the second
    seconds: bool,
    /// Or with their day
    days: bool,
}

impl Scale {
    fn of(state: &State, width: u16) -> Option<Scale> {
        let (first, last, typical) = if state.strip.is_empty() {
            let first = state.history.iter().next()?;
            let last = state.history.iter().next_back()?;
            (first.at.realtime_ns, last.at.realtime_ns, i64::try_from(state.setup.interval_ms).ok()?.saturating_mul(1_000_000))
        } else {
            let (first, last) = (state.strip.first()?.realtime_ns, state.strip.last()?.realtime_ns);
            let ticks = i64::try_from(state.strip.len()).ok()?.saturating_sub(1).max(1);
            (first, last, last.saturating_sub(first) / ticks)
        };
        let typical = typical.max(1_000_000);
        let covered = last.saturating_sub(first).max(0);
        let seconds = !state.capabilities().follows_newest && covered < SHORT_NS;
        let days = state.spans_days() && width >= LEAST_FOR_DAYS;
        let first_cell = match (seconds, days) {
            (true, _) => LABEL_WITH_SECONDS,
            (false, true) => LABEL_WITH_DAY,
            (false, false) => LABEL,
        };
        let count = usize::from(width.checked_sub(2 * first_cell).filter(|&cells| cells > 0)?);
        let cells = i64::try_from(count).ok()?;
        if state.capabilities().follows_newest {
            // Whole numbers of intervals a cell, on a grid of their own that stays where it is.
            let steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 36_000, 360_000];
            let fits = |step: &i64| covered / typical.saturating_mul(*step) + 2 <= cells;
            let cell_ns = typical.saturating_mul(steps.into_iter().find(fits).unwrap_or(3_600_000));
            let end = (last.div_euclid(cell_ns) + 1).saturating_mul(cell_ns);
            let first_ns = end.saturating_sub(cell_ns.saturating_mul(cells));
            return Some(Scale { first_ns, last_ns: last, cell_ns, first_cell, count, seconds, days });
        }
        // Intervals end in the middle of their cells, and not on the edges.
        let cell_ns = (covered / (cells - 1).max(1) + 1).max(typical);
        let first_ns = first.saturating_sub(cell_ns / 2);
        let count = usize::try_from(last.saturating_sub(first_ns) / cell_ns + 1).unwrap_or(count).min(count);
        Some(Scale { first_ns, last_ns: last, cell_ns, first_cell, count, seconds, days })
    }

    fn middle_of(&self, cell: i64) -> i64 {
        self.first_ns.saturating_add(self.cell_ns.saturating_mul(cell)).saturating_add(self.cell_ns / 2)
    }

    fn cell_of(&self, at: i64) -> Option<usize> {
        let at = usize::try_from(at.checked_sub(self.first_ns)?.div_euclid(self.cell_ns)).ok()?;
        (at < self.count).then_some(at)
    }
}
