//! The sample that a frame refers to.
//!
//! A frame refers to the one before it, so that few rows have changed, and each eighth one to the eighth before it (18 → 17 →
//! 16 → 8 → 0): a reader decodes at most 22 other frames for any sample, and a damaged frame loses only the samples that refer
//! to it, directly or through others.

/// No reader accepts a greater distance from the key frame.
pub const MAX_DISTANCE: u16 = 127;

/// Frames that refer to each other one by one.
const ROW: u16 = 8;

/// The frame that one refers to, by their distances from the key frame; 0 for the key frame too, which refers to none.
pub fn parent(distance: u16) -> u16 {
    if distance.is_multiple_of(ROW) { distance.saturating_sub(ROW) } else { distance - 1 }
}

/// Whether later frames of the key group refer to this one.
pub fn is_referred_to(distance: u16) -> bool {
    distance % ROW != ROW - 1
}

/// The frame through which all later ones of the key group are decoded, given the last one.
pub fn row_start(distance: u16) -> u16 {
    distance - distance % ROW
}

/// The distances of the frames that must be decoded before this one, from the key frame on.
pub fn reference_chain(distance: u16) -> Vec<u16> {
    let mut chain = Vec::new();
    let mut next = distance;
    while next > 0 {
        next = parent(next);
        chain.push(next);
    }
    chain.reverse();
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_of_a_sample_is_short_and_consists_of_frames_that_are_referred_to() {
        assert_eq!(reference_chain(18), [0, 8, 16, 17]);
        assert!(reference_chain(0).is_empty());
        for distance in 1..=MAX_DISTANCE {
            let chain = reference_chain(distance);
            assert!(chain.len() <= 22 && chain.iter().all(|&on| is_referred_to(on)), "{distance}: {chain:?}");
        }
    }
}
