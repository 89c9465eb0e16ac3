//! The table of contents at the end of a closed recording: only a cache. Every entry is checked against its frame when it
//! is used; a missing or lying one is rebuilt by walking the frame headers.

use super::frame::FrameKind;
use crate::recording::Moment;
use crate::recording::wire::{Input, Malformed, array, put_varint, unzigzag, zigzag};

/// A longer table is left out: about a million samples.
const MAX_BYTES: usize = 16 << 20;

/// Where a frame is, and what it says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub offset: u64,
    pub sequence: u64,
    pub at: Moment,
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
    /// Found by walking only: no index lists it.
    Digest,
    /// Nothing that a reader looks up; no index lists it.
    Other,
}

impl EntryKind {
    pub fn of(kind: FrameKind) -> EntryKind {
        match kind {
            FrameKind::Meta => EntryKind::Meta,
            FrameKind::Section => EntryKind::Section,
            FrameKind::Key | FrameKind::Delta => EntryKind::Sample,
            FrameKind::Gap => EntryKind::Gap,
            FrameKind::Mark => EntryKind::Mark,
            FrameKind::Digest => EntryKind::Digest,
            FrameKind::Index | FrameKind::End | FrameKind::Unknown(_) => EntryKind::Other,
        }
    }

    fn number(self) -> u64 {
        match self {
            EntryKind::Sample => 0,
            EntryKind::Meta => 1,
            EntryKind::Section => 2,
            EntryKind::Gap => 3,
            EntryKind::Mark => 4,
            EntryKind::Digest => 5,
            EntryKind::Other => 6,
        }
    }

    fn from_number(number: u64) -> Result<EntryKind, Malformed> {
        [EntryKind::Sample, EntryKind::Meta, EntryKind::Section, EntryKind::Gap, EntryKind::Mark]
            .into_iter()
            .find(|kind| kind.number() == number)
            .ok_or(Malformed("the index lists an unknown kind"))
    }
}

/// The index as it grows while a recording is written.
#[derive(Clone, Debug, Default)]
pub struct IndexBuilder {
    bytes: Vec<u8>,
    count: u64,
    last: Last,
    /// It grew too long: left out.
    full: bool,
}

/// What the next entry differs from.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    offset: u64,
    sequence: u64,
    at: Moment,
}

/// To take back entries of frames that could not be written.
#[derive(Clone, Copy, Debug)]
pub struct IndexLength {
    bytes: usize,
    count: u64,
    last: Last,
}

impl IndexBuilder {
    pub fn push(&mut self, entry: Entry) {
        if self.full {
            return;
        }
        let last = self.last;
        let out = &mut self.bytes;
        let boottime = entry.at.boottime_ns.wrapping_sub(last.at.boottime_ns);
        let realtime = entry.at.realtime_ns.wrapping_sub(last.at.realtime_ns).cast_unsigned();
        put_varint(out, entry.kind.number());
        put_varint(out, entry.offset.wrapping_sub(last.offset));
        put_varint(out, entry.sequence.wrapping_sub(last.sequence));
        put_varint(out, zigzag(boottime));
        put_varint(out, zigzag(realtime.wrapping_sub(boottime)));
        put_varint(out, u64::from(entry.key_distance));
        self.count += 1;
        self.last = Last { offset: entry.offset, sequence: entry.sequence, at: entry.at };
        if self.bytes.len() > MAX_BYTES {
            *self = IndexBuilder { full: true, ..IndexBuilder::default() };
        }
    }

    pub fn length(&self) -> IndexLength {
        IndexLength { bytes: self.bytes.len(), count: self.count, last: self.last }
    }

    pub fn take_back(&mut self, length: IndexLength) {
        self.bytes.truncate(length.bytes);
        self.count = length.count;
        self.last = length.last;
    }

    /// Bytes of the payload.
    pub fn payload_length(&self) -> usize {
        self.bytes.len() + 10
    }

    /// The payload of the index frame; `None` when there is none to write.
    pub fn payload(&self) -> Option<Vec<u8>> {
        if self.full {
            return None;
        }
        let mut out = Vec::with_capacity(self.bytes.len() + 10);
        put_varint(&mut out, self.count);
        out.extend_from_slice(&self.bytes);
        Some(out)
    }
}

/// Reads the payload of an index frame. Offsets must grow and lie before `end`.
pub fn parse(raw: &[u8], end: u64) -> Result<Vec<Entry>, Malformed> {
    let mut input = Input::new(raw);
    let count = input.count()?;
    // Six numbers an entry.
    let mut entries = Vec::with_capacity(count.min(input.left() / 6));
    let mut last = Last::default();
    for _ in 0..count {
        let kind = EntryKind::from_number(input.varint()?)?;
        let offset = last.offset.checked_add(input.varint()?).filter(|&offset| offset < end);
        let offset = offset.ok_or(Malformed("the index points outside the file"))?;
        let sequence = last.sequence.checked_add(input.varint()?).ok_or(Malformed("the index is out of order"))?;
        let boottime = unzigzag(input.varint()?);
        let realtime = boottime.wrapping_add(unzigzag(input.varint()?)).cast_signed();
        let at = Moment {
            boottime_ns: last.at.boottime_ns.wrapping_add(boottime),
            realtime_ns: last.at.realtime_ns.wrapping_add(realtime),
        };
        let key_distance = u16::try_from(input.varint()?).map_err(|_| Malformed("the index is out of order"))?;
        let entry = Entry { offset, sequence, at, kind, key_distance };
        let in_order = |before: &Entry| {
            before.offset < offset && (kind != EntryKind::Sample || before.kind != kind || before.sequence < sequence)
        };
        if !entries.last().is_none_or(in_order) {
            return Err(Malformed("the index is out of order"));
        }
        entries.push(entry);
        last = Last { offset, sequence, at };
    }
    if input.is_empty() { Ok(entries) } else { Err(Malformed("the index is longer than it says")) }
}

/// The payload of the end frame: where the index frame begins (0 for none), and how many samples there are.
pub fn end_payload(index_offset: u64, samples: u64) -> Vec<u8> {
    [index_offset.to_le_bytes(), samples.to_le_bytes()].concat()
}

pub const END_PAYLOAD_LENGTH: usize = 16;

pub fn parse_end(payload: &[u8]) -> Option<(u64, u64)> {
    Some((u64::from_le_bytes(array(payload, 0)?), u64::from_le_bytes(array(payload, 8)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(offset: u64, sequence: u64, kind: EntryKind) -> Entry {
        let at = Moment { boottime_ns: offset * 7, realtime_ns: 1_700_000_000_000_000_000 - offset.cast_signed() };
        Entry { offset, sequence, at, kind, key_distance: 3 }
    }

    #[test]
    fn what_is_built_is_read_and_can_be_taken_back() {
        let entries = [entry(128, 0, EntryKind::Meta), entry(200, 0, EntryKind::Sample), entry(300, 1, EntryKind::Sample)];
        let mut builder = IndexBuilder::default();
        entries.iter().for_each(|entry| builder.push(*entry));
        let length = builder.length();
        builder.push(entry(400, 2, EntryKind::Mark));
        builder.take_back(length);
        let payload = builder.payload().unwrap();
        assert_eq!(parse(&payload, 301).unwrap(), entries);
        assert!(parse(&payload, 300).is_err(), "an offset outside the file");
        assert!(parse(&payload[..payload.len() - 1], 301).is_err());
    }
}
