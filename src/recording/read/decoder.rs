//! Decodes the payload of a frame to a sample. Nothing in the payload is trusted, and no more memory is allocated than the size of
//! the payload allows.
//!
//! Values that did not change share the `Arc` of the referenced sample, or of the neighbouring sample that the caller passes in:
//! `Arc::ptr_eq` has the same meaning in a replay as live.

mod sections;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::reused_list::{HeldSamples, ReusedList};
use super::row_changes::NewRows;
use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::format::columns::{read_at, read_first};
use crate::recording::format::names::{self, Names};
use crate::recording::format::references::{MAX_DISTANCE, is_referred_to, parent, row_start};
use crate::recording::format::schema::{
    FACTS, LISTS, List, NAMES, PROCESSES, SAMPLE, SUB_SAMPLE_WAITS, THREAD_COUNT, THREADS, add_thread_counts, from_rows,
};
use crate::recording::format::shared_facts::SharedFacts;
use crate::recording::format::table::{MAX_CHAIN_CELLS, Rows, Table};
use crate::recording::format::wire::Malformed;
use crate::sample::task::{Process, Thread};
use crate::sample::waits::{GroupWait, Waits};
use crate::sample::{Absent, Name, Sample};
use sections::SectionDirectory;

/// What of each sample is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleParts {
    #[default]
    All,
    /// Neither tasks nor what sub-samples saw of them: `Sample::tasks` and `Sample::delays` are `Absent::NotRead`, and
    /// `Sample::waits` is empty. With many tasks this is most of the work.
    WithoutTasks,
}

/// Decodes the frames of one recording. Holds the frames that the next one may refer to.
pub struct Decoder {
    parts: SampleParts,
    /// Samples are decoded in their order only
    in_order: bool,
    /// The sequence number of the key frame.
    key: u64,
    /// The frames of the last chain that are referred to, from the key frame on.
    levels: Vec<Level>,
    /// All names of the levels, in order.
    names: Vec<Name>,
    facts: SharedFacts,
    empty: Name,
    /// Samples whose lists are used again, where samples are decoded in their order only
    held: HeldSamples,
}

/// A frame that later ones refer to.
struct Level {
    distance: u16,
    sample: Arc<Sample>,
    /// Names that are known after it.
    name_count: usize,
    tables: Vec<Arc<Rows>>,
    processes: ProcessTable,
    cells: usize,
}

/// The processes of a frame as rows, as the frame gave them: a value that only a later version has must survive as a number, since
/// later differences are taken from it. Most are those of an earlier level: per process a place is copied, and no row.
#[derive(Default)]
struct ProcessTable {
    places: Vec<ProcessPlace>,
    /// The processes that this frame has changed or added
    rows: Rows,
    /// Their threads, one process after the other
    threads: Rows,
    /// Of each of `rows` the place behind its last thread
    thread_ends: Vec<usize>,
}

/// Where the rows of a process are.
#[derive(Clone, Copy)]
struct ProcessPlace {
    level: u32,
    /// In `ProcessTable::rows` of that level
    index: u32,
}

impl ProcessTable {
    /// A process, and its threads as consecutive rows.
    fn process(&self, index: usize) -> Option<(&[u64], &[u64])> {
        let first = index.checked_sub(1).map_or(Some(0), |before| self.thread_ends.get(before).copied())?;
        Some((self.rows.row(index)?, self.threads.range(first..*self.thread_ends.get(index)?)))
    }
}

/// A decoded frame.
struct Decoded {
    sample: Arc<Sample>,
    tables: Vec<Arc<Rows>>,
    processes: ProcessTable,
    cells: usize,
}

impl Decoder {
    pub fn new(parts: SampleParts) -> Decoder {
        let (facts, empty) = (SharedFacts::default(), Name::default());
        Decoder {
            parts,
            in_order: false,
            key: 0,
            levels: Vec::new(),
            names: Vec::new(),
            facts,
            empty,
            held: HeldSamples::up_to(0),
        }
    }

    /// Decodes samples in their order only, with a third of the memory. `held`: for samples that are released soon.
    pub fn in_order(parts: SampleParts, held: HeldSamples) -> Decoder {
        Decoder { in_order: true, held, ..Decoder::new(parts) }
    }

