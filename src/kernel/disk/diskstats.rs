//! Parses /proc/diskstats (Documentation/admin-guide/iostats.rst). A line is
//!
//! ```text
//! major minor name | 1-4 reads | 5-8 writes | 9 in flight | 10 io_ticks | 11 time in queue | 12-15 discards | 16-17 flushes
//! ```
//!
//! where reads, writes and discards are four numbers each: completed, merged, sectors, milliseconds. So `read_time_ms` is
//! field 4, here `reads.time_ms`. Discards exist since Linux 4.18, flushes (completed, milliseconds) since 5.5.

use std::sync::Arc;

use crate::ids::DiskId;
use crate::kernel::fields::{lines, next_counter, parse_u32, parse_u64, words};
use crate::sample::Name;
use crate::sample::disk::{Disk, DiskFacts, OpCounters};
use crate::units::Counter;

/// One line, a whole device or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskstatsLine<'a> {
    pub id: DiskId,
    pub name: &'a [u8],
    pub reads: OpCounters,
    pub writes: OpCounters,
    pub in_flight: u32,
    pub io_ticks_ms: Counter,
    pub time_in_queue_ms: Counter,
    pub discards: Option<OpCounters>,
    /// Completed flushes, and milliseconds spent on them; since 5.5
    pub flushes: Option<(Counter, Counter)>,
}

impl DiskstatsLine<'_> {
    /// Whether it has done I/O since boot, or has requests in flight.
    pub fn has_done_io(&self) -> bool {
        let done = |op: &OpCounters| op.completed.0 > 0;
        let flushed = self.flushes.is_some_and(|(count, _)| count.0 > 0);
        self.in_flight > 0 || done(&self.reads) || done(&self.writes) || self.discards.as_ref().is_some_and(done) || flushed
    }

    /// The device as a sample has it.
    pub(super) fn into_disk(self, name: Name, facts: Arc<DiskFacts>) -> Disk {
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
            io_ticks_ms: self.io_ticks_ms,
            time_in_queue_ms: self.time_in_queue_ms,
        }
    }
}

/// Parses all lines. Damaged ones are left out, as are the 7-field lines of partitions before 2.6.25.
pub fn parse_diskstats(bytes: &[u8]) -> impl Iterator<Item = DiskstatsLine<'_>> {
    lines(bytes).filter_map(parse_line)
}

/// Parses only the lines with requests in flight (the 12th word is not 0), usually none.
pub fn parse_in_flight(bytes: &[u8]) -> impl Iterator<Item = DiskstatsLine<'_>> {
    let has_none = |line: &[u8]| words(line).nth(IN_FLIGHT_FIELD) == Some(b"0");
    lines(bytes).filter(move |bytes| !has_none(bytes)).filter_map(parse_line).filter(|line| line.in_flight > 0)
}

/// Index of the requests in flight among the words of a line.
const IN_FLIGHT_FIELD: usize = 11;

fn parse_line(line: &[u8]) -> Option<DiskstatsLine<'_>> {
    let mut words = words(line);
    let id = DiskId { major: parse_u32(words.next()?)?, minor: parse_u32(words.next()?)? };
    Some(DiskstatsLine {
        id,
        name: words.next()?,
        reads: parse_op_counters(&mut words)?,
        writes: parse_op_counters(&mut words)?,
        in_flight: parse_in_flight_count(words.next()?)?,
        io_ticks_ms: next_counter(&mut words)?,
        time_in_queue_ms: next_counter(&mut words)?,
        discards: parse_op_counters(&mut words),
        flushes: next_counter(&mut words).zip(next_counter(&mut words)),
    })
}

fn parse_op_counters<'a>(words: &mut impl Iterator<Item = &'a [u8]>) -> Option<OpCounters> {
    // All four words are consumed in any case, so that the following fields keep their place.
    let [completed, merged, sectors, time_ms] = [(); 4].map(|()| next_counter(words));
    Some(OpCounters { completed: completed?, merged: merged?, sectors: sectors?, time_ms: time_ms? })
}

/// The counter of a stacked device could become negative on old kernels: that reads as 0, as on newer ones.
fn parse_in_flight_count(word: &[u8]) -> Option<u32> {
    let count = parse_u64(word)?;
    match u32::try_from(count).ok()? {
        negative if negative > i32::MAX.unsigned_abs() => Some(0),
        count => Some(count),
    }
}
