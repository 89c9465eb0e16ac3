//! The lines of /proc/diskstats in all their historic widths: 14 fields, 18 since 4.18, 20 since 5.5, more may come.

use std::sync::Arc;

use crate::ids::DiskId;
use crate::kernel::fields::{lines, next_counter, number, small_number, words};
use crate::sample::Name;
use crate::sample::disk::{Disk, DiskFacts, OpCounters};
use crate::units::Counter;

/// One line, a whole device or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub id: DiskId,
    pub name: &'a [u8],
    pub reads: OpCounters,
    pub writes: OpCounters,
    pub in_flight: u32,
    pub busy_time_ms: Counter,
    pub queue_time_ms: Counter,
    pub discards: Option<OpCounters>,
    /// Count and milliseconds.
    pub flushes: Option<(Counter, Counter)>,
}

impl Line<'_> {
    /// Whether it did any I/O since boot, or has some outstanding.
    pub fn has_worked(&self) -> bool {
        let done = |op: &OpCounters| op.completed.0 > 0;
        let flushed = self.flushes.is_some_and(|(count, _)| count.0 > 0);
        self.in_flight > 0 || done(&self.reads) || done(&self.writes) || self.discards.as_ref().is_some_and(done) || flushed
    }

    /// The reading of a whole device.
    pub(super) fn with_facts(self, name: Name, facts: Arc<DiskFacts>) -> Disk {
        Disk {
            id: self.id,
            name,
            facts,
            reads: self.reads,
            writes: self.writes,
            discards: self.discards,
            flushes: self.flushes.map(|(count, _)| count),
            flush_time_ms: self.flushes.map(|(_, time)| time),
            in_flight: self.in_flight,
            busy_time_ms: self.busy_time_ms,
            queue_time_ms: self.queue_time_ms,
        }
    }
}

/// The lines that can be understood. Partitions had lines of 7 fields long ago, which say too little and are left out.
pub fn parse(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    lines(bytes).filter_map(line)
}

/// Those of them that say of requests being outstanding: mostly none, which their twelfth word tells.
pub fn parse_outstanding(bytes: &[u8]) -> impl Iterator<Item = Line<'_>> {
    let has_none = |line: &[u8]| words(line).nth(IN_FLIGHT) == Some(b"0");
    lines(bytes).filter(move |bytes| !has_none(bytes)).filter_map(line).filter(|line| line.in_flight > 0)
}

/// The place of the requests in flight in a line, from 0.
const IN_FLIGHT: usize = 11;

fn line(line: &[u8]) -> Option<Line<'_>> {
    let mut words = words(line);
    let id = DiskId { major: small_number(words.next()?)?, minor: small_number(words.next()?)? };
    Some(Line {
        id,
        name: words.next()?,
        reads: operation(&mut words)?,
        writes: operation(&mut words)?,
        in_flight: outstanding(words.next()?)?,
        busy_time_ms: next_counter(&mut words)?,
        queue_time_ms: next_counter(&mut words)?,
        discards: operation(&mut words),
        flushes: next_counter(&mut words).zip(next_counter(&mut words)),
    })
}

fn operation<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<OpCounters> {
    // All four words are taken in any case, so that what follows keeps its place.
    let [completed, merged, sectors, time_ms] = [(); 4].map(|()| next_counter(words));
    Some(OpCounters { completed: completed?, merged: merged?, sectors: sectors?, time_ms: time_ms? })
}

/// Stacked devices of old kernels miscounted below zero; newer kernels give 0 for that, and so do we.
fn outstanding(word: &[u8]) -> Option<u32> {
    let count = number(word)?;
    match u32::try_from(count).ok()? {
        negative if negative > i32::MAX.unsigned_abs() => Some(0),
        count => Some(count),
    }
}
