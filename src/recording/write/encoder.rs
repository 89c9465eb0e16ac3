//! Encodes a sample as the payload of a frame: completely in a key frame, otherwise as differences from an earlier sample.

use std::sync::Arc;

use super::row_diff::{MAX_SECTION_HEAD, RowDiff, put_section_head};
use crate::recording::format::columns::write_at;
use crate::recording::format::meta::Redaction;
use crate::recording::format::names::Interner;
use crate::recording::format::references::{is_referred_to, parent, row_start};
use crate::recording::format::schema::{
    CONTAINER_NAMES, LISTS, NAMES, PROCESSES, SAMPLE, SUB_SAMPLE_WAITS, THREADS, subtract_thread_counts, to_rows,
};
use crate::recording::format::table::{MAX_CHAIN_CELLS, Rows, Table};
use crate::sample::task::{Process, ProcessFacts, Thread};
use crate::sample::waits::GroupWait;
use crate::sample::{Absent, Sample};

/// Samples of a key group: with many processes of which few are active, key frames are half of the recording.
const SAMPLES_A_GROUP: u16 = 120;
/// Bytes of deltas after which a key group ends early.
const BYTES_A_GROUP: usize = 1 << 20;

/// Encodes one sample after the other. Holds the samples that the next one may refer to.
pub struct Encoder {
    redaction: Redaction,
    names: Interner,
    /// The frames of the key group that a later one may refer to, by their distance.
    levels: Vec<Level>,
    /// Distance of the next frame, unless it is a key frame.
    next: u16,
    delta_bytes: usize,
    /// A buffer for the section being written.
    scratch: Vec<u8>,
}

/// A frame that later ones refer to.
struct Level {
    distance: u16,
    sample: Arc<Sample>,
    tables: Vec<Rows>,
    /// Names that are known after it.
    name_count: usize,
    /// Columns of all frames of its chain, itself included.
    chain_cells: usize,
}

/// The payload of a sample, not compressed.
pub struct EncodedPayload {
    /// Samples after the key frame; 0 is a key frame.
    pub key_distance: u16,
    pub raw: Vec<u8>,
}

/// A sample that has more rows than a frame may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLarge;

impl Encoder {
    pub fn new(redaction: Redaction) -> Encoder {
        Encoder { redaction, names: Interner::default(), levels: Vec::new(), next: 0, delta_bytes: 0, scratch: Vec::new() }
    }

    /// Makes the next sample a key frame.
    pub fn force_key_frame(&mut self) {
        self.levels.clear();
    }

    /// Counts the bytes of the last frame: they decide when the next key frame is due.
    pub fn add_stored_bytes(&mut self, bytes: usize) {
        self.delta_bytes = if self.next == 1 { 0 } else { self.delta_bytes + bytes };
    }

    pub fn encode(&mut self, sample: &Arc<Sample>) -> Result<EncodedPayload, FrameTooLarge> {
        if self.next >= SAMPLES_A_GROUP || self.delta_bytes >= BYTES_A_GROUP {
            self.levels.clear();
        }
        if !self.levels.is_empty() {
            let parent = parent(self.next);
            while self.levels.pop_if(|level| level.distance > parent).is_some() {}
        }
        // Moved out, so that after a failure the next sample is a key frame.
        let mut levels = std::mem::take(&mut self.levels);
        let reference = levels.last();
        let distance = if reference.is_some() { self.next } else { 0 };
        match reference {
            Some(reference) => self.names.begin_delta(reference.name_count),
            None => self.names.begin_key(),
        }
        let mut payload = PayloadEncoder::new(self, reference);
        payload.encode(sample)?;
        let PayloadEncoder { sections, tables, cells, .. } = payload;
        let chain_cells = reference.map_or(0, |reference| reference.chain_cells) + cells;
        if distance > 0 && chain_cells > MAX_CHAIN_CELLS {
            // A key frame needs no other frame.
            return self.encode(sample);
        }
        let raw = self.with_names(&sections)?;
        levels.retain(|level| level.distance == row_start(distance));
        if is_referred_to(distance) {
            let name_count = self.names.len();
            levels.push(Level { distance, sample: sample.clone(), tables, name_count, chain_cells });
        }
        self.levels = levels;
        self.next = distance + 1;
        Ok(EncodedPayload { key_distance: distance, raw })
    }

