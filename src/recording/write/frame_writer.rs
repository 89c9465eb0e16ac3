//! Writes payloads as the consecutive frames of one recording: the same bytes for a file, a pipe and a saved history.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::recording::Timestamp;
use crate::recording::format::compression::{CompressedPayload, PayloadCompressor};
use crate::recording::format::file_header::{FileHeader, FileId};
use crate::recording::format::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::format::frame_summary::{FrameSummary, SummaryBuilder, SummaryCheckpoint};
use crate::recording::format::index::{self, EntryKind, IndexBuilder, IndexCheckpoint, IndexEntry};
use crate::recording::format::meta::{Gap, Meta, Redaction, encode_section};
use crate::recording::write::encoder::{Encoder, FrameTooLarge};
use crate::sample::Sample;

/// Named blocks of bytes of the upper layers, at the start of a recording.
pub type Sections = BTreeMap<String, Vec<u8>>;

/// A sample, encoded and compressed, independent of its place in a file.
#[derive(Clone, Debug)]
pub struct SampleFrame {
    pub at: Timestamp,
    /// Samples after the key frame; 0 is a key frame.
    pub key_distance: u16,
    pub payload: CompressedPayload,
    /// What the recorder evaluated, if it did.
    pub summary: FrameSummary,
}

impl SampleFrame {
    pub fn is_key(&self) -> bool {
        self.key_distance == 0
    }

    /// Bytes of the frame in a file.
    pub fn frame_len(&self) -> usize {
        HEADER_LENGTH + self.payload.bytes.len()
    }
}

/// Encodes and compresses samples.
pub struct SampleEncoder {
    encoder: Encoder,
    compressor: PayloadCompressor,
}

impl SampleEncoder {
    pub fn new(redaction: Redaction) -> SampleEncoder {
        SampleEncoder { encoder: Encoder::new(redaction), compressor: PayloadCompressor::default() }
    }

    pub fn encode(&mut self, sample: &Arc<Sample>, summary: FrameSummary) -> Result<SampleFrame, FrameTooLarge> {
        let encoded = self.encoder.encode(sample)?;
        let key_distance = encoded.key_distance;
        let Some(payload) = self.compressor.compress(encoded.raw) else {
            self.encoder.force_key_frame();
            return Err(FrameTooLarge);
        };
        let frame = SampleFrame { at: sample.at.into(), key_distance, payload, summary };
        self.encoder.add_stored_bytes(frame.frame_len());
        Ok(frame)
    }

    /// Makes the next frame a key frame.
    pub fn force_key_frame(&mut self) {
        self.encoder.force_key_frame();
    }
}

/// Writes the frames of one recording, and collects its index.
pub struct FrameWriter {
    id: FileId,
    header: FileHeader,
    compressor: PayloadCompressor,
    /// Repeated before each key frame, so that no single damage hides the host.
    compressed_meta: Option<CompressedPayload>,
    position: Position,
    index: IndexBuilder,
    summaries: SummaryBuilder,
}

/// The state that is restored when a frame could not be written.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    offset: u64,
    sequence: u64,
    last_timestamp: Timestamp,
    key_frame_offset: Option<u64>,
}

/// The state before some frames, to roll back to.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    position: Position,
    index: IndexCheckpoint,
    summaries: SummaryCheckpoint,
}

impl FrameWriter {
    pub fn new(id: FileId, created_ns: i64) -> FrameWriter {
        FrameWriter {
            id,
            header: FileHeader::new(id, created_ns),
            compressor: PayloadCompressor::default(),
            compressed_meta: None,
            position: Position::default(),
            index: IndexBuilder::default(),
            summaries: SummaryBuilder::default(),
        }
    }

