//! Decodes samples in any order, cheaply for neighbours: the frames on the way and the last few samples stay at hand.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Moment;
use super::decode::Decoder;
use super::encode::parent;
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

/// The distances that must be decoded before this one, from the key frame on.
pub fn way_to(distance: u16) -> Vec<u16> {
    let mut way = Vec::new();
    let mut next = distance;
    while next > 0 {
        next = parent(next);
        way.push(next);
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::encode::MAX_DISTANCE;

    #[test]
    fn the_way_to_a_sample_is_short() {
        assert!(way_to(0).is_empty());
        assert_eq!(way_to(13), [0, 8, 12]);
        assert!((0..=MAX_DISTANCE).all(|distance| way_to(distance).len() <= 7));
    }
}
