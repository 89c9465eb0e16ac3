//! Reads a recording from a pipe, as it arrives: without seeking or index, and with the same checks for damage.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use super::decoder::SampleParts;
use super::reused_list::HeldSamples;
use super::sample_decoder::SampleDecoder;
use super::segment_file::parse_file_header;
use crate::recording::Timestamp;
use crate::recording::error::{FrameError, Location, RecordingError};
use crate::recording::format::compression::{CompressedPayload, PayloadDecompressor};
use crate::recording::format::file_header::{self, FileHeader};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::format::frame_summary::FrameSummary;
use crate::recording::format::meta::{Gap, Mark, Meta, parse_section};
use crate::recording::format::wire::Malformed;
use crate::recording::read::damage::{Damage, DamageKind, SequenceStatus, SequenceTracker};
use crate::recording::read::frame_scan::sync_word_position;
use crate::recording::write::frame_writer::SampleFrame;
use crate::sample::Sample;

/// What a stream contains, in its order.
#[derive(Clone, Debug)]
pub enum StreamEvent {
    /// The first event, and only once.
    Meta(Box<Meta>),
    Section {
        name: String,
        bytes: Vec<u8>,
    },
    Sample(Arc<Sample>),
    Gap(Gap),
    Mark(Mark),
    Damage(Damage),
    /// The recorder has closed the recording.
    End,
}

/// Reads a recording from a stream.
pub struct StreamReader<R> {
    reader: R,
    header: FileHeader,
    /// Bytes that were read; those before `consumed` are parsed.
    buffer: Vec<u8>,
    /// Bytes of `buffer` that are parsed.
    consumed: usize,
    /// Offset in the stream of the first byte that is not parsed.
    offset: u64,
    sequence_tracker: SequenceTracker,
    decoder: SampleDecoder,
    decompressor: PayloadDecompressor,
    has_meta: bool,
    /// The header of the last sample, and where its payload is in `buffer` until more is read.
    last_sample: Option<(FrameHeader, Range<usize>)>,
    /// Offset of the first of the bytes that are no frame.
    skipping_from: Option<u64>,
    /// Events that are not returned yet: a sample waits for the damage before it.
    pending_events: Vec<StreamEvent>,
    ended: bool,
    /// The writer has closed the pipe.
    at_eof: bool,
    /// Bytes of payloads with a wrong checksum.
    failed_checksum_bytes: u64,
}

/// Twice a pipe of small frames; a larger buffer would be memory of each of a hundred streams.
const READ_BYTES: usize = 16 << 10;

/// Bytes before the header that are skipped, and how many of them are kept.
const MAX_TEXT_BYTES: u64 = 1 << 20;
const MAX_KEPT_TEXT_BYTES: usize = 1 << 10;

/// After so many bytes searched without success, and no fewer than have arrived, damaged payloads are not searched any more:
/// with nested headers each byte would be checked once for each header.
const MAX_FAILED_CHECKSUM_BYTES: u64 = 64 << 20;

impl<R: Read> StreamReader<R> {
    /// Reads the file header; blocks until it has arrived.
    pub fn open(from: R) -> Result<StreamReader<R>, RecordingError> {
        let mut reader = StreamReader::new(from);
        reader.read_file_header()?;
        Ok(reader)
    }

    /// The same where other output may come before the header, such as the banner of a login shell. `text` gets the last bytes of it,
    /// also where no header follows: then they say why. Fails after a megabyte.
    pub fn open_after_text(from: R, text: &mut Vec<u8>) -> Result<StreamReader<R>, RecordingError> {
        let mut reader = StreamReader::new(from);
        reader.skip_to_header(text)?;
        reader.read_file_header()?;
        Ok(reader)
    }

    fn new(from: R) -> StreamReader<R> {
        StreamReader {
            reader: from,
            header: FileHeader::new([0; 16], 0),
            buffer: Vec::new(),
            consumed: 0,
            offset: 0,
            sequence_tracker: SequenceTracker::default(),
            decoder: SampleDecoder::in_order(SampleParts::All, HeldSamples::up_to(0)),
            decompressor: PayloadDecompressor::default(),
            has_meta: false,
            last_sample: None,
            skipping_from: None,
            pending_events: Vec::new(),
            ended: false,
            at_eof: false,
            failed_checksum_bytes: 0,
        }
    }

