//! Which sample a frame refers to, and how its columns are written: a flag of the file header tells, so that what was
//! recorded before is read as it was written.

/// No reader accepts a greater distance from the key frame.
pub const MAX_DISTANCE: u16 = 127;

/// How the samples of one recording are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadLayout {
    /// Format 1.0: the frame at distance d refers to the one at d without its lowest set bit; all columns are varints.
    Tree,
    /// Format 1.1 and 1.2: a frame refers to the one before it, each eighth one to the eighth before it; columns may be packed.
    Eights,
    /// Since 1.3: the same, with `forms` that a frame takes over from the one it refers to.
    Forms,
}

/// Frames that follow each other in a row.
const ROW: u16 = 8;

/// Whether it refers to a sample that long before it.
pub fn begins_row(distance: u16) -> bool {
    distance.is_multiple_of(ROW)
}

impl PayloadLayout {
    /// What new recordings have.
    pub const CURRENT: PayloadLayout = PayloadLayout::Forms;

    /// What a frame refers to, by their distances from the key frame; 0 for the key frame too, which refers to nothing.
    pub fn parent(self, distance: u16) -> u16 {
        match self {
            PayloadLayout::Tree => distance & distance.wrapping_sub(1),
            PayloadLayout::Eights | PayloadLayout::Forms if begins_row(distance) => distance.saturating_sub(ROW),
            PayloadLayout::Eights | PayloadLayout::Forms => distance - 1,
        }
    }

    /// Whether later frames of the group refer to it.
    pub fn is_referred_to(self, distance: u16) -> bool {
        match self {
            PayloadLayout::Tree => distance.is_multiple_of(2),
            PayloadLayout::Eights | PayloadLayout::Forms => distance % ROW != ROW - 1,
        }
    }

    /// The frame that all later ones of the group are reached over, given the last one.
    pub fn trunk(distance: u16) -> u16 {
        distance - distance % ROW
    }

    /// The distances that must be decoded before this one, from the key frame on.
    pub fn reference_chain(self, distance: u16) -> Vec<u16> {
        let mut way = Vec::new();
        let mut next = distance;
        while next > 0 {
            next = self.parent(next);
            way.push(next);
        }
        way.reverse();
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_sample_is_short_and_leads_over_frames_that_are_referred_to() {
        assert_eq!(PayloadLayout::Tree.reference_chain(13), [0, 8, 12]);
        assert_eq!(PayloadLayout::Eights.reference_chain(18), [0, 8, 16, 17]);
        for (layout, longest) in [(PayloadLayout::Tree, 7), (PayloadLayout::Eights, 22), (PayloadLayout::Forms, 22)] {
            assert!(layout.reference_chain(0).is_empty());
            for distance in 1..=MAX_DISTANCE {
                let way = layout.reference_chain(distance);
                assert!(way.len() <= longest && way.iter().all(|&on| layout.is_referred_to(on)), "{distance}: {way:?}");
            }
        }
    }
}
