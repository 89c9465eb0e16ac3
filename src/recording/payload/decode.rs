//! From the payload of a frame back to the sample. Never trusts a number in it; never allocates more than the payload's
//! own size allows.
//!
//! What did not change is the same `Arc` as in the sample that is referred to, or as in the neighbouring sample that the caller
//! passes in: `Arc::ptr_eq` tells in a replay what it tells live.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::cells::{Cells, take_at};
use super::column::forms::{Forms, Role};
use super::column::table::{Fate, Rows};
use super::encode::MAX_CELLS_ON_THE_WAY;
use super::facts::SharedFacts;
use super::layout::{MAX_DISTANCE, PayloadLayout};
use super::predicted::{give_looks, give_ticks};
use super::schema::tasks::{CLOCK, ProcessRow, SUB_SAMPLE_CPU, SUMS, SWITCHED, SubSampleRow, THREAD_COUNT};
use super::schema::{self, CPU_TOTAL, Singles};
use super::sections::Sections;
use super::strings::Names;
use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::wire::Malformed;
use crate::sample::cpu::CpuTimes;
use crate::sample::network::Protocols;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::{SubSample, ThreadWaits, Waits};
use crate::sample::{Absent, Instant, Name, Sample};

/// Decodes the frames of one recording. Holds the frames that the next one may refer to.
pub struct Decoder {
    layout: PayloadLayout,
    /// The number of the key frame's sample.
    key: u64,
    /// The key frame, and each frame on the way to the last one that is referred to.
    levels: Vec<Level>,
    /// All names that the levels brought, in order.
    names: Vec<Name>,
    facts: SharedFacts,
    empty: Name,
}

struct Level {
    distance: u16,
    sample: Arc<Sample>,
    /// How many names are known after it.
    names: usize,
    /// As in `schema::PLAIN`.
    tables: Vec<Rows>,
    processes: Vec<Arc<ProcessCells>>,
    /// How the columns of the frames that refer to it are written, but for what they say of it.
    forms: Arc<Forms>,
    cells: usize,
}

/// A process as the frame gave it: a value that only a later version knows must survive as a number, because later
/// differences are taken from it.
struct ProcessCells {
    row: Vec<u64>,
    threads: Rows,
    /// The moment that those of the threads are relative to.
    at_ns: u64,
}

/// Processes, and what later frames need of each.
type Processes = (Vec<Arc<Process>>, Vec<Arc<ProcessCells>>);

/// A frame, decoded.
struct Decoded {
    sample: Arc<Sample>,
    tables: Vec<Rows>,
    processes: Vec<Arc<ProcessCells>>,
    cells: usize,
}

impl Decoder {
    pub fn new(layout: PayloadLayout) -> Decoder {
        let (levels, names) = (Vec::new(), Vec::new());
        Decoder { layout, key: 0, levels, names, facts: SharedFacts::default(), empty: Name::default() }
    }

    pub fn layout(&self) -> PayloadLayout {
        self.layout
    }

    /// Whether the sample at that distance from that key frame is held, so that others can be decoded from it.
    pub fn has_reference(&self, key: u64, distance: u16) -> bool {
        self.key == key && self.levels.iter().any(|level| level.distance == distance)
    }

    /// The sample at that distance from that key frame. What it refers to must be held.
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
            if distance > MAX_DISTANCE || !self.has_reference(key, self.layout.parent(distance)) {
                return Err(FrameError::ReferenceMissing);
            }
            let parent = self.layout.parent(distance);
            while self.levels.pop_if(|level| level.distance > parent).is_some() {}
        }
        let reference = self.levels.last();
        self.names.truncate(reference.map_or(0, |level| level.names));
        let forms = reference.map(|level| level.forms.clone()).unwrap_or_default();
        let sections = Sections::of(raw, self.layout, forms, Role::of_changed(distance))?;
        self.names.extend(sections.names(&known)?);
        let names = Names { list: &self.names, empty: &self.empty, facts: &self.facts };
        let decoded = Decoding { sections: &sections, names: &names, reference, neighbour, at }.sample()?;
        let on_the_way = self.levels.iter().map(|level| level.cells).sum::<usize>() + decoded.cells;
        if distance > 0 && on_the_way > MAX_CELLS_ON_THE_WAY {
            return Err(Malformed("the frames on the way to it hold too much").into());
        }
        if self.layout.is_referred_to(distance) {
            self.levels.push(Level {
                distance,
                sample: decoded.sample.clone(),
                names: self.names.len(),
                tables: decoded.tables,
                processes: decoded.processes,
                forms: sections.forms().clone(),
                cells: decoded.cells,
            });
        }
        Ok(decoded.sample)
    }
}

