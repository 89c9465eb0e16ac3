//! Puts payloads one behind the other as the frames of one recording: the same bytes in a file, a pipe and a saved tape.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::recording::Moment;
use crate::recording::frames::digest::{Digest, DigestLength, Digests};
use crate::recording::frames::frame::{FrameHeader, FrameKind, HEADER_LENGTH};
use crate::recording::frames::header::{FileHeader, FileId};
use crate::recording::frames::index::{self, Entry, EntryKind, IndexBuilder, IndexLength};
use crate::recording::frames::meta::{Gap, Meta, Redaction, section_bytes};
use crate::recording::payload::encode::{Encoder, TooLarge};
use crate::recording::payload::pack::{Packed, Packer};
use crate::sample::Sample;

/// Blocks of bytes that upper layers put in at the start, by name.
pub type Sections = BTreeMap<String, Vec<u8>>;

/// A sample, encoded and packed, without its place in a file.
#[derive(Clone, Debug)]
pub struct SampleFrame {
    pub at: Moment,
    /// 0 is a key frame.
    pub key_distance: u16,
    pub packed: Packed,
    /// What was seen in it, where somebody has looked.
    pub digest: Digest,
}

impl SampleFrame {
    pub fn is_key(&self) -> bool {
        self.key_distance == 0
    }

    /// Bytes it will take in a file.
    pub fn length(&self) -> usize {
        HEADER_LENGTH + self.packed.stored.len()
    }
}

/// From samples to frames.
pub struct SampleEncoder {
    encoder: Encoder,
    packer: Packer,
}

impl SampleEncoder {
    pub fn new(redaction: Redaction) -> SampleEncoder {
        SampleEncoder { encoder: Encoder::new(redaction), packer: Packer::default() }
    }

    pub fn encode(&mut self, sample: &Arc<Sample>, digest: Digest) -> Result<SampleFrame, TooLarge> {
        let encoded = self.encoder.encode(sample)?;
        let key_distance = encoded.key_distance;
        let Some(packed) = self.packer.pack_front(encoded.raw, encoded.front) else {
            self.encoder.forget_key();
            return Err(TooLarge);
        };
        let frame = SampleFrame { at: sample.at.into(), key_distance, packed, digest };
        self.encoder.stored(frame.length());
        Ok(frame)
    }

    /// The next frame will be a key frame.
    pub fn forget_key(&mut self) {
        self.encoder.forget_key();
    }
}

/// Knows where in the recording it is.
pub struct Framer {
    id: FileId,
    header: FileHeader,
    packer: Packer,
    /// Repeated before each key frame, so that no single damage hides which machine it was.
    meta: Option<Packed>,
    position: Position,
    index: IndexBuilder,
    digests: Digests,
    /// Where the digest frame stands.
    digest_at: Option<u64>,
}

/// What a frame that could not be written must not have moved.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    offset: u64,
    sequence: u64,
    last: Moment,
    key: Option<u64>,
}

/// To take back frames that could not be written.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    position: Position,
    index: IndexLength,
    digests: DigestLength,
}

impl Framer {
    pub fn new(id: FileId, created_ns: i64) -> Framer {
        Framer {
            id,
            header: FileHeader::new(id, created_ns),
            packer: Packer::default(),
            meta: None,
            position: Position::default(),
            index: IndexBuilder::default(),
            digests: Digests::default(),
            digest_at: None,
        }
    }

