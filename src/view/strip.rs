//! The strip of time: one cell an interval or several, coloured and shaped by the worst finding in it.
//!
//! Live it shows what is in memory, in a replay the whole recording. Cells stand for fixed spans of time, so that they do
//! not shimmer while time goes on; a cell without an interval is a hole.

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
    canvas.text(0, 0, LABEL, safe!("{}", text::clock_short(scale.first_ns, zone)), Ink::Dim);
    let right = scale.first_cell + u16::try_from(scale.count).unwrap_or(0) + 1;
    canvas.rest(right, 0, safe!("{}", text::clock_short(scale.last_ns, zone)), Ink::Dim);
    let mut cells = vec![Cell::default(); scale.count];
    let mut put = |at: i64, worst: Option<Severity>, mark: bool| {
        if let Some(cell) = scale.cell_of(at).and_then(|at| cells.get_mut(at)) {
            cell.seen = true;
            cell.worst = cell.worst.max(worst);
            cell.mark |= mark;
        }
    };
    if state.strip.is_empty() {
        state.history.iter().for_each(|digest| put(digest.at.realtime_ns, digest.worst, false));
    } else {
        state.strip.iter().for_each(|tick| put(tick.realtime_ns, tick.worst, tick.mark.is_some()));
    }
    state.marks.iter().for_each(|mark| put(mark.realtime_ns, None, true));
    let here = state.at().filter(|_| state.paused || !state.is_live()).and_then(|at| scale.cell_of(at.realtime_ns));
    for (at, cell) in (0_u16..).zip(&cells) {
        let (glyph, ink) = cell.looks();
        canvas.glyph(scale.first_cell + at, 0, glyph, ink);
        if here == Some(usize::from(at)) {
            canvas.part(scale.first_cell + at, 0, 1, 1).under_cursor(0, 1);
        }
    }
}

/// The moment that a click on that column means.
pub fn moment_at(state: &State, width: u16, column: u16) -> Option<i64> {
    let scale = Scale::of(state, width)?;
    let at = usize::from(column.checked_sub(scale.first_cell)?);
    let cell = i64::try_from(at).ok()?;
    (at < scale.count).then(|| scale.first_ns + scale.cell_ns * cell + scale.cell_ns / 2)
}

/// `12:01` and a space
const LABEL: u16 = 6;

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

/// From time to cells.
struct Scale {
    first_ns: i64,
    last_ns: i64,
    /// Nanoseconds a cell
    cell_ns: i64,
    first_cell: u16,
    count: usize,
}

impl Scale {
    fn of(state: &State, width: u16) -> Option<Scale> {
        let count = usize::from(width.checked_sub(2 * LABEL).filter(|&cells| cells > 0)?);
        let (first, last, typical) = if state.strip.is_empty() {
            let first = state.history.iter().next()?;
            let last = state.history.iter().next_back()?;
            (first.at.realtime_ns, last.at.realtime_ns, i64::try_from(state.setup.interval_ms).ok()?.saturating_mul(1_000_000))
        } else {
            let (first, last) = (state.strip.first()?.realtime_ns, state.strip.last()?.realtime_ns);
            let ticks = i64::try_from(state.strip.len()).ok()?.saturating_sub(1).max(1);
            (first, last, last.saturating_sub(first) / ticks)
        };
        let cells = i64::try_from(count).ok()?;
        let typical = typical.max(1_000_000);
        let covered = last.saturating_sub(first).max(0);
        if state.is_live() {
            // Whole numbers of intervals a cell, on a grid of their own that stays where it is.
            let steps = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 36_000, 360_000];
            let fits = |step: &i64| covered / typical.saturating_mul(*step) + 2 <= cells;
            let cell_ns = typical.saturating_mul(steps.into_iter().find(fits).unwrap_or(3_600_000));
            let end = (last.div_euclid(cell_ns) + 1).saturating_mul(cell_ns);
            let first_ns = end.saturating_sub(cell_ns.saturating_mul(cells));
            return Some(Scale { first_ns, last_ns: last, cell_ns, first_cell: LABEL, count });
        }
        let cell_ns = (covered / cells + 1).max(typical);
        let count = usize::try_from(covered / cell_ns + 1).unwrap_or(count).min(count);
        Some(Scale { first_ns: first, last_ns: last, cell_ns, first_cell: LABEL, count })
    }

    fn cell_of(&self, at: i64) -> Option<usize> {
        let at = usize::try_from(at.checked_sub(self.first_ns)?.div_euclid(self.cell_ns)).ok()?;
        (at < self.count).then_some(at)
    }
}