/// One frame being decoded.
struct Decoding<'d> {
    sections: &'d Sections<'d>,
    names: &'d Names<'d>,
    reference: Option<&'d Level>,
    neighbour: Option<&'d Sample>,
    at: Timestamp,
}

impl Decoding<'_> {
    fn sample(&self) -> Result<Decoded, Malformed> {
        let mut cells = 0;
        let mut tables = Vec::with_capacity(schema::PLAIN.len());
        for (at, table) in schema::PLAIN.into_iter().enumerate() {
            tables.push(self.sections.rows(table, self.reference.and_then(|level| level.tables.get(at)), &mut cells)?);
        }
        let [
            singles_rows,
            cpus,
            disks,
            nics,
            listeners,
            cgroups,
            groups,
            thread_waits,
            blocked,
            softnet,
            peers,
            exits,
            queues,
            io_limits,
            delays,
        ] = tables.as_slice()
        else {
            return Err(Malformed("a table is missing"));
        };
        let singles_row = singles_rows.row(0).ok_or(Malformed("the row of singles is missing"))?;
        let singles: Singles = take_at(singles_row, 0, self.names)?;
        let (monotonic_ns, cost) = (singles.monotonic_ns(self.at.boottime_ns), singles.cost());
        let (processes, process_cells) = self.processes(singles.tasks.is_ok(), &mut cells)?;
        let sample = Sample {
            at: Instant { boottime_ns: self.at.boottime_ns, monotonic_ns, realtime_ns: self.at.realtime_ns },
            cpu: match singles.cpu {
                Ok(cpu) => Ok(cpu.with(self.list(cpus)?)),
                Err(why) => Err(why),
            },
            load: singles.load,
            memory: singles.memory,
            pressure: singles.pressure,
            disks: match singles.disks {
                Ok(()) => Ok(self.list(disks)?),
                Err(why) => Err(why),
            },
            nics: match singles.nics {
                Ok(()) => Ok(self.list(nics)?),
                Err(why) => Err(why),
            },
            protocols: Protocols {
                tcp: singles.tcp,
                tcp_ext: singles.tcp_ext,
                udp: singles.udp,
                ip_octets: singles.ip_octets,
                listeners: match singles.listeners {
                    Ok(()) => Ok(self.list(listeners)?),
                    Err(why) => Err(why),
                },
                softnet: match singles.softnet {
                    Ok(()) => Ok(self.list(softnet)?),
                    Err(why) => Err(why),
                },
                remote_hosts: match singles.peers {
                    Ok(singles) => Ok(singles.with(self.list(peers)?)),
                    Err(why) => Err(why),
                },
            },
            cgroups: match singles.cgroups {
                Ok(()) => Ok(self.list(cgroups)?),
                Err(why) => Err(why),
            },
            io_limits: self.list(io_limits)?,
            delays: match singles.delays {
                Ok(()) => Ok(self.list(delays)?),
                Err(why) => Err(why),
            },
            context_switches: Err(Absent::NotRead),
            tasks: singles.tasks.map(|tasks| Tasks { processes, users: tasks.users, hidden: tasks.hidden }),
            waits: Waits {
                sub_samples: self.sub_samples(singles_row, &mut cells)?,
                groups: self.list(groups)?,
                threads: self.thread_waits(thread_waits)?,
                blocked: self.list(blocked)?,
                wait_queues: self.list(queues)?,
                skipped_sub_samples: singles.skipped,
            },
            exits: match singles.exits {
                Ok(singles) => Ok(singles.with(self.list(exits)?)),
                Err(why) => Err(why),
            },
            operations: singles.operations.map(|operations| operations.at(self.at.boottime_ns)),
            cost,
        };
        Ok(Decoded { sample: Arc::new(sample), tables, processes: process_cells, cells })
    }

    fn list<T: Cells>(&self, rows: &Rows) -> Result<Vec<T>, Malformed> {
        rows.iter().map(|row| take_at(row, 0, self.names)).collect()
    }

    fn thread_waits(&self, rows: &Rows) -> Result<Vec<ThreadWaits>, Malformed> {
        let give = |row: &[u64]| {
            let mut row = row.to_vec();
            if self.sections.layout() == PayloadLayout::Forms {
                give_looks(&mut row);
            }
            take_at(&row, 0, self.names)
        };
        rows.iter().map(give).collect()
    }

    /// The processes, and what later frames need of them.
    fn processes(&self, present: bool, cells: &mut usize) -> Result<Processes, Malformed> {
        let old_cells = self.reference.map(|level| level.processes.as_slice()).unwrap_or_default();
        let old_list = self
            .reference
            .and_then(|level| level.sample.tasks.as_ref().ok())
            .map(|tasks| tasks.processes.as_slice())
            .unwrap_or_default();
        let Some(changes) = self.sections.changes(schema::PROCESSES, cells)? else {
            return Ok(if present { (old_list.to_vec(), old_cells.to_vec()) } else { Default::default() });
        };
        // What each process becomes, and the former threads of those that changed.
        let mut plan: Vec<Plan> = Vec::new();
        let mut rows = Rows::new(schema::PROCESSES.width);
        let mut old_threads = Rows::new(schema::THREADS.width);
        let old_row = |at: usize| old_cells.get(at).map(|cells| cells.row.as_slice());
        changes.apply(old_cells.len(), old_row, |fate, at, row| {
            let old = at.and_then(|at| Some((old_list.get(at)?, old_cells.get(at)?)));
            if fate == Fate::Same {
                let (process, cells) = old.ok_or(Malformed("a process is not in the sample that is referred to"))?;
                plan.push(Plan::Same(process.clone(), cells.clone()));
                return Ok(());
            }
            if let (Some((_, cells)), Some(reference)) = (old, self.reference) {
                // Its threads' moments, as the encoder saw them from the sample that is referred to.
                let later = reference.sample.at.boottime_ns.wrapping_sub(cells.at_ns);
                for thread in cells.threads.iter() {
                    old_threads.push(thread);
                    if let Some(cell) = switched(old_threads.last_mut()) {
                        *cell = cell.wrapping_add(later);
                    }
                }
            }
            plan.push(Plan::Build(rows.len()));
            rows.push(row);
            Ok(())
        })?;
        let threads = self.threads(&old_threads, cells)?;
        let mut next_thread = 0usize;
        let mut processes = Vec::with_capacity(plan.len());
        let mut process_cells = Vec::with_capacity(plan.len());
        for step in plan {
            let (process, cells) = match step {
                Plan::Same(process, cells) => (process, cells),
                Plan::Build(at) => {
                    let row = rows.row(at).unwrap_or_default();
                    let (process, own_threads) = self.process(row, &threads, next_thread)?;
                    next_thread += own_threads.len();
                    let cells = ProcessCells { row: row.to_vec(), threads: own_threads, at_ns: self.at.boottime_ns };
                    (Arc::new(process), Arc::new(cells))
                }
            };
            processes.push(self.shared(process));
            process_cells.push(cells);
        }
        if next_thread != threads.len() {
            return Err(Malformed("there are threads without a process"));
        }
        Ok((processes, process_cells))
    }

    /// The rows of all threads of processes that changed or are new.
    fn threads(&self, reference: &Rows, cells: &mut usize) -> Result<Rows, Malformed> {
        let mut rows = Rows::new(schema::THREADS.width);
        let then_ns = self.reference.map(|level| level.sample.at.boottime_ns).unwrap_or_default();
        let later = self.at.boottime_ns.wrapping_sub(then_ns);
        let mut push = |fate, row: &[u64]| {
            rows.push(row);
            // A thread's moment that did not change is further back now.
            if let (Fate::Same, Some(cell)) = (fate, switched(rows.last_mut())) {
                *cell = cell.wrapping_add(later);
            }
        };
        match self.sections.changes(schema::THREADS, cells)? {
            Some(changes) => changes.apply(
                reference.len(),
                |at| reference.row(at),
                |fate, _, row| {
                    push(fate, row);
                    Ok(())
                },
            )?,
            None => reference.iter().for_each(|row| push(Fate::Same, row)),
        }
        Ok(rows)
    }

    /// A process from its row and its threads' rows, of which the first is at `first`; also those rows.
    fn process(&self, row: &[u64], threads: &Rows, first: usize) -> Result<(Process, Rows), Malformed> {
        let mut row = row.to_vec();
        let (clock, process_has, thread_has) = CLOCK;
        let has_clock = row.get(process_has).is_some_and(|&cell| cell != 0);
        let count = row.get(THREAD_COUNT).and_then(|&count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        if count > threads.len().saturating_sub(first) {
            return Err(Malformed("a process claims more threads than there are"));
        }
        let mut list: Vec<Thread> = Vec::with_capacity(count);
        let mut own = Rows::new(schema::THREADS.width);
        for at in first..first + count {
            own.push(threads.row(at).unwrap_or_default());
            let mut thread = own.last_mut().to_vec();
            if let Some(cell) = switched(&mut thread) {
                *cell = self.at.boottime_ns.wrapping_sub(*cell);
            }
            if self.sections.layout() == PayloadLayout::Forms {
                give_ticks(&mut thread);
            }
            let has_sched = thread.get(thread_has).is_some_and(|&cell| cell != 0);
            for (sum, part) in SUMS {
                if sum == clock && !(has_clock && has_sched) {
                    continue;
                }
                if let (Some(sum), Some(part)) = (row.get_mut(sum), thread.get(part)) {
                    *sum = sum.wrapping_add(*part);
                }
            }
            list.push(take_at(&thread, 1, self.names)?);
        }
        let process: ProcessRow = take_at(&row, 0, self.names)?;
        Ok((process.with(list), own))
    }

    /// The neighbour's, when it is equal: nothing moved between the two samples. Mostly its facts are the same at least.
    fn shared(&self, mut process: Arc<Process>) -> Arc<Process> {
        let neighbour = self.neighbour.and_then(|sample| sample.tasks.as_ref().ok()?.process(process.pid));
        match neighbour {
            Some(same) if Arc::ptr_eq(same, &process) || **same == *process => same.clone(),
            Some(near) if near.facts == process.facts => {
                if let Some(own) = Arc::get_mut(&mut process) {
                    own.facts = near.facts.clone();
                }
                process
            }
            _ => process,
        }
    }

    fn sub_samples(&self, singles: &[u64], cells: &mut usize) -> Result<Vec<SubSample>, Malformed> {
        let rows = self.sections.rows(schema::SUB_SAMPLES, None, cells)?;
        let changes = self.sections.rows(schema::GROUP_WAITS, None, cells)?;
        let total = singles.get(CPU_TOTAL..CPU_TOTAL + CpuTimes::WIDTH).unwrap_or_default();
        let mut changes = changes.iter();
        let mut last: HashMap<u64, Vec<u64>> = HashMap::new();
        let mut group = 0u64;
        let mut list = Vec::with_capacity(rows.len());
        for row in rows.iter() {
            let mut row = row.to_vec();
            if row.get(SUB_SAMPLE_CPU - 1).is_some_and(|&cell| cell != 0) {
                for (cell, total) in row.iter_mut().skip(SUB_SAMPLE_CPU).zip(total) {
                    *cell = total.wrapping_sub(*cell);
                }
            }
            let cells: SubSampleRow = take_at(&row, 0, self.names)?;
            let mut groups = Vec::new();
            for _ in 0..cells.groups {
                let mut counts = changes.next().ok_or(Malformed("a sub-sample claims more groups than there are"))?.to_vec();
                group = group.wrapping_add(counts.first().copied().unwrap_or_default());
                if let Some(last) = last.get(&group) {
                    counts.iter_mut().zip(last).for_each(|(cell, last)| *cell = cell.wrapping_add(*last));
                }
                if let Some(cell) = counts.first_mut() {
                    *cell = group;
                }
                groups.push(take_at(&counts, 0, self.names)?);
                last.insert(group, counts);
            }
            list.push(SubSample {
                boottime_ns: self.at.boottime_ns.wrapping_sub(cells.before_ns),
                cpu: cells.cpu,
                in_flight: cells.in_flight,
                groups,
            });
        }
        Ok(list)
    }
}

enum Plan {
    Same(Arc<Process>, Arc<ProcessCells>),
    Build(usize),
}

/// The cell of a thread's moment, where it is known.
fn switched(row: &mut [u64]) -> Option<&mut u64> {
    let known = row.get(SWITCHED - 1).is_some_and(|&cell| cell != 0);
    row.get_mut(SWITCHED).filter(|_| known)
}
