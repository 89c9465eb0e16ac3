//! The facts about a recording that `stalltop info` prints.

use super::replayer::{Replayer, UnreadableFile};
use crate::recording::Timestamp;
use crate::recording::error::RecordingError;
use crate::recording::format::file_header::FileHeader;
use crate::recording::format::meta::{Gap, Mark, Meta};
use crate::recording::read::damage::{Damage, Tail};
use crate::sample::operations::Operations;

/// Facts about a recording.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub header: FileHeader,
    pub meta: Meta,
    pub bytes: u64,
    /// Number of its files.
    pub file_count: usize,
    /// Number of boots.
    pub boot_count: usize,
    pub sample_count: usize,
    /// Timestamps of the first and the last sample.
    pub first_timestamp: Option<Timestamp>,
    pub last_timestamp: Option<Timestamp>,
    pub gaps: Vec<Gap>,
    pub marks: Vec<Mark>,
    /// Name and bytes of each.
    pub sections: Vec<(String, usize)>,
    pub damage: Vec<Damage>,
    /// Files of a directory that cannot be read; they are in `damage` too.
    pub unreadable: Vec<UnreadableFile>,
    pub tail: Tail,
    /// Number of segments before the last one that end inside a frame.
    pub torn_segments: usize,
    /// Whether each file has an intact index.
    pub is_indexed: bool,
    pub unknown_frames: u64,
    /// The first and the last total of `record --ops`.
    pub operations: Option<(Operations, Operations)>,
    /// Number of intact samples, if all were decoded.
    pub intact_samples: Option<usize>,
}

impl Inspection {
    /// Collects the facts. `verify`: decodes every sample.
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

    /// Bytes of all files per sample, everything else included.
    pub fn bytes_per_sample(&self) -> Option<f64> {
        (self.sample_count > 0).then(|| self.bytes as f64 / self.sample_count as f64)
    }

    /// Whether a part of the recording is missing; a torn last frame counts.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty() || self.torn_segments > 0 || matches!(self.tail, Tail::Torn { .. })
    }
}

/// Searched near the beginning and the end: a slow command has no total yet in the first samples.
fn operations(replayer: &mut Replayer) -> Option<(Operations, Operations)> {
    /// Samples that are searched on each side.
    const NEAR: usize = 8;
    let length = replayer.len();
    let mut counted = |index: usize| replayer.sample(index).ok().and_then(|sample| sample.operations.ok());
    let first = (0..length.min(NEAR)).find_map(&mut counted)?;
    let last = (length.saturating_sub(NEAR)..length).rev().find_map(&mut counted)?;
    Some((first, last))
}

impl Replayer {
    /// Checks every frame and decodes every sample; returns how many are intact. The others are in `damage` afterwards.
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
