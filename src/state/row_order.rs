//! Keeps the order of the rows of a live list for some seconds, so that a row can be read before it moves. A row that enters the
//! visible part takes the place of one that has gone near where it belongs, else it is put there at once. A process that ended keeps
//! its place until then, so that the rows below it do not move.

mod hot_threads;

use std::sync::Arc;

use self::hot_threads::HeldThreads;
use super::rows::{self, Item, Row, TaskRows};
use super::{Screen, Sort, State};
use crate::findings::Evaluation;
use crate::ids::GroupId;
use crate::interval::process_groups::{ProcessGroup, process_groups};
use crate::sample::task::Process;

/// How long an order is kept.
const HELD_NS: u64 = 3_000_000_000;

/// Rows from the first one whose order is kept: more than a screen shows.
const HELD_ROWS: usize = 128;

/// The order of rows at some time, and for which list it is.
#[derive(Clone, Debug)]
struct HeldOrder {
    screen: Screen,
    sort: Sort,
    task_rows: TaskRows,
    filter: String,
    /// CLOCK_BOOTTIME of the sample
    since_ns: u64,
    rows: Vec<HeldRow>,
}

/// A place in the order.
#[derive(Clone, Debug)]
struct HeldRow {
    item: Item,
    /// In the list of processes, as it was last
    process: Option<Arc<Process>>,
}

/// The orders that are kept.
#[derive(Clone, Debug, Default)]
pub struct HeldOrders {
    /// Of the rows of the displayed list
    rows: Option<HeldOrder>,
    /// Overview: of the process groups
    pub groups: HeldGroups,
    /// Of the hottest threads
    pub threads: HeldThreads,
}

/// The order of the process groups of the overview at some time.
#[derive(Clone, Debug, Default)]
pub struct HeldGroups {
    since_ns: u64,
    groups: Vec<GroupId>,
}

impl State {
    /// Rows in the order that is kept, or in their own, which is kept from now on.
    pub(super) fn in_held_order(&mut self, mut rows: Vec<Row>) -> Vec<Row> {
        let Some(now_ns) = self.live_time_ns() else {
            self.lists.held.rows = None;
            return rows;
        };
        if matches!(self.screen, Screen::Overview | Screen::Findings) || self.fixed_order_reason().is_some() {
            return rows;
        }
        let held = self.lists.held.rows.as_ref().filter(|held| {
            (held.screen, held.sort, held.task_rows) == (self.screen, self.sort(), self.lists.task_rows)
                && held.filter == self.filter()
                && is_held(held.since_ns, now_ns)
        });
        if let Some(held) = held {
            let (ended, displaced) = self.missing_rows(held, first_rows(&mut rows));
            let mut count = rows.len().min(HELD_ROWS);
            for (place, row) in displaced {
                if let Some(at) = rows.iter().skip(count).position(|other| *other == row) {
                    rows.remove(count + at);
                    rows.insert(place.min(count), row);
                    count += 1;
                }
            }
            let first = rows.get(..count).unwrap_or_default();
            let now: Vec<Option<HeldRow>> = first.iter().map(|&row| self.held_row(row)).collect();
            let place = |(at, row): (usize, &Option<HeldRow>)| {
                let is_same = |held: &HeldRow| row.as_ref().is_some_and(|row| row.item == held.item);
                // Most rows are where they were.
                if held.rows.get(at).is_some_and(is_same) { Some(at) } else { held.rows.iter().position(is_same) }
            };
            let mut places: Vec<Option<usize>> = now.iter().enumerate().map(place).collect();
            fill_vacant_places(&mut places, held.rows.len());
            if let Some(held) = &mut self.lists.held.rows {
                for (place, row) in places.iter().zip(now).filter_map(|(place, row)| Some(((*place)?, row?))) {
                    held.rows.get_mut(place).into_iter().for_each(|known| known.clone_from(&row));
                }
            }
            for place in ended {
                if places.contains(&Some(place)) {
                    continue;
                }
                let at = place.min(places.len());
                rows.insert(at, Row::EndedProcess { place });
                places.insert(at, Some(place));
            }
            let count = places.len();
            reorder(rows.get_mut(..count).unwrap_or_default(), &places);
            return rows;
        }
        let first = rows.iter().take(HELD_ROWS).filter_map(|&row| self.held_row(row)).collect();
        self.lists.held.rows = Some(HeldOrder {
            screen: self.screen,
            sort: self.sort(),
            task_rows: self.lists.task_rows,
            filter: self.filter().to_owned(),
            since_ns: now_ns,
            rows: first,
        });
        rows
    }

