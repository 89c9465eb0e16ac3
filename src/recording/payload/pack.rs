//! Payloads packed and unpacked: zstd with a state that is kept from frame to frame, since making one costs more than a frame.

use std::io::Read;

use zstd::bulk::Compressor;
use zstd::stream::read::Decoder;
use zstd::zstd_safe::{CParameter, DCtx, ResetDirective};

use crate::recording::error::FrameFault;
use crate::recording::frames::frame::{MAX_RAW, MAX_STORED};

/// Bit 0 of a frame's flags: the payload begins with a zstd frame.
const COMPRESSED: u8 = 1;
/// Bit 1: what stands behind the zstd frame is the rest of the payload, as it is.
const REST: u8 = 2;
/// Below this, packing makes it longer.
const WORTH_PACKING: usize = 64;
/// Ratio against time: measured by benches/encoding.rs.
const LEVEL: i32 = 3;

/// Packs payloads; keeps its compressor between frames.
pub struct Packer {
    compressor: Option<Compressor<'static>>,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer { compressor: compressor().ok() }
    }
}

/// With tables and a window that are small for its level: what resembles each other in a frame stands near each other, so that
/// a frame of 10,000 tasks becomes 1 % larger, one of 2,000 smaller, and a third of a megabyte is kept instead of a whole one.
fn compressor() -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(LEVEL)?;
    for parameter in [CParameter::WindowLog(16), CParameter::HashLog(14), CParameter::ChainLog(13)] {
        compressor.set_parameter(parameter)?;
    }
    Ok(compressor)
}

/// A payload ready to be stored, without its place in a file.
#[derive(Clone, Debug)]
pub struct Packed {
    pub stored: Vec<u8>,
    pub raw: u32,
    pub flags: u8,
}

impl Packer {
    /// `None` when it is larger than a frame may be.
    pub fn pack(&mut self, raw: Vec<u8>) -> Option<Packed> {
        let all = raw.len();
        self.pack_front(raw, all)
    }

    /// Compresses the first `front` bytes only: the others are bits that cannot become fewer.
    pub fn pack_front(&mut self, raw: Vec<u8>, front: usize) -> Option<Packed> {
        let length = u32::try_from(raw.len()).ok().filter(|&length| length <= MAX_RAW)?;
        let (front, rest) = raw.split_at_checked(front)?;
        let packed = (front.len() >= WORTH_PACKING)
            .then(|| self.compressor.as_mut()?.compress(front).ok())
            .flatten()
            .filter(|packed| packed.len() < front.len());
        let (mut stored, flags) = match packed {
            Some(packed) if rest.is_empty() => (packed, COMPRESSED),
            Some(mut packed) => {
                packed.extend_from_slice(rest);
                (packed, COMPRESSED | REST)
            }
            None => (raw, 0),
        };
        // It was given room for the worst case, and may be kept for minutes.
        stored.shrink_to_fit();
        (stored.len() <= MAX_STORED as usize).then_some(Packed { stored, raw: length, flags })
    }
}

/// Unpacks payloads; keeps its state between frames.
#[derive(Default)]
pub struct Unpacker {
    context: Option<DCtx<'static>>,
}

/// What a larger payload needed is given back: the next ones will not need it.
const LARGE: u32 = 1 << 20;

impl Unpacker {
    /// Grows with what comes out, not with what is said of its length.
    pub fn unpack(&mut self, stored: &[u8], flags: u8, raw: u32) -> Result<Vec<u8>, FrameFault> {
        if flags & COMPRESSED == 0 {
            return if stored.len() == raw as usize { Ok(stored.to_vec()) } else { Err(FrameFault::Compression) };
        }
        let unpacked = self.decompress(stored, flags, raw as usize);
        if raw > LARGE || unpacked.is_err() {
            self.context = None;
        }
        unpacked
    }

    fn decompress(&mut self, stored: &[u8], flags: u8, raw: usize) -> Result<Vec<u8>, FrameFault> {
        let fault = |_| FrameFault::Compression;
        let context = match &mut self.context {
            Some(context) => context,
            None => self.context.insert(DCtx::try_create().ok_or(FrameFault::Compression)?),
        };
        // What stood behind the last frame's end is of no use to this one.
        context.reset(ResetDirective::SessionOnly).map_err(|_| FrameFault::Compression)?;
        let mut decoder = Decoder::with_context(stored, context);
        decoder.window_log_max(26).map_err(fault)?;
        let mut out = Vec::new();
        let mut decoder = decoder.single_frame();
        decoder.by_ref().take(raw as u64 + 1).read_to_end(&mut out).map_err(fault)?;
        if flags & REST != 0 && out.len() <= raw {
            out.extend_from_slice(decoder.finish());
        }
        if out.len() == raw { Ok(out) } else { Err(FrameFault::Compression) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bomb_stops_at_what_is_said_of_it_and_harms_no_frame_behind_it() {
        let mut unpacker = Unpacker::default();
        let Packed { stored, flags, .. } = Packer::default().pack(vec![0; 1 << 20]).unwrap();
        assert!(stored.len() < 200);
        for raw in [0, 100, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, MAX_RAW] {
            let unpacked = unpacker.unpack(&stored, flags, raw).map(|out| out.len());
            assert_eq!(unpacked, if raw == 1 << 20 { Ok(1 << 20) } else { Err(FrameFault::Compression) }, "{raw}");
        }
        let small = Packer::default().pack_front([vec![7; 200], vec![9; 30]].concat(), 200).unwrap();
        for cut in [0, 3] {
            let whole = unpacker.unpack(&small.stored[..small.stored.len() - cut], small.flags, small.raw);
            assert_eq!(whole.is_ok(), cut == 0);
        }
        assert_eq!(unpacker.unpack(&small.stored, small.flags, small.raw).unwrap()[199..201], [7, 9]);
    }
}
