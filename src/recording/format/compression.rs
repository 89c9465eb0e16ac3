//! Compression of payloads: zstd with a state that is kept from frame to frame, since making one costs more than a frame.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

use zstd::bulk::Compressor;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{CParameter, DCtx, ResetDirective};

use crate::recording::error::FrameError;

/// Most bytes of a stored payload.
pub const MAX_STORED: u32 = 16 << 20;
/// Most bytes of a decompressed payload.
pub const MAX_RAW: u32 = 64 << 20;
/// Bit 0 of a frame's flags: the payload is a zstd frame.
const COMPRESSED: u8 = 1;
/// Bytes below which compression makes a payload longer.
const WORTH_COMPRESSING: usize = 64;
/// Ratio against time: measured by benches/encoding.rs.
const LEVEL: i32 = 3;

/// Packs payloads; keeps its compressor between frames.
pub struct PayloadCompressor {
    compressor: Option<Compressor<'static>>,
}

impl Default for PayloadCompressor {
    fn default() -> PayloadCompressor {
        PayloadCompressor { compressor: compressor().ok() }
    }
}

/// With tables and a window that are small for its level: similar bytes of a frame are near each other. A frame of 10,000
/// tasks becomes 1 % larger, one of 2,000 smaller, and the state takes a third of a megabyte instead of a whole one.
fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    for parameter in [CParameter::WindowLog(16), CParameter::HashLog(14), CParameter::ChainLog(13)] {
        compressor.set_parameter(parameter)?;
    }
    Ok(compressor)
}

/// A payload ready to be stored, without its place in a file.
#[derive(Clone, Debug)]
pub struct CompressedPayload {
    pub bytes: Vec<u8>,
    pub raw_len: u32,
    pub flags: u8,
}

impl PayloadCompressor {
    /// `None` when the payload is larger than a frame may be.
    pub fn compress(&mut self, raw: Vec<u8>) -> Option<CompressedPayload> {
        let raw_len = u32::try_from(raw.len()).ok().filter(|&length| length <= MAX_RAW)?;
        let compressed = (raw.len() >= WORTH_COMPRESSING)
            .then(|| self.compressor.as_mut()?.compress(&raw).ok())
            .flatten()
            .filter(|compressed| compressed.len() < raw.len());
        let (mut bytes, flags) = match compressed {
            Some(compressed) => (compressed, COMPRESSED),
            None => (raw, 0),
        };
        // Its capacity is that of the worst case, and it may be kept for minutes.
        bytes.shrink_to_fit();
        (bytes.len() <= MAX_STORED as usize).then_some(CompressedPayload { bytes, raw_len, flags })
    }
}

/// Unpacks payloads.
#[derive(Default)]
pub struct PayloadDecompressor(());

/// States that are not in use: a reader needs one for a moment, and a hundred streams would keep a hundred.
static IDLE_CONTEXTS: Mutex<Vec<DCtx<'static>>> = Mutex::new(Vec::new());
const MAX_IDLE_CONTEXTS: usize = 16;

/// Bytes of room that a payload gets before any of it has come out.
const FIRST_ROOM: usize = 1 << 14;
/// Bytes that are allocated because a frame says so.
const MAX_AT_ONCE: usize = 1 << 17;
/// What a larger payload needed is given back: the next ones will not need it.
const LARGE: u32 = 1 << 20;

impl PayloadDecompressor {
    /// Allocates by what comes out, not by the stated length.
    pub fn decompress_payload(&mut self, stored: &[u8], flags: u8, raw: u32) -> Result<Vec<u8>, FrameError> {
        if flags & COMPRESSED == 0 {
            return if stored.len() == raw as usize { Ok(stored.to_vec()) } else { Err(FrameError::Compression) };
        }
        let idle = IDLE_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = idle.or_else(DCtx::try_create).ok_or(FrameError::Compression)?;
        let unpacked = decompress(&mut context, stored, raw as usize);
        if raw <= LARGE && unpacked.is_ok() {
            let mut idle = IDLE_CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < MAX_IDLE_CONTEXTS {
                idle.push(context);
            }
        }
        unpacked
    }
}

fn decompress(context: &mut DCtx<'static>, stored: &[u8], raw: usize) -> Result<Vec<u8>, FrameError> {
    let fault = |_| FrameError::Compression;
    // In one step where little would be allocated for a false length: without the window and block of a stream, which are memory of
    // each reader.
    if raw <= MAX_AT_ONCE {
        let mut out = Vec::with_capacity(raw + 1);
        context.decompress(&mut out, stored).map_err(|_| FrameError::Compression)?;
        return if out.len() == raw { Ok(out) } else { Err(FrameError::Compression) };
    }
    // What followed the last frame is of no use to this one.
    context.reset(ResetDirective::SessionOnly).map_err(|_| FrameError::Compression)?;
    let mut decoder = Decoder::with_context(stored, context);
    decoder.window_log_max(26).map_err(fault)?;
    let mut out = Vec::with_capacity(raw.min(FIRST_ROOM));
    let mut decoder = decoder.single_frame();
    decoder.by_ref().take(raw as u64 + 1).read_to_end(&mut out).map_err(fault)?;
    if out.len() == raw { Ok(out) } else { Err(FrameError::Compression) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_stops_at_what_is_said_of_it_and_harms_no_frame_behind_it() {
        let mut decompressor = PayloadDecompressor::default();
        let CompressedPayload { bytes: stored, flags, .. } = PayloadCompressor::default().compress(vec![0; 1 << 20]).unwrap();
        assert!(stored.len() < 200);
        for raw in [0, 100, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, MAX_RAW] {
            let unpacked = decompressor.decompress_payload(&stored, flags, raw).map(|out| out.len());
            assert_eq!(unpacked, if raw == 1 << 20 { Ok(1 << 20) } else { Err(FrameError::Compression) }, "{raw}");
        }
        let small = PayloadCompressor::default().compress([vec![7; 200], vec![9; 30]].concat()).unwrap();
        for cut in [0, 3] {
            let whole = decompressor.decompress_payload(&small.bytes[..small.bytes.len() - cut], small.flags, small.raw_len);
            assert_eq!(whole.is_ok(), cut == 0);
        }
        assert_eq!(decompressor.decompress_payload(&small.bytes, small.flags, small.raw_len).unwrap()[199..201], [7, 9]);
    }
}
