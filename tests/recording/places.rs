//! Where the frames of a recording stand, found as docs/recording-format.md describes them and not by the code under test.

// Each test takes what it needs.
#![allow(dead_code)]

/// The first frame: the header of the file ends there.
const FIRST: usize = 128;
/// Bytes of a frame's header.
pub const HEADER: usize = 52;

/// Where a frame stands, and what its header says of it.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub at: usize,
    pub kind: u8,
    pub flags: u8,
    /// Of a delta, samples after its key frame
    pub distance: u16,
    /// Of header and payload
    pub length: usize,
}

impl Place {
    /// One that holds a sample.
    pub fn is_sample(&self) -> bool {
        self.is_key() || self.kind == 4
    }

    /// One that holds a whole sample.
    pub fn is_key(&self) -> bool {
        self.kind == 3
    }

    pub fn end(&self) -> usize {
        self.at + self.length
    }
}

/// The frames of a sound recording, found by their sync word and length alone.
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
