//! Decodes samples in any order; neighbours are cheap, since the frames that they refer to and the last few samples are kept.

use std::collections::VecDeque;
use std::sync::Arc;

use super::decoder::{Decoder, SampleParts};
use super::reused_list::HeldSamples;
use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::sample::Sample;

/// Enough for both samples of an interval on both sides of a key frame, and a step back.
const CACHED_SAMPLES: usize = 8;

/// Decodes samples by their sequence number.
pub struct SampleDecoder {
    decoder: Decoder,
    cache: VecDeque<(u64, Arc<Sample>)>,
    cached_samples: usize,
}

impl SampleDecoder {
    pub fn new(parts: SampleParts) -> SampleDecoder {
        SampleDecoder { decoder: Decoder::new(parts), cache: VecDeque::new(), cached_samples: CACHED_SAMPLES }
    }

    /// For samples in their order only: keeps the last one, with which the next one shares what has not changed.
    pub fn in_order(parts: SampleParts, held: HeldSamples) -> SampleDecoder {
        SampleDecoder { decoder: Decoder::in_order(parts, held), cache: VecDeque::new(), cached_samples: 1 }
    }

    /// The sample with that number, if it is in the cache.
    pub fn cached(&self, sequence: u64) -> Option<Arc<Sample>> {
        self.cache.iter().find(|(cached, _)| *cached == sequence).map(|(_, sample)| sample.clone())
    }

    /// Whether the sample at that distance from that key frame is held, so that others can be decoded from it.
    pub fn has_reference(&self, key: u64, distance: u16) -> bool {
        self.decoder.has_reference(key, distance)
    }

    /// Decodes the payload of the sample with that number. The sample that it refers to must be held.
    pub fn decode(&mut self, sequence: u64, key_distance: u16, at: Timestamp, raw: &[u8]) -> Result<Arc<Sample>, FrameError> {
        let neighbour = self.cache.iter().min_by_key(|(cached, _)| cached.abs_diff(sequence)).map(|(_, sample)| sample.clone());
        let key = sequence.checked_sub(u64::from(key_distance)).ok_or(FrameError::ReferenceMissing)?;
        let sample = self.decoder.decode(key, key_distance, at, raw, neighbour.as_deref())?;
        self.cache.push_front((sequence, sample.clone()));
        self.cache.truncate(self.cached_samples);
        Ok(sample)
    }
}
