//! From the payload of a frame back to the sample. Never trusts a number in it; never allocates more than the payload's
//! own size allows.
//!
//! What did not change is the same `Arc` as in the key frame's sample, or as in the neighbouring sample that the caller
//! passes in: `Arc::ptr_eq` tells in a replay what it tells live.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::Moment;
use super::cells::{Cells, take_at};
use super::facts::SharedFacts;
use super::schema::tasks::{CLOCK, ProcessRow, SUB_SAMPLE_CPU, SUMS, SWITCHED, SubSampleRow, THREAD_COUNT};
use super::schema::{self, CPU_TOTAL, Singles};
use super::strings::{self, Names};
use super::table::{Changes, Fate, Rows, Table};
use super::wire::{Input, Malformed};
use crate::sample::cpu::CpuTimes;
use crate::sample::network::Protocols;
use crate::sample::task::{Process, Tasks, Thread};
use crate::sample::waits::{SubSample, Waits};
use crate::sample::{Instant, Name, Sample};

/// Decodes the frames of one recording. Holds the last key frame.
#[derive(Default)]
pub struct Decoder {
    key: Option<Key>,
    facts: SharedFacts,
    empty: Name,
}

struct Key {
    sequence: u64,
    sample: Arc<Sample>,
    names: Vec<Name>,
    /// As in `schema::PLAIN`.
    tables: Vec<Rows>,
    processes: Rows,
    threads: Rows,
    /// Where each process's threads begin in `threads`.
    first_thread: Vec<usize>,
}

/// A frame, decoded.
struct Decoded {
    sample: Arc<Sample>,
    tables: Vec<Rows>,
    processes: Rows,
    threads: Rows,
}

impl Decoder {
    /// The sequence of the key frame that deltas can be decoded against.
    pub fn key(&self) -> Option<u64> {
        self.key.as_ref().map(|key| key.sequence)
    }

    /// A key frame. `neighbour` is any sample that was decoded before.
    pub fn decode_key(
        &mut self,
        sequence: u64,
        at: Moment,
        raw: &[u8],
        neighbour: Option<&Sample>,
    ) -> Result<Arc<Sample>, Malformed> {
        let sections = Sections::of(raw)?;
        let known: HashSet<Name> = self.key.take().map(|key| key.names.into_iter().collect()).unwrap_or_default();
        let names = sections.names(&known)?;
        let resolve = Names { key: &names, own: &[], empty: &self.empty, facts: &self.facts };
        let decoded = Decoding { sections: &sections, names: &resolve, key: None, neighbour, at }.sample()?;
        let first_thread = first_threads(&decoded.sample);
        self.key = Some(Key {
            sequence,
            sample: decoded.sample.clone(),
            names,
            tables: decoded.tables,
            processes: decoded.processes,
            threads: decoded.threads,
            first_thread,
        });
        Ok(decoded.sample)
    }

    /// A delta against the last key frame.
    pub fn decode_delta(&self, at: Moment, raw: &[u8], neighbour: Option<&Sample>) -> Result<Arc<Sample>, Malformed> {
        let key = self.key.as_ref().ok_or(Malformed("a delta has no key frame"))?;
        let sections = Sections::of(raw)?;
        let own = sections.names(&HashSet::new())?;
        let names = Names { key: &key.names, own: &own, empty: &self.empty, facts: &self.facts };
        Ok(Decoding { sections: &sections, names: &names, key: Some(key), neighbour, at }.sample()?.sample)
    }
}

fn first_threads(sample: &Sample) -> Vec<usize> {
    let mut next = 0;
    let processes = sample.tasks.as_ref().map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
    processes
        .iter()
        .map(|process| {
            let first = next;
            next += process.threads.len();
            first
        })
        .collect()
}

/// The sections of a payload by number; unknown ones are skipped.
#[derive(Default)]
struct Sections<'a>([Option<&'a [u8]>; 16]);

