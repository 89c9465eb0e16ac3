//! Decodes samples in any order, cheaply for neighbours: the frames on the way and the last few samples stay at hand.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::recording::Moment;
use crate::recording::error::FrameFault;
use crate::recording::payload::decode::Decoder;
use crate::recording::payload::layout::Layout;
use crate::sample::Sample;

/// Enough for both sides of an interval on both sides of a key frame, and a step back.
const KEPT: usize = 8;

/// Decoded samples by their sequence number.
pub struct Samples {
    decoder: Decoder,
    recent: VecDeque<(u64, Arc<Sample>)>,
}

impl Samples {
    pub fn new(layout: Layout) -> Samples {
        Samples { decoder: Decoder::new(layout), recent: VecDeque::new() }
    }

    /// The distances that must be decoded before this one, from the key frame on.
    pub fn way_to(&self, distance: u16) -> Vec<u16> {
        self.decoder.layout().way_to(distance)
    }

    pub fn recent(&self, sequence: u64) -> Option<Arc<Sample>> {
        self.recent.iter().find(|(kept, _)| *kept == sequence).map(|(_, sample)| sample.clone())
    }

    /// Whether the sample at that distance from that key frame is held, so that others can be decoded from it.
    pub fn holds(&self, key: u64, distance: u16) -> bool {
        self.decoder.holds(key, distance)
    }

    /// Decodes the payload of the sample with that number. Everything on the way to it must be held.
    pub fn decode(&mut self, sequence: u64, key_distance: u16, at: Moment, raw: &[u8]) -> Result<Arc<Sample>, FrameFault> {
        let neighbour = self.recent.iter().min_by_key(|(kept, _)| kept.abs_diff(sequence)).map(|(_, sample)| sample.clone());
        let key = sequence.checked_sub(u64::from(key_distance)).ok_or(FrameFault::ReferenceMissing)?;
        let sample = self.decoder.decode(key, key_distance, at, raw, neighbour.as_deref())?;
        self.recent.push_front((sequence, sample.clone()));
        self.recent.truncate(KEPT);
        Ok(sample)
    }
}
