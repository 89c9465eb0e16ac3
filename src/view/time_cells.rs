//! A figure over time in one row of cells, as in the tables: the columns of all graphs, with a mark at the displayed time.

use super::theme::StyleRole;
use super::thread_states::LAYERS;
use super::widgets::sparkline::sparkline;
use super::widgets::time_cursor::CURSOR;
use crate::ids::{ProcessId, TaskId};
use crate::interval::Interval;
use crate::interval::task::MIN_AWAKE_SHARE;
use crate::state::State;
use crate::state::history::{GraphFigure, IntervalSummary};

/// Whether a process or thread that was started at this time existed at the end of an interval.
pub fn has_started(interval: &Interval, start_ticks: u64) -> impl Fn(&IntervalSummary) -> bool + use<> {
    let started_ns = (interval.host.seconds(start_ticks as f64) * 1e9) as u64;
    move |summary| summary.at.boottime_ns >= started_ns
}

/// The values of a row of cells.
pub struct TimeCells {
    /// The maximum in each cell; `None`: no data
    pub values: Vec<Option<f32>>,
    /// The cell of the displayed time
    cursor: Option<usize>,
    width: u16,
}

impl TimeCells {
    pub fn new(state: &State, figure: &GraphFigure, width: u16) -> TimeCells {
        if state.setup.terminal.is_slow {
            return TimeCells { values: Vec::new(), cursor: None, width };
        }
        let columns = state.graph_columns(width);
        let values = columns.value_ranges(figure).into_iter().map(|range| range.map(|range| range.max)).collect();
        TimeCells { values, cursor: columns.cursor.map(usize::from), width }
    }

    /// The CPUs that a process used since it started. `interval`: one of that machine.
    pub fn for_process(state: &State, interval: &Interval, id: ProcessId, width: u16) -> TimeCells {
        if state.setup.terminal.is_slow {
            return TimeCells { values: Vec::new(), cursor: None, width };
        }
        let columns = state.page_columns(width);
        let existed = has_started(interval, id.start_ticks);
        let values = columns.nearby(|summary| summary.process_cpus(id).filter(|_| existed(summary)), |&cpus| cpus);
        TimeCells { values, cursor: columns.cursor.map(usize::from), width }
    }

    /// The state in which a thread spent most of the time in which it did not sleep: of the interval in each cell in which it slept least.
    /// `interval`: one of that machine.
    pub fn states_of_thread(
        state: &State,
        interval: &Interval,
        id: TaskId,
        width: u16,
    ) -> impl Iterator<Item = (char, StyleRole)> + use<> {
        let columns = state.graph_columns(if state.setup.terminal.is_slow { 0 } else { width });
        let existed = has_started(interval, id.start_ticks);
        let awake = |shares: &[f32; 6]| shares.iter().sum::<f32>();
        let states = columns.nearby(|summary| summary.thread_states(id).filter(|_| existed(summary)), awake);
        let cursor = columns.cursor.map(usize::from);
        states.into_iter().enumerate().map(move |(at, shares)| match shares {
            _ if cursor == Some(at) => (CURSOR, StyleRole::Playback),
            Some(shares) => state_glyph(shares),
            None => (' ', StyleRole::Dim),
        })
    }

    /// One glyph a cell; `level` is the height of a value, 0 … 1, and its role.
    pub fn glyphs(&self, level: impl Fn(f32) -> (f32, StyleRole)) -> impl Iterator<Item = (char, StyleRole)> {
        self.draw(self.values.iter().map(|value| value.map(&level)).collect())
    }

    /// The same where the role depends on a second figure, with the same cells.
    pub fn glyphs_beside(
        &self,
        others: &[Option<f32>],
        level: impl Fn(f32, Option<f32>) -> (f32, StyleRole),
    ) -> impl Iterator<Item = (char, StyleRole)> {
        let other = |at: usize| others.get(at).copied().flatten();
        self.draw(self.values.iter().enumerate().map(|(at, value)| value.map(|value| level(value, other(at)))).collect())
    }

    fn draw(&self, levels: Vec<Option<(f32, StyleRole)>>) -> impl Iterator<Item = (char, StyleRole)> + use<> {
        let cursor = self.cursor;
        let glyphs = sparkline(self.width, levels.into_iter()).enumerate();
        glyphs.map(move |(at, cell)| if cursor == Some(at) { (CURSOR, StyleRole::Playback) } else { cell })
    }
}

/// The glyph of the state with the largest share of the time: user and system, waiting for a CPU, on storage, behind a lock, otherwise in
/// D; the rest is sleep.
fn state_glyph([user, system, run_queue, disk, lock, other]: [f32; 6]) -> (char, StyleRole) {
    let shares = [user + system, run_queue, disk, lock, other];
    let is_asleep = shares.iter().sum::<f32>() < MIN_AWAKE_SHARE as f32;
    let largest = shares.into_iter().zip(LAYERS).max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| !is_asleep);
    // Not a whole block: rows above each other do not fuse.
    let glyph_of = |glyph| if glyph == '█' { '▇' } else { glyph };
    largest.map_or(('·', StyleRole::Free), |(_, (glyph, role, _))| (glyph_of(glyph), role))
}
