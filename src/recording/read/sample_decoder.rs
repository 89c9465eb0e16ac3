//! Decodes samples in any order, cheaply for neighbours: the frames on the way and the last few samples stay at hand.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::recording::Timestamp;
use crate::recording::error::FrameError;
use crate::recording::payload::decode::Decoder;
use crate::recording::payload::layout::PayloadLayout;
use crate::sample::Sample;

/// Enough for both sides of an interval on both sides of a key frame, and a step back.
const CACHED_SAMPLES: usize = 8;

/// Decoded samples by their sequence number.
pub struct SampleDecoder {
    decoder: Decoder,
    cache: VecDeque<(u64, Arc<Sample>)>,
}

impl SampleDecoder {
    pub fn new(layout: PayloadLayout) -> SampleDecoder {
        SampleDecoder { decoder: Decoder::new(layout), cache: VecDeque::new() }
    }

    /// The distances that must be decoded before this one, from the key frame on.
    pub fn reference_chain(&self, distance: u16) -> Vec<u16> {
        self.decoder.layout().reference_chain(distance)
    }

    pub fn cached(&self, sequence: u64) -> Option<Arc<Sample>> {
        self.cache.iter().find(|(kept, _)| *kept == sequence).map(|(_, sample)| sample.clone())
    }

    /// Whether the sample at that distance from that key frame is held, so that others can be decoded from it.
    pub fn has_reference(&self, key: u64, distance: u16) -> bool {
        self.decoder.has_reference(key, distance)
    }

    /// Decodes the payload of the sample with that number. Everything on the way to it must be held.
    pub fn decode(&mut self, sequence: u64, key_distance: u16, at: Timestamp, raw: &[u8]) -> Result<Arc<Sample>, FrameError> {
        let neighbour = self.cache.iter().min_by_key(|(kept, _)| kept.abs_diff(sequence)).map(|(_, sample)| sample.clone());
        let key = sequence.checked_sub(u64::from(key_distance)).ok_or(FrameError::ReferenceMissing)?;
        let sample = self.decoder.decode(key, key_distance, at, raw, neighbour.as_deref())?;
        self.cache.push_front((sequence, sample.clone()));
        self.cache.truncate(CACHED_SAMPLES);
        Ok(sample)
    }
}