    fn read_file_header(&mut self) -> Result<(), RecordingError> {
        self.fill(file_header::LENGTH * 2).map_err(|source| self.read_error(source))?;
        let start = self.unread().get(..file_header::LENGTH * 2).unwrap_or(self.unread());
        let (header, damaged) = parse_file_header(start, &Location::Stream)?;
        self.header = header;
        if damaged {
            let bytes = 0..file_header::LENGTH as u64 * 2;
            let damage = Damage { bytes, kind: DamageKind::FileHeader, lost_samples: 0, from: None, to: None };
            self.pending_events.push(StreamEvent::Damage(damage));
        }
        self.advance(file_header::LENGTH * 2);
        Ok(())
    }

    /// Skips bytes up to the magic number of a file header, or to the end of the stream.
    fn skip_to_header(&mut self, text: &mut Vec<u8>) -> Result<(), RecordingError> {
        const MAGIC: &[u8] = &file_header::MAGIC;
        while !self.at_eof && self.offset <= MAX_TEXT_BYTES {
            // At least one byte more than there is.
            self.fill(self.unread().len().max(MAGIC.len() - 1) + 1).map_err(|source| self.read_error(source))?;
            let unread = self.unread();
            let found = unread.windows(MAGIC.len()).position(|bytes| bytes == MAGIC);
            // The last bytes may be the beginning of the magic number.
            let last = if self.at_eof { unread.len() } else { unread.len().saturating_sub(MAGIC.len() - 1) };
            let skipped = found.unwrap_or(last);
            text.extend_from_slice(unread.get(..skipped).unwrap_or_default());
            text.drain(..text.len().saturating_sub(MAX_KEPT_TEXT_BYTES));
            self.advance(skipped);
            if found.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next event; blocks until it has arrived. `None` at the end of the stream. Frames before the first intact meta
    /// frame are ignored: their host is unknown.
    pub fn next_event(&mut self) -> Result<Option<StreamEvent>, RecordingError> {
        loop {
            if !self.pending_events.is_empty() {
                return Ok(Some(self.pending_events.remove(0)));
            }
            if self.ended {
                return Ok(None);
            }
            self.last_sample = None;
            self.fill(HEADER_LENGTH).map_err(|source| self.read_error(source))?;
            match FrameHeader::parse(self.unread(), &self.header.id) {
                Some(header) => {
                    let length = HEADER_LENGTH + header.stored_len as usize;
                    self.fill(length).map_err(|source| self.read_error(source))?;
                    if self.unread().len() < length {
                        // The stream ends in this frame, unless bytes of it are missing and others follow.
                        self.skip_to_sync_word(1);
                    } else {
                        self.accept_frame(header).map_err(|source| self.read_error(source))?;
                    }
                }
                None if self.unread().is_empty() => self.finish(),
                None => self.skip_to_sync_word(1),
            }
        }
    }

    /// The last sample as it was encoded; `None` unless it was the last event.
    pub fn last_sample_frame(&self, summary: FrameSummary) -> Option<SampleFrame> {
        let (header, payload) = self.last_sample.as_ref()?;
        let bytes = self.buffer.get(payload.clone())?.to_vec();
        let payload = CompressedPayload { bytes, raw_len: header.raw_len, flags: header.flags };
        Some(SampleFrame { at: header.at, key_distance: header.key_distance, payload, summary })
    }

    /// What it reads from.
    pub fn get_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    fn read_error(&self, source: io::Error) -> RecordingError {
        RecordingError::Read { path: Location::Stream, offset: Some(self.offset), source }
    }

    fn unread(&self) -> &[u8] {
        self.buffer.get(self.consumed..).unwrap_or_default()
    }

    fn advance(&mut self, count: usize) {
        let count = count.min(self.unread().len());
        self.consumed += count;
        self.offset += count as u64;
    }

    /// Reads until there are `length` bytes, or the stream ends.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        while self.unread().len() < length && !self.at_eof {
            if self.consumed > 0 {
                self.buffer.drain(..self.consumed);
                self.consumed = 0;
                // What the first key frame needed.
                self.buffer.shrink_to(2 * READ_BYTES);
            }
            let held = self.buffer.len();
            self.buffer.resize(held + READ_BYTES, 0);
            let room = self.buffer.get_mut(held..).unwrap_or_default();
            let read = self.reader.read(room);
            let count = *read.as_ref().unwrap_or(&0);
            self.buffer.truncate(held + count);
            match read {
                Ok(0) => self.at_eof = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Skips bytes that are no frame, up to the next sync word.
    fn skip_to_sync_word(&mut self, at_least: usize) {
        self.skipping_from.get_or_insert(self.offset);
        self.advance(at_least);
        let next = sync_word_position(self.unread()).unwrap_or(self.unread().len().saturating_sub(3));
        // The last bytes may begin a sync word; at the end of the stream they are skipped one by one.
        self.advance(next);
    }

    fn finish(&mut self) {
        self.ended = true;
        if let Some(from) = self.skipping_from.take() {
            let damage = Damage {
                bytes: from..self.offset,
                kind: DamageKind::Frame(FrameError::Truncated),
                lost_samples: 0,
                from: self.sequence_tracker.last_timestamp(),
                to: None,
            };
            self.pending_events.push(StreamEvent::Damage(damage));
        }
    }

    fn add_damage(&mut self, bytes: Range<u64>, what: DamageKind, lost: u64, to: Timestamp) {
        let damage =
            Damage { bytes, kind: what, lost_samples: lost, from: self.sequence_tracker.last_timestamp(), to: Some(to) };
        self.pending_events.push(StreamEvent::Damage(damage));
    }

    fn accept_frame(&mut self, header: FrameHeader) -> io::Result<()> {
        let offset = self.offset;
        let begins = HEADER_LENGTH;
        let StreamReader { buffer, consumed: used, decompressor: unpacker, .. } = self;
        let payload = buffer.get(*used + begins..*used + begins + header.stored_len as usize).unwrap_or_default();
        let unpacked = header.decompress_payload(payload, unpacker);
        let length = HEADER_LENGTH + header.stored_len as usize;
        let SequenceStatus::InOrder { lost_samples: lost } = self.sequence_tracker.check(&header) else {
            self.add_damage(offset..offset + length as u64, DamageKind::OutOfOrder, 0, header.at);
            self.skipping_from = None;
            self.advance(length);
            return Ok(());
        };
        if let Some(from) = self.skipping_from.take() {
            self.add_damage(from..offset, DamageKind::NotAFrame, lost, header.at);
        } else if lost > 0 {
            self.add_damage(offset..offset, DamageKind::MissingFrames, lost, header.at);
        }
        let result = unpacked.and_then(|payload| self.decode_payload(&header, &payload));
        if let Err(why) = result {
            let lost = u64::from(header.kind.is_sample());
            self.add_damage(offset..offset + length as u64, DamageKind::Frame(why), lost, header.at);
        }
        if result.is_ok() && header.kind.is_sample() {
            let payload = self.consumed + HEADER_LENGTH;
            self.last_sample = Some((header, payload..self.consumed + length));
        }
        self.sequence_tracker.accept(&header);
        // Bytes of a frame with a wrong checksum may be missing: the next frame may begin inside it.
        match result {
            Err(FrameError::Checksum)
                if self.failed_checksum_bytes <= MAX_FAILED_CHECKSUM_BYTES.saturating_add(self.offset) =>
            {
                self.failed_checksum_bytes = self.failed_checksum_bytes.saturating_add(u64::from(header.stored_len));
                self.advance(HEADER_LENGTH);
                self.fill(header.stored_len as usize + HEADER_LENGTH)?;
                let next = frame_position(self.unread(), &self.header).unwrap_or(usize::MAX);
                self.advance(next.min(header.stored_len as usize));
            }
            _ => self.advance(length),
        }
        Ok(())
    }

    fn decode_payload(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<(), FrameError> {
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
                    return Err(FrameError::Malformed(Malformed("a key frame is at a distance from itself")));
                }
                StreamEvent::Sample(self.decoder.decode(header.sequence, header.key_distance, header.at, payload)?)
            }
            FrameKind::Gap => StreamEvent::Gap(Gap::parse(payload, header.sequence, header.at)?),
            FrameKind::Mark => {
                let text = String::from_utf8_lossy(payload).into_owned();
                StreamEvent::Mark(Mark { samples_before: header.sequence, at: header.at, text })
            }
            FrameKind::End => {
                self.ended = true;
                StreamEvent::End
            }
            FrameKind::Index | FrameKind::Summary | FrameKind::Unknown(_) => return Ok(()),
        };
        self.pending_events.push(event);
        Ok(())
    }
}

fn frame_position(bytes: &[u8], header: &FileHeader) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let found = sync_word_position(rest)?;
        if FrameHeader::parse(rest.get(found..)?, &header.id).is_some() {
            return Some(at + found);
        }
        at += found + 1;
    }
}