impl<'a> Sections<'a> {
    fn of(raw: &'a [u8]) -> Result<Sections<'a>, Malformed> {
        let mut input = Input::new(raw);
        let mut sections = Sections::default();
        while !input.is_empty() {
            let number = input.varint()?;
            let section = input.block()?;
            let place = usize::try_from(number).ok().and_then(|number| sections.0.get_mut(number));
            if place.is_some_and(|place| place.replace(section).is_some()) {
                return Err(Malformed("a section comes twice"));
            }
        }
        Ok(sections)
    }

    fn section(&self, number: u64) -> Option<&'a [u8]> {
        usize::try_from(number).ok().and_then(|number| self.0.get(number).copied()?)
    }

    fn names(&self, known: &HashSet<Name>) -> Result<Vec<Name>, Malformed> {
        match self.section(schema::NAMES) {
            Some(section) => strings::read(section, known),
            None => Ok(Vec::new()),
        }
    }

    fn changes(&self, table: Table) -> Result<Option<Changes>, Malformed> {
        self.section(table.section).map(|section| Changes::read(table, section)).transpose()
    }

    /// A table that needs nothing but its rows; one that is left out did not change.
    fn rows(&self, table: Table, reference: Option<&Rows>) -> Result<Rows, Malformed> {
        let empty = Rows::new(table.width);
        let reference = reference.unwrap_or(&empty);
        match self.changes(table)? {
            Some(changes) => changes.rows(reference),
            None => Ok(reference.clone()),
        }
    }
}

/// One frame being decoded.
struct Decoding<'d> {
    sections: &'d Sections<'d>,
    names: &'d Names<'d>,
    key: Option<&'d Key>,
    neighbour: Option<&'d Sample>,
    at: Moment,
}