    fn held_row(&self, row: Row) -> Option<HeldRow> {
        let process = match row {
            Row::Process { index, .. } => self.current()?.interval.newer.tasks.as_ref().ok()?.processes.get(index).cloned(),
            _ => None,
        };
        Some(HeldRow { item: rows::row_item(self, row)?, process })
    }

    /// The processes that have a place and are not among the first rows: the places of those that ended, and the rows of the others,
    /// which became idle, with their places.
    fn missing_rows(&self, held: &HeldOrder, first: &[Row]) -> (Vec<usize>, Vec<(usize, Row)>) {
        let (mut ended, mut displaced) = (Vec::new(), Vec::new());
        let Some(Ok(tasks)) = self.current().map(|evaluation| evaluation.interval.newer.tasks.as_ref()) else {
            return (ended, displaced);
        };
        let mut is_first = vec![false; tasks.processes.len()];
        for row in first {
            if let Row::Process { index, .. } = *row
                && let Some(is_first) = is_first.get_mut(index)
            {
                *is_first = true;
            }
        }
        for (place, process) in held.rows.iter().enumerate().filter_map(|(place, row)| Some((place, row.process.as_ref()?))) {
            match tasks.processes.binary_search_by_key(&process.pid, |other| other.pid) {
                Ok(index) if tasks.processes.get(index).is_some_and(|now| now.id() == process.id()) => {
                    if is_first.get(index) == Some(&false) {
                        displaced.push((place, Row::Process { index, depth: 0 }));
                    }
                }
                _ => ended.push(place),
            }
        }
        (ended, displaced)
    }

    /// The process of a row of an ended one, as it was last.
    pub fn ended_process(&self, place: usize) -> Option<&Process> {
        self.lists.held.rows.as_ref()?.rows.get(place)?.process.as_deref()
    }

    /// Keeps the order of the process groups of the newest interval, if that of an earlier one is old enough.
    pub(super) fn hold_groups(&mut self) {
        let Some(now_ns) = self.live_time_ns() else {
            self.lists.held.groups = HeldGroups::default();
            return;
        };
        if is_held(self.lists.held.groups.since_ns, now_ns) {
            return;
        }
        let Some(evaluation) = &self.playback.current else { return };
        let groups = process_groups(&evaluation.interval).into_iter().take(HELD_ROWS).map(|group| group.id).collect();
        self.lists.held.groups = HeldGroups { since_ns: now_ns, groups };
    }

    /// The number of process groups; of a live screen that of those whose order is kept, because each layout needs it.
    pub(super) fn process_group_count(&self, evaluation: &Evaluation) -> usize {
        match self.live_time_ns() {
            Some(_) => self.lists.held.groups.groups.len(),
            None => process_groups(&evaluation.interval).len(),
        }
    }

    /// The time of the displayed sample, if it is the newest one of this machine.
    fn live_time_ns(&self) -> Option<u64> {
        self.shown_at().filter(|_| self.shows_newest()).map(|at| at.boottime_ns)
    }
}

impl HeldGroups {
    /// Puts the groups into the order that is kept.
    pub fn reorder(&self, groups: &mut [ProcessGroup]) {
        let first = first_rows(groups);
        let places: Vec<Option<usize>> =
            first.iter().map(|group| self.groups.iter().position(|held| *held == group.id)).collect();
        reorder(first, &places);
    }
}

