//! Reads a recording from a pipe, as it arrives: no seeking, no index, the same care for damage.

use std::io::{self, Read};
use std::sync::Arc;

use super::part::parse_file_header;
use super::samples::Samples;
use crate::recording::Moment;
use crate::recording::error::{FrameFault, Place, RecordingError};
use crate::recording::frames::damage::{Damage, DamageKind, Order, Verdict};
use crate::recording::frames::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::frames::header::{self, FileHeader};
use crate::recording::frames::meta::{Gap, Mark, Meta, parse_section};
use crate::recording::payload::layout::Layout;
use crate::recording::payload::pack::Unpacker;
use crate::recording::read::walk::find_sync;
use crate::recording::wire::Malformed;
use crate::sample::Sample;

/// What a stream brings, in its order.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// Comes first, and only once.
    Meta(Box<Meta>),
    Section {
        name: String,
        bytes: Vec<u8>,
    },
    Sample(Arc<Sample>),
    Gap(Gap),
    Mark(Mark),
    Damage(Damage),
    /// The recorder has ended in good order.
    End,
}

/// A recording that arrives.
pub struct StreamReader<R> {
    from: R,
    header: FileHeader,
    /// Read and not used up yet.
    buffer: Vec<u8>,
    /// How much of the front of `buffer` is used up.
    used: usize,
    /// Where in the stream the buffer's unused part begins.
    offset: u64,
    order: Order,
    samples: Samples,
    unpacker: Unpacker,
    has_meta: bool,
    /// Where the bytes begin that gave nothing.
    skipping: Option<u64>,
    /// A sample that waits for the damage before it to be told.
    pending: Vec<StreamEvent>,
    ended: bool,
    /// The pipe was closed at the other end.
    drained: bool,
    /// Bytes of payloads whose checksum was wrong.
    in_vain: u64,
}

const CHUNK: usize = 64 << 10;

/// Beyond so many bytes checked in vain, and as many as have come, nobody looks into damaged payloads any more: headers inside
/// each other would have each byte checked once for each of them.
const PATIENCE: u64 = 64 << 20;

impl<R: Read> StreamReader<R> {
    /// Waits for the file header.
    pub fn open(from: R) -> Result<StreamReader<R>, RecordingError> {
        let mut reader = StreamReader {
            from,
            header: FileHeader::new([0; 16], 0),
            buffer: Vec::new(),
            used: 0,
            offset: 0,
            order: Order::default(),
            samples: Samples::new(Layout::NEW),
            unpacker: Unpacker::default(),
            has_meta: false,
            skipping: None,
            pending: Vec::new(),
            ended: false,
            drained: false,
            in_vain: 0,
        };
        reader.fill(header::LENGTH * 2).map_err(|source| reader.failed(source))?;
        let start = reader.rest().get(..header::LENGTH * 2).unwrap_or(reader.rest());
        let (header, damaged) = parse_file_header(start, &Place::Stream)?;
        reader.header = header;
        reader.samples = Samples::new(header.layout());
        if damaged {
            let bytes = 0..header::LENGTH as u64 * 2;
            let damage = Damage { bytes, what: DamageKind::FileHeader, lost: 0, from: None, to: None };
            reader.pending.push(StreamEvent::Damage(damage));
        }
        reader.advance(header::LENGTH * 2);
        Ok(reader)
    }

    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// What comes next; waits for it. `None` at the end of the stream. Frames before the meta frame's first sound copy
    /// give nothing: nobody knows which machine they are about.
    pub fn event(&mut self) -> Result<Option<StreamEvent>, RecordingError> {
        loop {
            if !self.pending.is_empty() {
                return Ok(Some(self.pending.remove(0)));
            }
            if self.ended {
                return Ok(None);
            }
            self.fill(HEADER_LENGTH).map_err(|source| self.failed(source))?;
            match FrameHeader::parse(self.rest(), &self.header.id) {
                Some(header) => {
                    let length = HEADER_LENGTH + header.stored as usize;
                    self.fill(length).map_err(|source| self.failed(source))?;
                    if self.rest().len() < length {
                        // Cut in this frame, unless bytes are missing in it and others follow.
                        self.skip(1);
                    } else {
                        self.frame(header).map_err(|source| self.failed(source))?;
                    }
                }
                None if self.rest().is_empty() => self.end(),
                None => self.skip(1),
            }
        }
    }

    fn failed(&self, source: io::Error) -> RecordingError {
        RecordingError::Read { path: Place::Stream, offset: Some(self.offset), source }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.used..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        let count = count.min(self.rest().len());
        self.used += count;
        self.offset += count as u64;
    }

