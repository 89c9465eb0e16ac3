//! The index: the list of frames at the end of a closed recording. Only a cache: every entry is checked against its frame when
//! it is used; a missing or wrong index is rebuilt by scanning the frame headers.

use super::frame::FrameKind;
use super::frame_summary::{self, FrameSummary};
use crate::recording::Timestamp;
use crate::recording::format::wire::{ByteReader, Malformed, array_at, put_varint, unzigzag, zigzag};

/// A longer index is left out: about a million samples.
const MAX_INDEX_BYTES: usize = 16 << 20;

/// Offset and header fields of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub offset: u64,
    pub sequence: u64,
    pub at: Timestamp,
    pub kind: EntryKind,
    pub key_distance: u16,
}

/// The kinds of frame that a reader looks up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Meta,
    Section,
    Sample,
    Gap,
    Mark,
    /// Found by a scan only: no index lists it.
    Summary,
    /// No index lists it.
    Other,
}

impl EntryKind {
    pub fn from_frame_kind(kind: FrameKind) -> EntryKind {
        match kind {
            FrameKind::Meta => EntryKind::Meta,
            FrameKind::Section => EntryKind::Section,
            FrameKind::Key | FrameKind::Delta => EntryKind::Sample,
            FrameKind::Gap => EntryKind::Gap,
            FrameKind::Mark => EntryKind::Mark,
            FrameKind::Summary => EntryKind::Summary,
            FrameKind::Index | FrameKind::End | FrameKind::Unknown(_) => EntryKind::Other,
        }
    }

    fn code(self) -> u64 {
        match self {
            EntryKind::Sample => 0,
            EntryKind::Meta => 1,
            EntryKind::Section => 2,
            EntryKind::Gap => 3,
            EntryKind::Mark => 4,
            EntryKind::Summary => 5,
            EntryKind::Other => 6,
        }
    }

    fn from_code(number: u64) -> Result<EntryKind, Malformed> {
        [EntryKind::Sample, EntryKind::Meta, EntryKind::Section, EntryKind::Gap, EntryKind::Mark]
            .into_iter()
            .find(|kind| kind.code() == number)
            .ok_or(Malformed("the index lists an unknown kind"))
    }
}

/// Collects the index while a recording is written.
#[derive(Clone, Debug, Default)]
pub struct IndexBuilder {
    bytes: Vec<u8>,
    count: u64,
    previous: DeltaBase,
    /// The index is too long and is left out.
    overflowed: bool,
}

/// The entry that the next one is a difference from.
#[derive(Clone, Copy, Debug, Default)]
struct DeltaBase {
    offset: u64,
    sequence: u64,
    at: Timestamp,
}

/// The state before some frames, to roll back to.
#[derive(Clone, Copy, Debug)]
pub struct IndexCheckpoint {
    byte_len: usize,
    count: u64,
    previous: DeltaBase,
}

impl IndexBuilder {
    pub fn push(&mut self, entry: IndexEntry) {
        if self.overflowed {
            return;
        }
        let last = self.previous;
        let out = &mut self.bytes;
        let boottime = entry.at.boottime_ns.wrapping_sub(last.at.boottime_ns);
        let realtime = entry.at.realtime_ns.wrapping_sub(last.at.realtime_ns).cast_unsigned();
        put_varint(out, entry.kind.code());
        put_varint(out, entry.offset.wrapping_sub(last.offset));
        put_varint(out, entry.sequence.wrapping_sub(last.sequence));
        put_varint(out, zigzag(boottime));
        put_varint(out, zigzag(realtime.wrapping_sub(boottime)));
        put_varint(out, u64::from(entry.key_distance));
        self.count += 1;
        self.previous = DeltaBase { offset: entry.offset, sequence: entry.sequence, at: entry.at };
        if self.bytes.len() > MAX_INDEX_BYTES {
            *self = IndexBuilder { overflowed: true, ..IndexBuilder::default() };
        }
    }

    pub fn checkpoint(&self) -> IndexCheckpoint {
        IndexCheckpoint { byte_len: self.bytes.len(), count: self.count, previous: self.previous }
    }

    pub fn roll_back(&mut self, length: IndexCheckpoint) {
        self.bytes.truncate(length.byte_len);
        self.count = length.count;
        self.previous = length.previous;
    }

    /// Most bytes of the payload.
    pub fn max_payload_len(&self) -> usize {
        self.bytes.len() + 10
    }

    /// The payload of the index frame, with the payload of the summaries of all samples; `None` when there is none to write.
    pub fn payload(&self, summaries: Option<Vec<u8>>) -> Option<Vec<u8>> {
        if self.overflowed {
            return None;
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.bytes);
        out.extend(summaries.unwrap_or_default());
        Some(out)
    }
}

