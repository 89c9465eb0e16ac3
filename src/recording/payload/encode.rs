//! From a sample to the payload of a frame: whole in a key frame, else as differences from an earlier sample.
//!
//! Each frame refers to the one before it, so that little has changed, but each eighth one to the eighth before it
//! (18 → 17 → 16 → 8 → 0): a reader decodes at most 22 frames to get anywhere.

use std::sync::Arc;

use super::cells::{Cells, put_at};
use super::column::bits::BitSink;
use super::column::choice::Chooser;
use super::column::forms::{Forms, Role};
use super::column::table::{Differences, MAX_CELLS, Rows, SECTION_HEAD, Table, put_section, put_section_head};
use super::layout::PayloadLayout;
use super::predicted::{keep_looks, keep_ticks};
use super::schema::tasks::{ProcessRow, SUB_SAMPLE_CPU, SUMS, SWITCHED, SubSampleRow};
use super::schema::{self, CPU_TOTAL, Singles};
use super::strings::Interner;
use crate::recording::Redaction;
use crate::sample::Sample;
use crate::sample::cpu::CpuTimes;
use crate::sample::task::{Process, Thread};

/// A key frame after so many samples: on a box with many processes of which few do anything, key frames are half of the
/// recording.
const SAMPLES_A_GROUP: u16 = 120;
/// And in any case after so many bytes of deltas.
const BYTES_A_GROUP: usize = 1 << 20;
/// Cells that all frames on the way to one sample may hold together: a reader keeps them.
pub const MAX_CELLS_ON_THE_WAY: usize = 6 * MAX_CELLS;

/// Encodes one sample after the other. Holds the samples that the next one may refer to.
pub struct Encoder {
    redaction: Redaction,
    strings: Interner,
    chooser: Chooser,
    /// Those frames of the group that a later one may refer to, by their distance.
    levels: Vec<Level>,
    next: u16,
    delta_bytes: usize,
    /// The table section being written.
    scratch: Vec<u8>,
    row: Vec<u64>,
}

struct Level {
    distance: u16,
    sample: Arc<Sample>,
    tables: Vec<Rows>,
    /// How many names are known after it.
    names: usize,
    /// How the columns of the frames that refer to it are written, but for what they say of it.
    forms: Forms,
    /// In all frames on the way to it, itself included.
    cells_so_far: usize,
}

/// A sample's payload, not compressed yet.
pub struct EncodedPayload {
    /// Samples after the key frame's; 0 is a key frame.
    pub key_distance: u16,
    pub raw: Vec<u8>,
    /// How many bytes of it there are before the bits of its columns.
    pub compressible_len: usize,
}

/// A sample that has more rows than a frame may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLarge;

impl Encoder {
    pub fn new(redaction: Redaction) -> Encoder {
        Encoder {
            redaction,
            strings: Interner::default(),
            chooser: Chooser::default(),
            levels: Vec::new(),
            next: 0,
            delta_bytes: 0,
            scratch: Vec::new(),
            row: Vec::new(),
        }
    }

    /// The next sample will be a key frame.
    pub fn force_key_frame(&mut self) {
        self.levels.clear();
    }

    /// Tells how many bytes the last frame took: it decides when the next key frame is due.
    pub fn add_stored_bytes(&mut self, bytes: usize) {
        self.delta_bytes = if self.next == 1 { 0 } else { self.delta_bytes + bytes };
    }

    fn is_key_due(&self) -> bool {
        self.next >= SAMPLES_A_GROUP || self.delta_bytes >= BYTES_A_GROUP
    }

    pub fn encode(&mut self, sample: &Arc<Sample>) -> Result<EncodedPayload, FrameTooLarge> {
        if self.is_key_due() {
            self.levels.clear();
        }
        if !self.levels.is_empty() {
            let parent = PayloadLayout::CURRENT.parent(self.next);
            while self.levels.pop_if(|level| level.distance > parent).is_some() {}
        }
        // Taken, so that after a failure the next sample is a key frame.
        let mut levels = std::mem::take(&mut self.levels);
        let reference = levels.last();
        let distance = if reference.is_some() { self.next } else { 0 };
        match reference {
            Some(reference) => self.strings.begin_delta(reference.names),
            None => {
                self.strings.begin_key();
                self.chooser.begin_key();
            }
        }
        let mut encoding = Encoding::new(self, reference, Role::of_changed(distance));
        encoding.sample(sample)?;
        let Encoding { raw, mut bits, tables, cells, .. } = encoding;
        let on_the_way = reference.map_or(0, |reference| reference.cells_so_far) + cells;
        if distance > 0 && on_the_way > MAX_CELLS_ON_THE_WAY {
            // As a key frame it stands alone.
            return self.encode(sample);
        }
        let bits = bits.take();
        let mut raw = self.with_names_and_forms(raw, reference, bits.len() + SECTION_HEAD)?;
        let front = raw.len();
        if !bits.is_empty() {
            put_section(&mut raw, schema::BITS, &bits);
        }
        levels.retain(|level| level.distance == PayloadLayout::trunk(distance));
        if PayloadLayout::CURRENT.is_referred_to(distance) {
            let (names, forms) = (self.strings.len(), self.chooser.forms().clone());
            levels.push(Level { distance, sample: sample.clone(), tables, names, forms, cells_so_far: on_the_way });
        }
        self.levels = levels;
        self.next = distance + 1;
        Ok(EncodedPayload { key_distance: distance, raw, compressible_len: front })
    }

