//! What a recording holds, for `stalltop info`.

use super::replayer::{Replayer, UnreadableFile};
use crate::recording::Timestamp;
use crate::recording::error::RecordingError;
use crate::recording::format::file_header::FileHeader;
use crate::recording::format::meta::{Gap, Mark, Meta};
use crate::recording::read::damage::{Damage, Tail};
use crate::sample::operations::Operations;

/// A recording at a glance.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub header: FileHeader,
    pub meta: Meta,
    pub bytes: u64,
    /// In how many files it is.
    pub file_count: usize,
    /// Of how many runs of a machine.
    pub boot_count: usize,
    pub sample_count: usize,
    /// Of the first and the last sample.
    pub first_timestamp: Option<Timestamp>,
    pub last_timestamp: Option<Timestamp>,
    pub gaps: Vec<Gap>,
    pub marks: Vec<Mark>,
    /// Name and length of each.
    pub sections: Vec<(String, usize)>,
    pub damage: Vec<Damage>,
    /// Files of a directory that cannot be read; they stand in `damage` too.
    pub unreadable: Vec<UnreadableFile>,
    pub tail: Tail,
    /// Segments before the last one that end inside a frame.
    pub torn_segments: usize,
    /// It has an index of its own that is right.
    pub is_indexed: bool,
    pub unknown_frames: u64,
    /// The first and the last total that was counted while it was recorded.
    pub operations: Option<(Operations, Operations)>,
    /// How many samples were decoded without fault, where that was asked for.
    pub intact_samples: Option<usize>,
}

impl Inspection {
    /// `verify`: reads and decodes every sample.
    pub fn new(replayer: &mut Replayer, verify: bool) -> Result<Inspection, RecordingError> {
        let sound = if verify { Some(replayer.verify()?) } else { None };
        let last = replayer.len().checked_sub(1);
        Ok(Inspection {
            header: *replayer.header(),
            meta: replayer.meta().clone(),
            bytes: replayer.byte_len()?,
            file_count: replayer.file_count(),
            boot_count: replayer.boot_count(),
            sample_count: replayer.len(),
            first_timestamp: replayer.timestamp(0),
            last_timestamp: last.and_then(|last| replayer.timestamp(last)),
            gaps: replayer.gaps().to_vec(),
            marks: replayer.marks().to_vec(),
            sections: replayer.sections().map(|(name, bytes)| (name.to_owned(), bytes.len())).collect(),
            damage: replayer.damage().to_vec(),
            unreadable: replayer.unreadable().to_vec(),
            tail: replayer.tail(),
            torn_segments: replayer.torn_segments(),
            is_indexed: replayer.is_indexed(),
            unknown_frames: replayer.unknown_frames(),
            operations: operations(replayer),
            intact_samples: sound,
        })
    }

    /// Of the whole file, so that nothing hides.
    pub fn bytes_per_sample(&self) -> Option<f64> {
        (self.sample_count > 0).then(|| self.bytes as f64 / self.sample_count as f64)
    }

    /// Whether a part of it is missing that was once written; a torn last frame is.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty() || self.torn_segments > 0 || matches!(self.tail, Tail::Torn { .. })
    }

    /// Samples that are missing, through damage and through gaps.
    pub fn lost_samples(&self) -> u64 {
        let damage = self.damage.iter().map(|damage| damage.lost_samples);
        damage.chain(self.gaps.iter().map(|gap| gap.lost_samples)).fold(0, u64::saturating_add)
    }
}

/// Of the samples near its beginning and near its end: a command that is slow answers a few of them late.
fn operations(replayer: &mut Replayer) -> Option<(Operations, Operations)> {
    /// So many samples are looked at on each side.
    const NEAR: usize = 8;
    let length = replayer.len();
    let mut counted = |index: usize| replayer.sample(index).ok().and_then(|sample| sample.operations.ok());
    let first = (0..length.min(NEAR)).find_map(&mut counted)?;
    let last = (length.saturating_sub(NEAR)..length).rev().find_map(&mut counted)?;
    Some((first, last))
}

impl Replayer {
    /// Walks every frame and decodes every sample; how many are sound. What is not is in `damage` afterwards.
    pub fn verify(&mut self) -> Result<usize, RecordingError> {
        self.check_frames()?;
        let mut sound = 0;
        for index in 0..self.len() {
            match self.sample(index) {
                Ok(_) => sound += 1,
                Err(RecordingError::DamagedFrame { .. }) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(sound)
    }
}