impl Decoding<'_> {
    fn sample(&self) -> Result<Decoded, Malformed> {
        let mut tables = Vec::with_capacity(schema::PLAIN.len());
        for (at, table) in schema::PLAIN.into_iter().enumerate() {
            tables.push(self.sections.rows(table, self.key.and_then(|key| key.tables.get(at)))?);
        }
        let [singles_rows, cpus, disks, nics, listeners, cgroups, groups, thread_waits, blocked] = tables.as_slice() else {
            return Err(Malformed("a table is missing"));
        };
        let singles_row = singles_rows.row(0).ok_or(Malformed("the row of singles is missing"))?;
        let singles: Singles = take_at(singles_row, 0, self.names)?;
        let (monotonic_ns, cost) = (singles.monotonic_ns(self.at.boottime_ns), singles.cost());
        let (processes, process_rows, thread_rows) = self.processes(singles.tasks.is_ok())?;
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
            },
            cgroups: match singles.cgroups {
                Ok(()) => Ok(self.list(cgroups)?),
                Err(why) => Err(why),
            },
            tasks: singles.tasks.map(|tasks| Tasks { processes, users: tasks.users, hidden: tasks.hidden }),
            waits: Waits {
                sub_samples: self.sub_samples(singles_row)?,
                groups: self.list(groups)?,
                threads: self.list(thread_waits)?,
                blocked: self.list(blocked)?,
                skipped: singles.skipped,
            },
            cost,
        };
        Ok(Decoded { sample: Arc::new(sample), tables, processes: process_rows, threads: thread_rows })
    }

    fn list<T: Cells>(&self, rows: &Rows) -> Result<Vec<T>, Malformed> {
        rows.iter().map(|row| take_at(row, 0, self.names)).collect()
    }

    /// The processes, and (of a key frame) their rows and those of their threads.
    fn processes(&self, present: bool) -> Result<(Vec<Arc<Process>>, Rows, Rows), Malformed> {
        let (no_processes, no_threads) = (Rows::new(schema::PROCESSES.width), Rows::new(schema::THREADS.width));
        let old_rows = self.key.map_or(&no_processes, |key| &key.processes);
        let old_list =
            self.key.and_then(|key| key.sample.tasks.as_ref().ok()).map(|tasks| tasks.processes.as_slice()).unwrap_or_default();
        let Some(changes) = self.sections.changes(schema::PROCESSES)? else {
            return Ok((if present { old_list.to_vec() } else { Vec::new() }, no_processes, no_threads));
        };
        // What each process becomes, and the key frame's threads of those that changed.
        let mut plan: Vec<Plan> = Vec::new();
        let mut rows = Rows::new(schema::PROCESSES.width);
        let mut old_threads = Rows::new(schema::THREADS.width);
        changes.apply(old_rows, |fate, at, row| {
            let old = at.and_then(|at| old_list.get(at));
            if fate == Fate::Same {
                plan.push(Plan::Same(old.ok_or(Malformed("a process is not in the key frame"))?.clone()));
                return Ok(());
            }
            if let (Some(key), Some(at), Some(old)) = (self.key, at, old) {
                let first = key.first_thread.get(at).copied().unwrap_or_default();
                for at in first..first + old.threads.len() {
                    old_threads.push(key.threads.row(at).ok_or(Malformed("a thread is not in the key frame"))?);
                }
            }
            plan.push(Plan::Build(rows.len()));
            rows.push(row);
            Ok(())
        })?;
        let threads = self.threads(&old_threads)?;
        let mut next_thread = 0usize;
        let mut processes = Vec::with_capacity(plan.len());
        for step in plan {
            processes.push(match step {
                Plan::Same(process) => self.shared(process),
                Plan::Build(at) => {
                    let row = rows.row(at).unwrap_or_default();
                    let (process, used) = self.process(row, &threads, next_thread)?;
                    next_thread = used;
                    self.shared(Arc::new(process))
                }
            });
        }
        if next_thread != threads.len() {
            return Err(Malformed("there are threads without a process"));
        }
        // Later deltas are taken against these.
        if self.key.is_some() {
            return Ok((processes, no_processes, no_threads));
        }
        Ok((processes, rows, threads))
    }

    /// The rows of all threads of processes that changed or are new.
    fn threads(&self, reference: &Rows) -> Result<Rows, Malformed> {
        let mut rows = Rows::new(schema::THREADS.width);
        let key_ns = self.key.map(|key| key.sample.at.boottime_ns).unwrap_or_default();
        let since_key = self.at.boottime_ns.wrapping_sub(key_ns);
        let mut push = |fate, row: &[u64]| {
            rows.push(row);
            // A thread's moment that did not change is further back now.
            if let (Fate::Same, Some(cell)) = (fate, switched(rows.last_mut())) {
                *cell = cell.wrapping_add(since_key);
            }
        };
        match self.sections.changes(schema::THREADS)? {
            Some(changes) => changes.apply(reference, |fate, _, row| {
                push(fate, row);
                Ok(())
            })?,
            None => reference.iter().for_each(|row| push(Fate::Same, row)),
        }
        Ok(rows)
    }

    /// A process from its row and its threads' rows from `first` on; also where the next process's threads begin.
    fn process(&self, row: &[u64], threads: &Rows, first: usize) -> Result<(Process, usize), Malformed> {
        let mut row = row.to_vec();
        let (clock, process_has, thread_has) = CLOCK;
        let has_clock = row.get(process_has).is_some_and(|&cell| cell != 0);
        let count = row.get(THREAD_COUNT).and_then(|&count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
        if count > threads.len().saturating_sub(first) {
            return Err(Malformed("a process claims more threads than there are"));
        }
        let mut list: Vec<Thread> = Vec::with_capacity(count);
        for at in first..first + count {
            let mut thread = threads.row(at).unwrap_or_default().to_vec();
            if let Some(cell) = switched(&mut thread) {
                *cell = self.at.boottime_ns.wrapping_sub(*cell);
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
        Ok((process.with(list), first + count))
    }

    /// The neighbour's, when it is equal: nothing moved between the two samples.
    fn shared(&self, process: Arc<Process>) -> Arc<Process> {
        let neighbour = self.neighbour.and_then(|sample| sample.tasks.as_ref().ok()?.process(process.pid));
        match neighbour {
            Some(same) if Arc::ptr_eq(same, &process) || **same == *process => same.clone(),
            _ => process,
        }
    }

    fn sub_samples(&self, singles: &[u64]) -> Result<Vec<SubSample>, Malformed> {
        let rows = self.sections.rows(schema::SUB_SAMPLES, None)?;
        let changes = self.sections.rows(schema::GROUP_WAITS, None)?;
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
    Same(Arc<Process>),
    Build(usize),
}

/// The cell of a thread's moment, where it is known.
fn switched(row: &mut [u64]) -> Option<&mut u64> {
    let known = row.get(SWITCHED - 1).is_some_and(|&cell| cell != 0);
    row.get_mut(SWITCHED).filter(|_| known)
}