    /// Whether the sample at that distance from that key frame is held, so that others can be decoded from it.
    pub fn has_reference(&self, key: u64, distance: u16) -> bool {
        self.key == key && self.levels.iter().any(|level| level.distance == distance)
    }

    /// Decodes the sample at that distance from that key frame. The sample that it refers to must be held.
    /// `neighbour` is any sample that was decoded before.
    pub fn decode(
        &mut self,
        key: u64,
        distance: u16,
        at: Timestamp,
        raw: &[u8],
        neighbour: Option<&Sample>,
    ) -> Result<Arc<Sample>, FrameError> {
        let mut known = HashSet::new();
        if distance == 0 {
            self.levels.clear();
            known = self.names.drain(..).collect();
            self.key = key;
        } else {
            let parent = parent(distance);
            if distance > MAX_DISTANCE || !self.has_reference(key, parent) {
                return Err(FrameError::ReferenceMissing);
            }
            while self.levels.pop_if(|level| level.distance > parent).is_some() {}
        }
        self.names.truncate(self.levels.last().map_or(0, |level| level.name_count));
        let sections = SectionDirectory::parse(raw)?;
        if let Some(section) = sections.section(NAMES) {
            self.names.extend(names::read(section, &known)?);
        }
        let names = Names { list: &self.names, empty: &self.empty, facts: &self.facts };
        let frame = FrameDecoder { parts: self.parts, sections, names, levels: &self.levels, neighbour, at };
        let decoded = frame.sample(self.held.take_list())?;
        let chain = self.levels.iter().map(|level| level.cells).sum::<usize>() + decoded.cells;
        if distance > 0 && chain > MAX_CHAIN_CELLS {
            return Err(Malformed("the frames that it refers to hold too much").into());
        }
        if is_referred_to(distance) {
            self.levels.push(Level {
                distance,
                sample: decoded.sample.clone(),
                name_count: self.names.len(),
                tables: decoded.tables,
                processes: decoded.processes,
                cells: decoded.cells,
            });
        }
        if self.in_order {
            self.held.hold(Arc::clone(&decoded.sample));
            self.release_levels(distance);
        }
        Ok(decoded.sample)
    }

    /// Releases what no later frame refers to: all but the last frame and the first one of its row. Of rows of processes at most twice
    /// as many as the last frame has are kept.
    fn release_levels(&mut self, distance: u16) {
        let row_start = row_start(distance);
        if row_start == distance && self.has_superseded_processes() {
            self.own_processes();
        }
        for level in self.levels.iter_mut().filter(|level| level.distance != distance && level.distance != row_start) {
            level.sample = Arc::new(Sample::empty(level.sample.at));
            level.tables = Vec::new();
        }
    }
}

impl Decoder {
    /// Whether most rows of processes that are held are of no process of the last level.
    fn has_superseded_processes(&self) -> bool {
        let held: usize = self.levels.iter().map(|level| level.processes.rows.len()).sum();
        self.levels.last().is_some_and(|last| held > 2 * last.processes.places.len())
    }

    /// The last level gets all its rows of processes; the levels before it, whose rows they are, are not used any more.
    fn own_processes(&mut self) {
        let number = self.levels.len().saturating_sub(1);
        let Ok(level) = u32::try_from(number) else { return };
        let mut own =
            ProcessTable { rows: Rows::new(PROCESSES.width), threads: Rows::new(THREADS.width), ..ProcessTable::default() };
        for place in self.levels.last().map(|last| last.processes.places.as_slice()).unwrap_or_default() {
            let table = self.levels.get(place.level as usize).map(|level| &level.processes);
            let Some((row, threads)) = table.and_then(|table| table.process(place.index as usize)) else { return };
            own.places.push(ProcessPlace { level, index: u32::try_from(own.rows.len()).unwrap_or(u32::MAX) });
            own.rows.push(row);
            own.threads.push(threads);
            own.thread_ends.push(own.threads.len());
        }
        for level in &mut self.levels {
            level.processes = ProcessTable::default();
        }
        if let Some(last) = self.levels.last_mut() {
            last.processes = own;
        }
    }
}

/// Decodes one frame.
struct FrameDecoder<'d> {
    parts: SampleParts,
    sections: SectionDirectory<'d>,
    names: Names<'d>,
    /// The last one is the reference.
    levels: &'d [Level],
    neighbour: Option<&'d Sample>,
    at: Timestamp,
}

