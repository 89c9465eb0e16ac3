//! The frames of a recording, found as docs/recording-format.md describes them and not by the code under test.

// Each test uses a part of it.
#![allow(dead_code)]

/// Offset of the first frame: the end of the file header.
const FIRST: usize = 128;
/// Bytes of a frame's header.
pub const HEADER: usize = 52;

/// Offset and header fields of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub at: usize,
    pub kind: u8,
    pub flags: u8,
    /// Of a delta frame, samples after its key frame.
    pub distance: u16,
    /// Bytes of header and payload.
    pub length: usize,
}

impl Place {
    /// Whether it has a sample.
    pub fn is_sample(&self) -> bool {
        self.is_key() || self.kind == 4
    }

    /// Whether it is a key frame.
    pub fn is_key(&self) -> bool {
        self.kind == 3
    }

    pub fn end(&self) -> usize {
        self.at + self.length
    }
}

/// The frames of an intact recording, found by their sync word and length alone.
pub fn frames(bytes: &[u8]) -> Vec<Place> {
    let mut frames = Vec::new();
    let mut at = FIRST;
    while at < bytes.len() {
        let header = &bytes[at..at + HEADER];
        assert_eq!(&header[..4], b"\xf5\x9dFr");
        let stored = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let distance = u16::from_le_bytes([header[6], header[7]]);
        frames.push(Place { at, kind: header[4], flags: header[5], distance, length: HEADER + stored });
        at += HEADER + stored;
    }
    frames
}