    /// Names and forms come first: a reader needs them for everything else. Its room is what it takes with `more` bytes behind
    /// it: in a key frame of many names this is the most that is held at once.
    fn with_names_and_forms(
        &mut self,
        sections: Vec<u8>,
        reference: Option<&Level>,
        more: usize,
    ) -> Result<Vec<u8>, FrameTooLarge> {
        if self.strings.is_too_large() {
            return Err(FrameTooLarge);
        }
        let forms = &mut self.scratch;
        forms.clear();
        let none = Forms::default();
        self.chooser.forms().write_since(reference.map_or(&none, |level| &level.forms), forms);
        let names = self.strings.length();
        let mut raw = Vec::with_capacity(names + forms.len() + 2 * SECTION_HEAD + sections.len() + more);
        if self.strings.has_own() {
            put_section_head(&mut raw, schema::NAMES, names);
            self.strings.write(&mut raw);
        }
        if !forms.is_empty() {
            put_section(&mut raw, schema::FORMS, forms);
        }
        raw.extend_from_slice(&sections);
        Ok(raw)
    }
}

/// One frame being encoded.
struct Encoding<'e> {
    strings: &'e mut Interner,
    chooser: &'e mut Chooser,
    scratch: &'e mut Vec<u8>,
    row: &'e mut Vec<u64>,
    hide_arguments: bool,
    reference: Option<&'e Level>,
    /// The role of rows that changed.
    changed: Role,
    raw: Vec<u8>,
    /// What stands behind it: the numbers of all columns.
    bits: BitSink,
    tables: Vec<Rows>,
    cells: usize,
}

