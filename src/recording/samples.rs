//! Decodes samples in any order, cheaply for neighbours: the key frame in use and the last few samples stay at hand.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Moment;
use super::decode::Decoder;
use super::error::FrameFault;
use crate::sample::Sample;

/// Enough for both sides of an interval on both sides of a key frame, and a step back.
const KEPT: usize = 8;

/// Decoded samples by their sequence number.
#[derive(Default)]
pub struct Samples {
    decoder: Decoder,
    recent: VecDeque<(u64, Arc<Sample>)>,
}

impl Samples {
    pub fn recent(&self, sequence: u64) -> Option<Arc<Sample>> {
        self.recent.iter().find(|(kept, _)| *kept == sequence).map(|(_, sample)| sample.clone())
    }

    pub fn has_key(&self, sequence: u64) -> bool {
        self.decoder.key() == Some(sequence)
    }

    /// Decodes the payload of the sample with that number; of a delta, its key frame must be the last one decoded.
    pub fn decode(&mut self, sequence: u64, key_distance: u16, at: Moment, raw: &[u8]) -> Result<Arc<Sample>, FrameFault> {
        let neighbour = self.recent.iter().min_by_key(|(kept, _)| kept.abs_diff(sequence)).map(|(_, sample)| sample.clone());
        let sample = if key_distance == 0 {
            self.decoder.decode_key(sequence, at, raw, neighbour.as_deref())?
        } else {
            if sequence.checked_sub(u64::from(key_distance)).is_none_or(|key| !self.has_key(key)) {
                return Err(FrameFault::KeyMissing);
            }
            self.decoder.decode_delta(at, raw, neighbour.as_deref())?
        };
        self.recent.push_front((sequence, sample.clone()));
        self.recent.truncate(KEPT);
        Ok(sample)
    }
}