    /// Puts the new names before the sections that use them.
    fn with_names(&mut self, sections: &[u8]) -> Result<Vec<u8>, FrameTooLarge> {
        if self.names.is_too_large() {
            return Err(FrameTooLarge);
        }
        let names = self.names.length();
        let mut raw = Vec::with_capacity(names + MAX_SECTION_HEAD + sections.len());
        if self.names.has_own() {
            put_section_head(&mut raw, NAMES, names);
            self.names.write(&mut raw);
        }
        raw.extend_from_slice(sections);
        Ok(raw)
    }
}

/// Encodes one frame.
struct PayloadEncoder<'e> {
    names: &'e mut Interner,
    scratch: &'e mut Vec<u8>,
    redaction: Redaction,
    reference: Option<&'e Level>,
    sections: Vec<u8>,
    /// The tables that need nothing but their rows.
    tables: Vec<Rows>,
    cells: usize,
}

impl<'e> PayloadEncoder<'e> {
    fn new(encoder: &'e mut Encoder, reference: Option<&'e Level>) -> PayloadEncoder<'e> {
        PayloadEncoder {
            names: &mut encoder.names,
            scratch: &mut encoder.scratch,
            redaction: encoder.redaction,
            reference,
            sections: Vec::new(),
            tables: Vec::new(),
            cells: 0,
        }
    }

    fn encode(&mut self, sample: &Sample) -> Result<(), FrameTooLarge> {
        if self.reference.is_none() {
            self.intern_common_names(sample);
        }
        let rows = to_rows(std::slice::from_ref(sample), self.names);
        self.write_table(SAMPLE, rows)?;
        for list in LISTS {
            let redacted = self.redaction == Redaction::Arguments && list.table.section == CONTAINER_NAMES;
            let rows = if redacted { Rows::new(list.table.width) } else { (list.rows)(sample, self.names) };
            self.write_table(list.table, rows)?;
        }
        let rows = to_rows(&sub_sample_waits(sample)?, self.names);
        self.write_table(SUB_SAMPLE_WAITS, rows)?;
        self.write_tasks(sample)
    }

    /// Gives the lowest numbers to the names that many tasks have in common, since they are written most often.
    fn intern_common_names(&mut self, sample: &Sample) {
        let threads = processes(sample).iter().flat_map(|process| process.threads.iter());
        for wchan in threads.filter_map(|thread| thread.wait.wchan.as_ref().ok()) {
            self.names.name(wchan);
        }
        for process in processes(sample) {
            let facts = &process.facts;
            let names = [facts.executable.as_ref().ok(), facts.cgroup.as_ref().ok().map(|cgroup| &cgroup.path)];
            for name in names.into_iter().flatten().chain([&process.comm]) {
                self.names.name(name);
            }
        }
    }

    /// Writes a table that needs nothing but its rows, against the same one of the sample that is referred to.
    fn write_table(&mut self, table: Table, rows: Rows) -> Result<(), FrameTooLarge> {
        let none = Rows::new(table.width);
        let reference = self.reference.and_then(|level| level.tables.get(self.tables.len())).unwrap_or(&none);
        let diff = RowDiff::between(table, reference, &rows);
        self.tables.push(rows);
        self.write_diff(&diff)
    }

    fn write_diff(&mut self, diff: &RowDiff) -> Result<(), FrameTooLarge> {
        self.cells += diff.cell_count();
        if diff.is_too_large() || self.cells > MAX_CHAIN_CELLS {
            return Err(FrameTooLarge);
        }
        if !diff.is_all_same() {
            diff.write(&mut self.sections, self.scratch);
        }
        Ok(())
    }

    fn write_tasks(&mut self, sample: &Sample) -> Result<(), FrameTooLarge> {
        let old = self.reference.map(|level| processes(&level.sample)).unwrap_or_default();
        let mut diff = RowDiff::new(PROCESSES);
        let mut moved: Vec<(&Process, &[Thread])> = Vec::new();
        let mut olds = old.iter().peekable();
        let (mut old_row, mut new_row) = (Vec::new(), Vec::new());
        for process in processes(sample) {
            // A process that did not run is the same `Arc` in both samples: its threads need not be compared.
            if olds.next_if(|other| Arc::ptr_eq(other, process)).is_some() {
                diff.append_same();
                continue;
            }
            let same_id = |other: &Process| other.id() == process.id();
            while olds.next_if(|other| other.pid < process.pid || (other.pid == process.pid && !same_id(other))).is_some() {
                diff.append_gone();
            }
            let reference = olds.next_if(|other| same_id(other));
            if reference == Some(process) {
                diff.append_same();
                continue;
            }
            self.process_row(process, &mut new_row);
            match reference {
                Some(reference) => {
                    self.process_row(reference, &mut old_row);
                    diff.append_changed(&old_row, &new_row);
                }
                None => diff.append_new(&new_row),
            }
            moved.push((process, reference.map_or(&[], |reference| &reference.threads)));
            if diff.is_too_large() {
                return Err(FrameTooLarge);
            }
        }
        olds.for_each(|_| diff.append_gone());
        self.write_diff(&diff)?;
        // Dropped first: the rows of both tables, in a key frame of thousands of tasks, are most of the memory in use.
        drop(diff);
        let mut diff = RowDiff::new(THREADS);
        for (process, old) in moved {
            self.diff_threads(process, old, &mut diff);
            if diff.is_too_large() {
                return Err(FrameTooLarge);
            }
        }
        self.write_diff(&diff)
    }

    fn process_row(&mut self, process: &Process, row: &mut Vec<u64>) {
        let mut process = process.clone();
        if self.redaction == Redaction::Arguments && process.facts.cmdline.is_ok() {
            process.facts = Arc::new(ProcessFacts { cmdline: Err(Absent::Hidden), ..ProcessFacts::clone(&process.facts) });
        }
        subtract_thread_counts(&mut process);
        row.clear();
        row.resize(PROCESSES.width, 0);
        write_at(&process, row, 0, self.names);
    }

    /// Compares the threads of a process that changed; both lists are in the order of their tids.
    fn diff_threads(&mut self, process: &Process, old: &[Thread], diff: &mut RowDiff) {
        let mut olds = old.iter().peekable();
        let (mut old_row, mut new_row) = (Vec::new(), Vec::new());
        for thread in process.threads.iter() {
            let same_id = |other: &Thread| other.tid == thread.tid && other.start_ticks == thread.start_ticks;
            while olds.next_if(|other| other.tid < thread.tid || (other.tid == thread.tid && !same_id(other))).is_some() {
                diff.append_gone();
            }
            let reference = olds.next_if(|other| same_id(other));
            if reference == Some(thread) {
                diff.append_same();
                continue;
            }
            self.thread_row(process.pid, thread, &mut new_row);
            match reference {
                Some(reference) => {
                    self.thread_row(process.pid, reference, &mut old_row);
                    diff.append_changed(&old_row, &new_row);
                }
                None => diff.append_new(&new_row),
            }
        }
        olds.for_each(|_| diff.append_gone());
    }

    fn thread_row(&mut self, pid: u32, thread: &Thread, row: &mut Vec<u64>) {
        row.clear();
        row.resize(THREADS.width, 0);
        write_at(&pid, row, 0, self.names);
        write_at(thread, row, 1, self.names);
    }
}

fn processes(sample: &Sample) -> &[Arc<Process>] {
    sample.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default()
}

/// Each wait of each sub-sample, with the place of the sub-sample.
fn sub_sample_waits(sample: &Sample) -> Result<Vec<(u16, GroupWait)>, FrameTooLarge> {
    let mut list = Vec::new();
    for (place, sub_sample) in sample.waits.sub_samples.iter().enumerate() {
        let place = u16::try_from(place).map_err(|_| FrameTooLarge)?;
        list.extend(sub_sample.waits.iter().map(|&wait| (place, wait)));
    }
    Ok(list)
}