/// The rows whose order is kept.
fn first_rows<T>(rows: &mut [T]) -> &mut [T] {
    let count = rows.len().min(HELD_ROWS);
    rows.get_mut(..count).unwrap_or_default()
}

fn is_held(since_ns: u64, now_ns: u64) -> bool {
    since_ns != 0 && now_ns.checked_sub(since_ns).is_some_and(|age| age < HELD_NS)
}

/// How far from where it belongs a new row may be.
const MAX_DISTANCE: usize = 8;

/// Gives new rows the places of rows that have gone: the rows between the two do not move.
fn fill_vacant_places(places: &mut [Option<usize>], held: usize) {
    let mut is_vacant = vec![true; held];
    places.iter().flatten().for_each(|&place| is_vacant[place] = false);
    for (row, place) in places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
        let near = row.saturating_sub(MAX_DISTANCE)..held.min(row + MAX_DISTANCE + 1);
        if let Some(nearest) = near.filter(|&at| is_vacant[at]).min_by_key(|at| at.abs_diff(row)) {
            is_vacant[nearest] = false;
            *place = Some(nearest);
        }
    }
}

/// Sorts the rows that have a place among themselves; the others stay where they are.
fn reorder<T>(rows: &mut [T], places: &[Option<usize>]) {
    let mut wanted: Vec<Option<usize>> = places.to_vec();
    // Insertion sort over the slots of placed rows: they are few and nearly sorted.
    let slots: Vec<usize> = (0..rows.len()).filter(|&at| wanted.get(at).is_some_and(Option::is_some)).collect();
    for end in 1..slots.len() {
        for at in (1..=end).rev() {
            let (Some(&left), Some(&right)) = (slots.get(at - 1), slots.get(at)) else { break };
            if wanted.get(left) <= wanted.get(right) {
                break;
            }
            rows.swap(left, right);
            wanted.swap(left, right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Event, Key, Source, update};
    use crate::synthetic::{evaluation, process, sample, screen};

    #[test]
    fn known_rows_keep_their_order_and_new_ones_their_place() {
        let mut rows = ["new", "b", "a", "c"];
        reorder(&mut rows, &[None, Some(1), Some(0), Some(2)]);
        assert_eq!(rows, ["new", "a", "b", "c"]);
    }

    #[test]
    fn a_new_row_takes_the_place_of_one_that_has_gone_near_it() {
        // Held were a, b, c, d; b has gone.
        let mut rows = ["new", "a", "c", "d"];
        let mut places = [None, Some(0), Some(2), Some(3)];
        fill_vacant_places(&mut places, 4);
        reorder(&mut rows, &places);
        assert_eq!(rows, ["a", "new", "c", "d"]);
        let mut places: Vec<Option<usize>> = std::iter::once(None).chain((0..20).map(Some)).collect();
        fill_vacant_places(&mut places, 21);
        assert_eq!(places.first(), Some(&None), "the place is too far from where it belongs");
    }

    #[test]
    fn an_order_is_kept_for_some_seconds() {
        let mut state = screen((80, 24), Source::Live);
        // The process that used most CPU time in the second before is another one in each second.
        let mut first_after = |second: u32| {
            let at = |second: u32| {
                let ran = |parity| u64::from((second + parity) / 2) * 500_000_000 + u64::from(second) * 100_000_000;
                let processes = [process(10, "even").ran(ran(0)), process(20, "odd").ran(ran(1))];
                sample(100.0 + f64::from(second)).processes(processes)
            };
            update(&mut state, Event::Evaluation(evaluation(at(second - 1), at(second))));
            if second == 1 {
                update(&mut state, Event::Key(Key::Char('5')));
            }
            let tasks = state.current().unwrap().interval.newer.tasks.as_ref().unwrap();
            let Some(&Row::Process { index, .. }) = state.rows().first() else { panic!("no process") };
            tasks.processes[index].pid
        };
        assert_eq!([1, 2, 3, 4, 5, 6, 7].map(&mut first_after), [20, 20, 20, 10, 10, 10, 20]);
    }
}