    /// Reads until there are `length` bytes, or the stream ends.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        while self.rest().len() < length && !self.drained {
            if self.used > 0 {
                self.buffer.drain(..self.used);
                self.used = 0;
            }
            let held = self.buffer.len();
            self.buffer.resize(held + CHUNK, 0);
            let room = self.buffer.get_mut(held..).unwrap_or_default();
            let read = self.from.read(room);
            let count = *read.as_ref().unwrap_or(&0);
            self.buffer.truncate(held + count);
            match read {
                Ok(0) => self.drained = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// These bytes are no frame: goes to the next that may be.
    fn skip(&mut self, at_least: usize) {
        self.skipping.get_or_insert(self.offset);
        self.advance(at_least);
        let next = find_sync(self.rest()).unwrap_or(self.rest().len().saturating_sub(3));
        // The last bytes may begin a sync word; at the end of the stream they go one by one.
        self.advance(next);
    }

    fn end(&mut self) {
        self.ended = true;
        if let Some(from) = self.skipping.take() {
            let damage = Damage {
                bytes: from..self.offset,
                what: DamageKind::Frame(FrameFault::Cut),
                lost: 0,
                from: self.order.last(),
                to: None,
            };
            self.pending.push(StreamEvent::Damage(damage));
        }
    }

    fn damage(&mut self, bytes: std::ops::Range<u64>, what: DamageKind, lost: u64, to: Moment) {
        let damage = Damage { bytes, what, lost, from: self.order.last(), to: Some(to) };
        self.pending.push(StreamEvent::Damage(damage));
    }

    fn frame(&mut self, header: FrameHeader) -> io::Result<()> {
        let offset = self.offset;
        let begins = HEADER_LENGTH;
        let StreamReader { buffer, used, unpacker, .. } = self;
        let payload = buffer.get(*used + begins..*used + begins + header.stored as usize).unwrap_or_default();
        let unpacked = header.unpack(payload, unpacker);
        let length = HEADER_LENGTH + header.stored as usize;
        let Verdict::Sound { lost } = self.order.judge(&header) else {
            self.damage(offset..offset + length as u64, DamageKind::OutOfOrder, 0, header.at);
            self.skipping = None;
            self.advance(length);
            return Ok(());
        };
        if let Some(from) = self.skipping.take() {
            self.damage(from..offset, DamageKind::Garbage, lost, header.at);
        } else if lost > 0 {
            self.damage(offset..offset, DamageKind::Missing, lost, header.at);
        }
        let result = unpacked.and_then(|payload| self.take(&header, &payload));
        if let Err(why) = result {
            let lost = u64::from(header.kind.is_sample());
            self.damage(offset..offset + length as u64, DamageKind::Frame(why), lost, header.at);
        }
        self.order.accept(&header);
        // With a wrong checksum the length may be short by missing bytes: the next frame may begin inside.
        match result {
            Err(FrameFault::Checksum) if self.in_vain <= PATIENCE.saturating_add(self.offset) => {
                self.in_vain = self.in_vain.saturating_add(u64::from(header.stored));
                self.advance(HEADER_LENGTH);
                self.fill(header.stored as usize + HEADER_LENGTH)?;
                let next = find_frame(self.rest(), &self.header).unwrap_or(usize::MAX);
                self.advance(next.min(header.stored as usize));
            }
            _ => self.advance(length),
        }
        Ok(())
    }

    fn take(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<(), FrameFault> {
        if !self.has_meta && header.kind != FrameKind::Meta {
            return Ok(());
        }
        let event = match header.kind {
            FrameKind::Meta if self.has_meta => return Ok(()),
            FrameKind::Meta => {
                let meta = Meta::parse(payload)?;
                self.has_meta = true;
                StreamEvent::Meta(Box::new(meta))
            }
            FrameKind::Section => {
                let (name, bytes) = parse_section(payload)?;
                StreamEvent::Section { name, bytes }
            }
            FrameKind::Key | FrameKind::Delta => {
                if (header.kind == FrameKind::Key) != (header.key_distance == 0) {
                    return Err(FrameFault::Malformed(Malformed("a key frame is at a distance from itself")));
                }
                StreamEvent::Sample(self.samples.decode(header.sequence, header.key_distance, header.at, payload)?)
            }
            FrameKind::Gap => StreamEvent::Gap(Gap::parse(payload, header.sequence, header.at)?),
            FrameKind::Mark => {
                let text = String::from_utf8_lossy(payload).into_owned();
                StreamEvent::Mark(Mark { before: header.sequence, at: header.at, text })
            }
            FrameKind::End => {
                self.ended = true;
                StreamEvent::End
            }
            FrameKind::Index | FrameKind::Digest | FrameKind::Unknown(_) => return Ok(()),
        };
        self.pending.push(event);
        Ok(())
    }
}

fn find_frame(bytes: &[u8], header: &FileHeader) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let found = find_sync(rest)?;
        if FrameHeader::parse(rest.get(found..)?, &header.id).is_some() {
            return Some(at + found);
        }
        at += found + 1;
    }
}