    /// Bytes that were written.
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// Samples that were written.
    pub fn sample_count(&self) -> u64 {
        self.position.sequence
    }

    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { position: self.position, index: self.index.checkpoint(), summaries: self.summaries.checkpoint() }
    }

    pub fn roll_back(&mut self, checkpoint: Checkpoint) {
        self.position = checkpoint.position;
        self.index.roll_back(checkpoint.index);
        self.summaries.roll_back(checkpoint.summaries);
    }

    /// Writes the file header twice, the meta frame and the sections.
    pub fn start(&mut self, meta: &Meta, sections: &Sections) -> Result<Vec<u8>, FrameTooLarge> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.header.to_bytes());
        out.extend_from_slice(&self.header.to_bytes());
        self.position.offset = out.len() as u64;
        self.position.last_timestamp.realtime_ns = self.header.created_ns;
        let payload = self.compressor.compress(meta.to_bytes()).ok_or(FrameTooLarge)?;
        self.append_frame(&mut out, FrameKind::Meta, 0, self.position.last_timestamp, &payload);
        self.compressed_meta = Some(payload);
        for (name, bytes) in sections {
            let payload = self.compressor.compress(encode_section(name, bytes)).ok_or(FrameTooLarge)?;
            self.append_frame(&mut out, FrameKind::Section, 0, self.position.last_timestamp, &payload);
        }
        Ok(out)
    }

    pub fn append_sample(&mut self, out: &mut Vec<u8>, frame: &SampleFrame) {
        if frame.is_key() {
            self.append_key_group_summaries(out, frame.at);
            if let Some(meta) = self.compressed_meta.take() {
                self.append_frame(out, FrameKind::Meta, 0, frame.at, &meta);
                self.compressed_meta = Some(meta);
            }
            self.position.key_frame_offset = Some(self.position.offset);
        }
        let kind = if frame.is_key() { FrameKind::Key } else { FrameKind::Delta };
        self.append_frame(out, kind, frame.key_distance, frame.at, &frame.payload);
        self.summaries.push(frame.summary);
        self.position.sequence += 1;
    }

    /// Writes the summaries of the samples since the last key frame.
    fn append_key_group_summaries(&mut self, out: &mut Vec<u8>, at: Timestamp) {
        let payload = self.summaries.take_key_group_payload();
        if let Some(payload) = payload.and_then(|payload| self.compressor.compress(payload)) {
            self.append_frame(out, FrameKind::Summary, 0, at, &payload);
        }
    }

    pub fn append_gap(&mut self, out: &mut Vec<u8>, gap: &Gap) {
        if let Some(payload) = self.compressor.compress(gap.to_bytes()) {
            self.append_frame(out, FrameKind::Gap, 0, gap.to, &payload);
        }
    }

    pub fn append_mark(&mut self, out: &mut Vec<u8>, at: Timestamp, text: &str) {
        if let Some(payload) = self.compressor.compress(text.as_bytes().to_vec()) {
            self.append_frame(out, FrameKind::Mark, 0, at, &payload);
        }
    }

    /// The most bytes that this sample and the end of the recording can take.
    pub fn max_len_with(&self, frame: &SampleFrame) -> u64 {
        let meta = self.compressed_meta.as_ref().filter(|_| frame.is_key()).map_or(0, |meta| HEADER_LENGTH + meta.bytes.len());
        (frame.frame_len() + meta) as u64 + self.max_end_len()
    }

    /// The most bytes that the end can take, with one more entry in the index.
    pub fn max_end_len(&self) -> u64 {
        /// The frames of a gap, the last summaries, the index and the end, and one entry.
        const BESIDE: usize = 512;
        (self.index.max_payload_len() + self.summaries.max_payload_len() + BESIDE) as u64
    }

    /// The most bytes that a mark with that text can take.
    pub fn max_mark_len(text: &str) -> u64 {
        /// Its entry in the index, and what compression may add.
        const BESIDE: usize = 64;
        (HEADER_LENGTH + text.len() + BESIDE) as u64
    }

    /// Writes the summaries of the last key group, the index with the summaries of all samples, and the end frame.
    pub fn append_end(&mut self, out: &mut Vec<u8>) {
        let at = self.position.last_timestamp;
        self.append_key_group_summaries(out, at);
        let mut index_offset = 0;
        if let Some(payload) =
            self.index.payload(self.summaries.encode_payload()).and_then(|payload| self.compressor.compress(payload))
        {
            index_offset = self.position.offset;
            self.append_frame(out, FrameKind::Index, 0, at, &payload);
        }
        if let Some(payload) = self.compressor.compress(index::encode_end(index_offset, self.position.sequence)) {
            self.append_frame(out, FrameKind::End, 0, at, &payload);
        }
    }

    fn append_frame(
        &mut self,
        out: &mut Vec<u8>,
        kind: FrameKind,
        key_distance: u16,
        at: Timestamp,
        payload: &CompressedPayload,
    ) {
        let position = &mut self.position;
        let to = position.key_frame_offset.filter(|_| kind == FrameKind::Delta);
        let back = to.and_then(|to| u32::try_from(position.offset - to).ok()).unwrap_or(0);
        let header = FrameHeader {
            kind,
            flags: payload.flags,
            key_distance,
            // `PayloadCompressor::compress` keeps it below MAX_STORED.
            stored_len: u32::try_from(payload.bytes.len()).unwrap_or(u32::MAX),
            raw_len: payload.raw_len,
            sequence: position.sequence,
            at,
            back_offset: back,
            payload_crc: crc32c::crc32c(&payload.bytes),
        };
        out.extend_from_slice(&header.to_bytes(&self.id));
        out.extend_from_slice(&payload.bytes);
        let kind = EntryKind::from_frame_kind(kind);
        // The index lists only the first two of the many meta frames.
        let one_of_many = kind == EntryKind::Meta && position.key_frame_offset.is_some();
        if !matches!(kind, EntryKind::Other | EntryKind::Summary) && !one_of_many {
            self.index.push(IndexEntry { offset: position.offset, sequence: position.sequence, at, kind, key_distance });
        }
        position.offset += header.frame_len();
        position.last_timestamp = at;
    }
}

/// A random file id, and the time of creation.
pub fn new_file_identity() -> (FileId, i64) {
    use std::hash::{BuildHasher, Hasher};
    use std::io::Read;
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let created_ns = i64::try_from(since_1970.as_nanos()).unwrap_or_default();
    let mut id = [0; 16];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut urandom| urandom.read_exact(&mut id));
    if random.is_err() {
        // In a chroot without devices: the keys of the standard library's hash maps are random too.
        let word = |salt: u8| {
            let mut hasher = std::hash::RandomState::new().build_hasher();
            hasher.write_i64(created_ns);
            hasher.write_u8(salt);
            hasher.finish().to_le_bytes()
        };
        id.iter_mut().zip(word(1).into_iter().chain(word(2))).for_each(|(to, from)| *to = from);
    }
    (id, created_ns)
}