impl<'e> Encoding<'e> {
    fn new(encoder: &'e mut Encoder, reference: Option<&'e Level>, changed: Role) -> Encoding<'e> {
        Encoding {
            strings: &mut encoder.strings,
            chooser: &mut encoder.chooser,
            scratch: &mut encoder.scratch,
            row: &mut encoder.row,
            hide_arguments: encoder.redaction == Redaction::Arguments,
            reference,
            changed,
            raw: Vec::new(),
            bits: BitSink::default(),
            tables: Vec::new(),
            cells: 0,
        }
    }

    fn sample(&mut self, sample: &Sample) -> Result<(), FrameTooLarge> {
        if self.reference.is_none() {
            self.names_first(sample);
        }
        let singles = self.rows(schema::SINGLES, &[Singles::of(sample)]);
        let total: Vec<u64> =
            singles.row(0).and_then(|row| row.get(CPU_TOTAL..CPU_TOTAL + CpuTimes::WIDTH)).unwrap_or_default().to_vec();
        let list = |encoding: &mut Self, table: Table, rows: Option<Rows>| {
            encoding.table(table, rows.unwrap_or_else(|| Rows::new(table.width)))
        };
        self.table(schema::SINGLES, singles)?;
        let rows = sample.cpu.as_ref().ok().map(|cpu| self.rows(schema::CPUS, &cpu.cpus));
        list(self, schema::CPUS, rows)?;
        let rows = sample.disks.as_ref().ok().map(|disks| self.rows(schema::DISKS, disks));
        list(self, schema::DISKS, rows)?;
        let rows = sample.nics.as_ref().ok().map(|nics| self.rows(schema::NICS, nics));
        list(self, schema::NICS, rows)?;
        let rows = sample.protocols.listeners.as_ref().ok().map(|listeners| self.rows(schema::LISTENERS, listeners));
        list(self, schema::LISTENERS, rows)?;
        let rows = sample.cgroups.as_ref().ok().map(|cgroups| self.rows(schema::CGROUPS, cgroups));
        list(self, schema::CGROUPS, rows)?;
        let rows = self.rows(schema::GROUPS, &sample.waits.groups);
        self.table(schema::GROUPS, rows)?;
        let mut rows = self.rows(schema::THREAD_WAITS, &sample.waits.threads);
        rows.iter_mut().for_each(keep_looks);
        self.table(schema::THREAD_WAITS, rows)?;
        let rows = self.rows(schema::BLOCKED, &sample.waits.blocked);
        self.table(schema::BLOCKED, rows)?;
        let rows = sample.protocols.softnet.as_ref().ok().map(|softnet| self.rows(schema::SOFTNET, softnet));
        list(self, schema::SOFTNET, rows)?;
        let rows = sample.protocols.remote_hosts.as_ref().ok().map(|peers| self.rows(schema::PEERS, &peers.rows));
        list(self, schema::PEERS, rows)?;
        let rows = sample.exits.as_ref().ok().map(|exits| self.rows(schema::EXITS, &exits.rows));
        list(self, schema::EXITS, rows)?;
        let rows = self.rows(schema::QUEUES, &sample.waits.wait_queues);
        self.table(schema::QUEUES, rows)?;
        let rows = self.rows(schema::IO_LIMITS, &sample.io_limits);
        self.table(schema::IO_LIMITS, rows)?;
        let rows = sample.delays.as_ref().ok().map(|delays| self.rows(schema::DELAYS, delays));
        list(self, schema::DELAYS, rows)?;
        self.tasks(sample)?;
        self.sub_samples(sample, &total)
    }

    /// What many tasks have in common gets the lowest numbers, of which the columns are: a wait channel comes and goes with
    /// every sample.
    fn names_first(&mut self, sample: &Sample) {
        let processes = sample.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
        let channels =
            processes.iter().flat_map(|process| process.threads.iter()).filter_map(|thread| thread.wait.wchan.as_ref().ok());
        for name in channels {
            self.strings.name(name);
        }
        for process in processes {
            let names = [process.facts.executable.as_ref().ok(), process.facts.cgroup.as_ref().ok().map(|cgroup| &cgroup.path)];
            for name in names.into_iter().flatten().chain([&process.comm]) {
                self.strings.name(name);
            }
        }
    }

    fn rows<T: Cells>(&mut self, table: Table, list: &[T]) -> Rows {
        let mut rows = Rows::new(table.width);
        for item in list {
            put_at(item, rows.append(), 0, self.strings);
        }
        rows
    }

    /// A table that needs nothing but its rows, against the same one of the sample that is referred to.
    fn table(&mut self, table: Table, rows: Rows) -> Result<(), FrameTooLarge> {
        let empty = Rows::new(table.width);
        let reference = self.reference.and_then(|level| level.tables.get(self.tables.len())).unwrap_or(&empty);
        let differences = Differences::between(table, reference, &rows);
        self.tables.push(rows);
        self.write(&differences)
    }

    fn write(&mut self, differences: &Differences) -> Result<(), FrameTooLarge> {
        if differences.is_too_large() {
            return Err(FrameTooLarge);
        }
        self.cells += differences.cells();
        if self.cells > MAX_CELLS_ON_THE_WAY {
            return Err(FrameTooLarge);
        }
        if !differences.is_all_same() {
            differences.write(self.changed, &mut self.raw, &mut self.bits, self.chooser, self.scratch);
        }
        Ok(())
    }

    fn tasks(&mut self, sample: &Sample) -> Result<(), FrameTooLarge> {
        let list = |sample: &'e Sample| sample.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
        let old = self.reference.map(|level| list(&level.sample)).unwrap_or_default();
        let new = sample.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
        let old_ns = self.reference.map(|level| level.sample.at.boottime_ns).unwrap_or_default();
        let new_ns = sample.at.boottime_ns;
        let mut processes = Differences::new(schema::PROCESSES);
        let mut moved: Vec<(&Process, Option<&Process>)> = Vec::new();
        let mut olds = old.iter().peekable();
        let (mut old_row, mut new_row) = (Vec::new(), Vec::new());
        for process in new {
            // Most have not moved since: they are told by where they lie, and are not looked into.
            if olds.next_if(|other| Arc::ptr_eq(other, process)).is_some() {
                processes.same();
                continue;
            }
            let same_id = |other: &Process| other.pid == process.pid && other.start_ticks == process.start_ticks;
            while olds.next_if(|other| other.pid < process.pid || (other.pid == process.pid && !same_id(other))).is_some() {
                processes.gone();
            }
            let reference = olds.next_if(|other| same_id(other));
            if reference == Some(process) {
                processes.same();
                continue;
            }
            self.process(process, &mut new_row);
            match reference {
                Some(reference) => {
                    self.process(reference, &mut old_row);
                    processes.changed(&old_row, &new_row);
                }
                None => processes.new_row(&new_row),
            }
            moved.push((process, reference.map(Arc::as_ref)));
            if processes.is_too_large() {
                return Err(FrameTooLarge);
            }
        }
        for _ in olds {
            processes.gone();
        }
        self.write(&processes)?;
        // One after the other: the rows of both, in a key frame of thousands of tasks, are the most that is held at once.
        drop(processes);
        let mut threads = Differences::new(schema::THREADS);
        for (process, reference) in moved {
            let old_threads = reference.map_or(&[][..], |reference| &reference.threads);
            self.threads(process, old_threads, old_ns, new_ns, &mut threads);
            if threads.is_too_large() {
                return Err(FrameTooLarge);
            }
        }
        self.write(&threads)
    }

    /// A process's row; what its threads count is taken away from what it counts.
    fn process(&mut self, process: &Process, row: &mut Vec<u64>) {
        row.clear();
        row.resize(schema::PROCESSES.width, 0);
        put_at(&ProcessRow::of(process, self.hide_arguments), row, 0, self.strings);
        for thread in process.threads.iter() {
            let counted = [
                thread.user_ticks.0,
                thread.system_ticks.0,
                thread.minor_faults.0,
                thread.major_faults.0,
                process.cpu_ns.and(thread.schedstat).map_or(0, |sched| sched.run_ns.0),
            ];
            for ((cell, _), counted) in SUMS.into_iter().zip(counted) {
                if let Some(cell) = row.get_mut(cell) {
                    *cell = cell.wrapping_sub(counted);
                }
            }
        }
    }

    /// The threads of a process that changed, both lists in the order of their tids.
    fn threads(&mut self, process: &Process, old: &[Thread], old_ns: u64, new_ns: u64, threads: &mut Differences) {
        let mut olds = old.iter().peekable();
        let mut new_row = std::mem::take(self.row);
        let mut old_row = Vec::new();
        for thread in process.threads.iter() {
            let same_id = |other: &Thread| other.tid == thread.tid && other.start_ticks == thread.start_ticks;
            while olds.next_if(|other| other.tid < thread.tid || (other.tid == thread.tid && !same_id(other))).is_some() {
                threads.gone();
            }
            match olds.next_if(|other| same_id(other)) {
                Some(reference) if reference == thread => threads.same(),
                Some(reference) => {
                    self.thread(process.pid, thread, new_ns, &mut new_row);
                    self.thread(process.pid, reference, old_ns, &mut old_row);
                    threads.changed(&old_row, &new_row);
                }
                None => {
                    self.thread(process.pid, thread, new_ns, &mut new_row);
                    threads.new_row(&new_row);
                }
            }
        }
        for _ in olds {
            threads.gone();
        }
        *self.row = new_row;
    }

    fn thread(&mut self, pid: u32, thread: &Thread, at_ns: u64, row: &mut Vec<u64>) {
        row.clear();
        row.resize(schema::THREADS.width, 0);
        put_at(&pid, row, 0, self.strings);
        put_at(thread, row, 1, self.strings);
        keep_ticks(row);
        if thread.last_timeslice_ns.is_some()
            && let Some(cell) = row.get_mut(SWITCHED)
        {
            *cell = at_ns.wrapping_sub(*cell);
        }
    }

    /// Each sub-sample against the one before, each group's counts against the same group's in an earlier one.
    fn sub_samples(&mut self, sample: &Sample, total: &[u64]) -> Result<(), FrameTooLarge> {
        let mut rows = Differences::new(schema::SUB_SAMPLES);
        let mut groups = Differences::new(schema::GROUP_WAITS);
        let mut last: rustc_hash::FxHashMap<u16, Vec<u64>> = Default::default();
        let mut last_group = 0u64;
        for sub_sample in &sample.waits.sub_samples {
            let mut row = vec![0; schema::SUB_SAMPLES.width];
            let cells = SubSampleRow {
                before_ns: sample.at.boottime_ns.wrapping_sub(sub_sample.boottime_ns),
                groups: u32::try_from(sub_sample.groups.len()).map_err(|_| FrameTooLarge)?,
                in_flight: sub_sample.in_flight,
                cpu: sub_sample.cpu,
            };
            put_at(&cells, &mut row, 0, self.strings);
            if sub_sample.cpu.is_some() {
                for (cell, total) in row.iter_mut().skip(SUB_SAMPLE_CPU).zip(total) {
                    *cell = total.wrapping_sub(*cell);
                }
            }
            rows.new_row(&row);
            for group in &sub_sample.groups {
                let mut row = vec![0; schema::GROUP_WAITS.width];
                put_at(group, &mut row, 0, self.strings);
                let mut change = row.clone();
                if let Some(last) = last.get(&group.group) {
                    change.iter_mut().zip(last).for_each(|(cell, last)| *cell = cell.wrapping_sub(*last));
                }
                if let Some(cell) = change.first_mut() {
                    *cell = u64::from(group.group).wrapping_sub(last_group);
                }
                last_group = u64::from(group.group);
                groups.new_row(&change);
                last.insert(group.group, row);
            }
        }
        self.write(&rows)?;
        self.write(&groups)
    }
}