/// Reads the payload of an index frame: its entries, and the summaries of all samples where it has them. Offsets must grow and
/// lie before `end`.
pub fn parse(raw: &[u8], end: u64) -> Result<(Vec<IndexEntry>, Vec<FrameSummary>), Malformed> {
    let mut input = ByteReader::new(raw);
    let count = input.read_count()?;
    // Each entry takes at least six bytes.
    let mut entries = Vec::with_capacity(count.min(input.remaining() / 6));
    let mut last = DeltaBase::default();
    for _ in 0..count {
        let kind = EntryKind::from_code(input.read_varint()?)?;
        let offset = last.offset.checked_add(input.read_varint()?).filter(|&offset| offset < end);
        let offset = offset.ok_or(Malformed("the index points outside the file"))?;
        let sequence = last.sequence.checked_add(input.read_varint()?).ok_or(Malformed("the index is out of order"))?;
        let boottime = unzigzag(input.read_varint()?);
        let realtime = boottime.wrapping_add(unzigzag(input.read_varint()?)).cast_signed();
        let at = Timestamp {
            boottime_ns: last.at.boottime_ns.wrapping_add(boottime),
            realtime_ns: last.at.realtime_ns.wrapping_add(realtime),
        };
        let key_distance = u16::try_from(input.read_varint()?).map_err(|_| Malformed("the index is out of order"))?;
        let entry = IndexEntry { offset, sequence, at, kind, key_distance };
        let in_order = |before: &IndexEntry| {
            before.offset < offset && (kind != EntryKind::Sample || before.kind != kind || before.sequence < sequence)
        };
        if !entries.last().is_none_or(in_order) {
            return Err(Malformed("the index is out of order"));
        }
        entries.push(entry);
        last = DeltaBase { offset, sequence, at };
    }
    if input.is_empty() {
        return Ok((entries, Vec::new()));
    }
    let samples = entries.iter().filter(|entry| entry.kind == EntryKind::Sample).count();
    let summaries = frame_summary::parse(input.read_bytes(input.remaining())?, samples)?;
    if summaries.len() == samples { Ok((entries, summaries)) } else { Err(Malformed("the index lacks summaries")) }
}

/// The payload of the end frame: where the index frame begins (0 for none), and how many samples there are.
pub fn encode_end(index_offset: u64, samples: u64) -> Vec<u8> {
    [index_offset.to_le_bytes(), samples.to_le_bytes()].concat()
}

pub const END_PAYLOAD_LEN: usize = 16;

pub fn parse_end(payload: &[u8]) -> Option<(u64, u64)> {
    Some((u64::from_le_bytes(array_at(payload, 0)?), u64::from_le_bytes(array_at(payload, 8)?)))
}

#[cfg(test)]
mod tests {
    use super::super::frame_summary::{SummaryBuilder, SummarySeverity};
    use super::*;

    fn entry(offset: u64, sequence: u64, kind: EntryKind) -> IndexEntry {
        let at = Timestamp { boottime_ns: offset * 7, realtime_ns: 1_700_000_000_000_000_000 - offset.cast_signed() };
        IndexEntry { offset, sequence, at, kind, key_distance: 3 }
    }

    #[test]
    fn what_is_built_is_read_and_can_be_taken_back() {
        let entries = [entry(128, 0, EntryKind::Meta), entry(200, 0, EntryKind::Sample), entry(300, 1, EntryKind::Sample)];
        let mut builder = IndexBuilder::default();
        entries.iter().for_each(|entry| builder.push(*entry));
        let length = builder.checkpoint();
        builder.push(entry(400, 2, EntryKind::Mark));
        builder.roll_back(length);
        let payload = builder.payload(None).unwrap();
        assert_eq!(parse(&payload, 301).unwrap(), (entries.to_vec(), Vec::new()));
        let mut summaries = SummaryBuilder::default();
        let list = [SummarySeverity::Note, SummarySeverity::Critical].map(|worst_severity| FrameSummary {
            worst_severity,
            busy: 1,
            blocked: 2,
        });
        summaries.push(list[0]);
        let short = builder.payload(summaries.encode_payload()).unwrap();
        assert!(parse(&short, 301).is_err(), "fewer summaries than samples");
        summaries.push(list[1]);
        let whole = builder.payload(summaries.encode_payload()).unwrap();
        assert_eq!(parse(&whole, 301).unwrap(), (entries.to_vec(), list.to_vec()));
        assert!(parse(&payload, 300).is_err(), "an offset outside the file");
        assert!(parse(&payload[..payload.len() - 1], 301).is_err());
    }
}