impl FrameDecoder<'_> {
    /// `list`: of a sample that is not used any more.
    fn sample(&self, list: Vec<Arc<Process>>) -> Result<Decoded, Malformed> {
        self.sections.check_size()?;
        let (mut cells, mut tables) = (0, Vec::with_capacity(LISTS.len() + 2));
        let row = self.rows(SAMPLE, &mut tables, &mut cells)?;
        let row = row.row(0).ok_or(Malformed("the row of the sample is missing"))?;
        let mut sample: Sample = read_at(row, 0, &self.names)?;
        sample.at.boottime_ns = self.at.boottime_ns;
        sample.at.monotonic_ns = sample.at.monotonic_ns.wrapping_add(self.at.boottime_ns);
        sample.at.realtime_ns = self.at.realtime_ns;
        let left_out = |list: &&List| self.parts == SampleParts::WithoutTasks && list.is_of_tasks();
        for list in LISTS.iter().filter(|list| !left_out(list)) {
            let rows = self.rows(list.table, &mut tables, &mut cells)?;
            (list.fill)(&mut sample, rows, &self.names)?;
        }
        let mut process_rows = ProcessTable::default();
        if self.parts == SampleParts::WithoutTasks {
            (sample.tasks, sample.delays, sample.waits) = (Err(Absent::NotRead), Err(Absent::NotRead), Waits::default());
        } else {
            let rows = self.rows(SUB_SAMPLE_WAITS, &mut tables, &mut cells)?;
            for (place, wait) in from_rows::<(u16, GroupWait)>(rows, &self.names)? {
                let sub_sample = sample.waits.sub_samples.get_mut(usize::from(place));
                sub_sample.ok_or(Malformed("a wait belongs to no sub-sample"))?.waits.push(wait);
            }
            if let Ok(tasks) = &mut sample.tasks {
                (tasks.processes, process_rows) = self.processes(&mut cells, list)?;
            }
        }
        Ok(Decoded { sample: Arc::new(sample), tables, processes: process_rows, cells })
    }

    /// The rows of a table that needs nothing else; a table without a section did not change. Also the last of `tables`.
    fn rows<'t>(&self, table: Table, tables: &'t mut Vec<Arc<Rows>>, cells: &mut usize) -> Result<&'t Rows, Malformed> {
        let reference = self.levels.last().and_then(|level| level.tables.get(tables.len())).cloned();
        let reference = reference.unwrap_or_else(|| Arc::new(Rows::new(table.width)));
        let rows = match self.sections.changes(table, cells)? {
            Some(changes) => Arc::new(changes.to_rows(&reference)?),
            None => reference,
        };
        tables.push(rows);
        tables.last().map(Arc::as_ref).ok_or(Malformed("a table is missing"))
    }

    /// The processes, and their rows that later frames refer to.
    fn processes(&self, cells: &mut usize, list: Vec<Arc<Process>>) -> Result<(Vec<Arc<Process>>, ProcessTable), Malformed> {
        let reference = self.levels.last();
        let old_places = reference.map(|level| level.processes.places.as_slice()).unwrap_or_default();
        let old_tasks = reference.and_then(|level| level.sample.tasks.as_ref().ok());
        let old_list = old_tasks.map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
        let Some(changes) = self.sections.changes(PROCESSES, cells)? else {
            let mut list = ReusedList::new(list, old_list.len());
            list.extend(old_list);
            return Ok((list.finish(), ProcessTable { places: old_places.to_vec(), ..ProcessTable::default() }));
        };
        // What the processes become, and the former threads of those that changed.
        let mut plan: Vec<Plan> = Vec::new();
        let mut rows = Rows::with_capacity(PROCESSES.width, changes.row_count());
        let mut old_threads = Rows::with_capacity(THREADS.width, changes.row_count());
        let old_rows = |at: usize| self.process_rows(*old_places.get(at)?);
        changes.apply(
            old_places.len(),
            |at| old_rows(at).map(|(row, _)| row),
            None,
            &mut rows,
            |rows, new| match new {
                NewRows::Same(places) => plan.push(Plan::Same(places)),
                NewRows::Appended { old } => {
                    old.and_then(old_rows).iter().for_each(|(_, threads)| old_threads.push(threads));
                    plan.push(Plan::Build { at: rows.len().saturating_sub(1), old });
                }
            },
        )?;
        let threads = match self.sections.changes(THREADS, cells)? {
            Some(changes) => changes.to_rows_after(&old_threads, None)?,
            None => old_threads,
        };
        let mut list = ReusedList::new(list, old_list.len() + rows.len());
        let mut places = Vec::with_capacity(old_list.len() + rows.len());
        let mut thread_ends = Vec::with_capacity(rows.len());
        let level = u32::try_from(self.levels.len()).unwrap_or(u32::MAX);
        for step in plan {
            match step {
                Plan::Same(range) => {
                    let same = old_list.get(range.clone()).zip(old_places.get(range));
                    let (processes, same_places) =
                        same.ok_or(Malformed("a process is not in the sample that is referred to"))?;
                    list.extend(processes);
                    places.extend_from_slice(same_places);
                }
                Plan::Build { at, old } => {
                    let row = rows.row(at).unwrap_or_default();
                    let old = old.and_then(|old| Some((old_rows(old)?.0, old_list.get(old)?)));
                    let first_thread = thread_ends.last().copied().unwrap_or(0);
                    let process = self.process(row, old, (&threads, first_thread))?;
                    thread_ends.push(first_thread + process.threads.len());
                    list.push(self.shared(process, list.len()));
                    places.push(ProcessPlace { level, index: u32::try_from(at).unwrap_or(u32::MAX) });
                }
            }
        }
        if thread_ends.last().copied().unwrap_or(0) != threads.len() {
            return Err(Malformed("there are threads without a process"));
        }
        Ok((list.finish(), ProcessTable { places, rows, threads, thread_ends }))
    }

    fn process_rows(&self, place: ProcessPlace) -> Option<(&[u64], &[u64])> {
        self.levels.get(place.level as usize)?.processes.process(place.index as usize)
    }

    /// A process from its row and the rows of its threads, with the place of the first. `old`: its row and itself in the sample
    /// that is referred to.
    fn process(
        &self,
        row: &[u64],
        old: Option<(&[u64], &Arc<Process>)>,
        (threads, first): (&Rows, usize),
    ) -> Result<Process, Malformed> {
        let count = row.get(THREAD_COUNT).and_then(|&count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        if count > threads.len().saturating_sub(first) {
            return Err(Malformed("a process claims more threads than there are"));
        }
        let thread = |at: usize| {
            let mut row = threads.row(at).unwrap_or_default();
            let _pid: u32 = read_first(&mut row, &self.names)?;
            read_first::<Thread>(&mut row, &self.names)
        };
        // Most have one, which needs no list to be built first.
        let list: Arc<[Thread]> = match count {
            1 => Arc::new([thread(first)?]),
            _ => (first..first + count).map(thread).collect::<Result<_, _>>()?,
        };
        // Facts rarely change, and building them takes longer than the rest.
        let same_facts = old.filter(|(old_row, _)| old_row.get(FACTS) == row.get(FACTS)).map(|(_, old)| Arc::clone(&old.facts));
        self.names.facts.set_process_parts(list, same_facts);
        let mut process: Process = read_at(row, 0, &self.names)?;
        add_thread_counts(&mut process);
        Ok(process)
    }

    /// The process of the neighbour where it is equal: it did not change between the two samples. Mostly at least its facts are.
    /// `place`: its place in this sample, which is mostly the same in the neighbour.
    fn shared(&self, mut process: Process, place: usize) -> Arc<Process> {
        let tasks = self.neighbour.and_then(|sample| sample.tasks.as_ref().ok());
        let straight = tasks.and_then(|tasks| tasks.processes.get(place)).filter(|near| near.pid == process.pid);
        match straight.or_else(|| tasks?.process(process.pid)) {
            Some(same) if **same == process => return same.clone(),
            Some(near) if near.facts == process.facts => process.facts = near.facts.clone(),
            _ => {}
        }
        Arc::new(process)
    }
}

/// What processes of the new sample are made from.
enum Plan {
    /// Those at these places of the reference
    Same(Range<usize>),
    /// The row at that place; the process was at `old` of the reference
    Build { at: usize, old: Option<usize> },
}