    /// Bytes so far.
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.position.sequence
    }

    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { position: self.position, index: self.index.length(), digests: self.digests.length() }
    }

    pub fn take_back(&mut self, checkpoint: Checkpoint) {
        self.position = checkpoint.position;
        self.index.take_back(checkpoint.index);
        self.digests.take_back(checkpoint.digests);
    }

    /// The file header twice, the meta frame, the sections.
    pub fn start(&mut self, meta: &Meta, sections: &Sections) -> Result<Vec<u8>, TooLarge> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.header.bytes());
        out.extend_from_slice(&self.header.bytes());
        self.position.offset = out.len() as u64;
        self.position.last.realtime_ns = self.header.created_ns;
        let packed = self.packer.pack(meta.bytes()).ok_or(TooLarge)?;
        self.frame(&mut out, FrameKind::Meta, 0, self.position.last, &packed);
        self.meta = Some(packed);
        for (name, bytes) in sections {
            let packed = self.packer.pack(section_bytes(name, bytes)).ok_or(TooLarge)?;
            self.frame(&mut out, FrameKind::Section, 0, self.position.last, &packed);
        }
        Ok(out)
    }

    pub fn sample(&mut self, out: &mut Vec<u8>, frame: &SampleFrame) {
        if frame.is_key() {
            if let Some(packed) = self.digests.take_group().and_then(|payload| self.packer.pack(payload)) {
                self.frame(out, FrameKind::Digest, 0, frame.at, &packed);
            }
            if let Some(meta) = self.meta.take() {
                self.frame(out, FrameKind::Meta, 0, frame.at, &meta);
                self.meta = Some(meta);
            }
            self.position.key = Some(self.position.offset);
        }
        let kind = if frame.is_key() { FrameKind::Key } else { FrameKind::Delta };
        self.frame(out, kind, frame.key_distance, frame.at, &frame.packed);
        self.digests.push(frame.digest);
        self.position.sequence += 1;
    }

    pub fn gap(&mut self, out: &mut Vec<u8>, gap: &Gap) {
        if let Some(packed) = self.packer.pack(gap.bytes()) {
            self.frame(out, FrameKind::Gap, 0, gap.to, &packed);
        }
    }

    pub fn mark(&mut self, out: &mut Vec<u8>, at: Moment, text: &str) {
        if let Some(packed) = self.packer.pack(text.as_bytes().to_vec()) {
            self.frame(out, FrameKind::Mark, 0, at, &packed);
        }
    }

    /// The most that this sample and the end behind it can take, whatever they are packed to.
    pub fn length_with(&self, frame: &SampleFrame) -> u64 {
        let meta = self.meta.as_ref().filter(|_| frame.is_key()).map_or(0, |meta| HEADER_LENGTH + meta.stored.len());
        (frame.length() + meta) as u64 + self.end_length()
    }

    /// The most that the end can take, with one entry more in its index.
    pub fn end_length(&self) -> u64 {
        /// A gap frame, the frames of both digests, index and end, and the entry.
        const BESIDE: usize = 512;
        (self.index.payload_length() + self.digests.payload_length() + BESIDE) as u64
    }

    /// The most that a mark of that text can take.
    pub fn mark_length(text: &str) -> u64 {
        /// Its entry in the index, and what packing may add.
        const BESIDE: usize = 64;
        (HEADER_LENGTH + text.len() + BESIDE) as u64
    }

    /// The digest, the index and the end frame.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        let at = self.position.last;
        self.digest_at = None;
        if let Some(packed) = self.digests.payload().and_then(|payload| self.packer.pack(payload)) {
            self.digest_at = Some(self.position.offset);
            self.frame(out, FrameKind::Digest, 0, at, &packed);
        }
        let mut index_offset = 0;
        if let Some(packed) = self.index.payload().and_then(|payload| self.packer.pack(payload)) {
            index_offset = self.position.offset;
            self.frame(out, FrameKind::Index, 0, at, &packed);
        }
        if let Some(packed) = self.packer.pack(index::end_payload(index_offset, self.position.sequence)) {
            self.frame(out, FrameKind::End, 0, at, &packed);
        }
    }

    fn frame(&mut self, out: &mut Vec<u8>, kind: FrameKind, key_distance: u16, at: Moment, packed: &Packed) {
        let position = &mut self.position;
        let to = match kind {
            FrameKind::Delta => position.key,
            FrameKind::Index => self.digest_at,
            _ => None,
        };
        let back = to.and_then(|to| u32::try_from(position.offset - to).ok()).unwrap_or(0);
        let header = FrameHeader {
            kind,
            flags: packed.flags,
            key_distance,
            // `Packer::pack` keeps it below MAX_STORED.
            stored: u32::try_from(packed.stored.len()).unwrap_or(u32::MAX),
            raw: packed.raw,
            sequence: position.sequence,
            at,
            back,
            payload_crc: crc32c::crc32c(&packed.stored),
        };
        out.extend_from_slice(&header.bytes(&self.id));
        out.extend_from_slice(&packed.stored);
        let kind = EntryKind::of(kind);
        // Of the many copies of the meta frame, the first two are enough.
        let one_of_many = kind == EntryKind::Meta && position.key.is_some();
        if !matches!(kind, EntryKind::Other | EntryKind::Digest) && !one_of_many {
            self.index.push(Entry { offset: position.offset, sequence: position.sequence, at, kind, key_distance });
        }
        position.offset += header.length();
        position.last = at;
    }
}

/// An id that no other recording has, and the time.
pub fn fresh_identity() -> (FileId, i64) {
    use std::hash::{BuildHasher, Hasher};
    use std::io::Read;
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let created_ns = i64::try_from(since_1970.as_nanos()).unwrap_or_default();
    let mut id = [0; 16];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut urandom| urandom.read_exact(&mut id));
    if random.is_err() {
        // A chroot without devices: the keys of the standard library's hash maps are random too.
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
