//! Intact recordings with their samples, and reading damaged ones: every sample that is read must be one that
//! was recorded, unchanged and in order.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use stalltop::recording::{RecordingError, Replayer, StreamEvent, StreamReader, Tail};
use stalltop::sample::Sample;

use crate::generator::Machine;
use crate::support::places::{Place, frames};
use crate::support::record;

/// A recording and its samples.
pub struct Recorded {
    pub bytes: Vec<u8>,
    pub samples: Vec<Arc<Sample>>,
    pub frames: Vec<Place>,
    numbers: BTreeMap<u64, usize>,
}

/// The samples that could be read of a damaged recording.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Numbers of the intact samples.
    pub sound: BTreeSet<usize>,
    /// Whether damage is reported.
    pub damaged: bool,
}

impl Recorded {
    pub fn new(samples: Vec<Arc<Sample>>) -> Recorded {
        let bytes = record(&samples);
        let numbers = samples.iter().enumerate().map(|(number, sample)| (sample.at.boottime_ns, number)).collect();
        Recorded { frames: frames(&bytes), bytes, samples, numbers }
    }

    /// A recording of 6 samples: small enough for every bit of it.
    pub fn small() -> &'static Recorded {
        static SMALL: OnceLock<Recorded> = OnceLock::new();
        SMALL.get_or_init(|| {
            let mut machine = Machine::new(7, 3, 4, 1, 1);
            Recorded::new((0..6).map(|_| machine.next()).collect())
        })
    }

    /// A recording of 150 samples, with several key frames.
    pub fn long() -> &'static Recorded {
        static LONG: OnceLock<Recorded> = OnceLock::new();
        LONG.get_or_init(|| {
            let mut machine = Machine::new(7, 6, 8, 2, 2);
            let recorded = Recorded::new((0..150).map(|_| machine.next()).collect());
            assert!(recorded.frames.iter().filter(|frame| frame.kind == 3).count() >= 2);
            recorded
        })
    }

    /// The frame of sample `number`.
    pub fn frame(&self, number: usize) -> Place {
        *self.frames.iter().filter(|frame| frame.is_sample()).nth(number).unwrap()
    }

    /// The samples that are lost with these bytes: those in them, and those that refer to one in them. All, if
    /// no copy of the meta frame is left.
    pub fn lost_with(&self, bytes: &Range<usize>) -> BTreeSet<usize> {
        let hit = |frame: &Place| frame.at < bytes.end && bytes.start < frame.end();
        let all = 0..self.samples.len();
        if self.frames.iter().filter(|frame| frame.kind == 1).all(hit) {
            return all.collect();
        }
        let samples: Vec<Place> = self.frames.iter().copied().filter(Place::is_sample).collect();
        let distance = |frame: &Place| usize::from(frame.distance);
        all.filter(|&number| {
            let key = number - distance(&samples[number]);
            let mut at = number - key;
            loop {
                if hit(&samples[key + at]) {
                    return true;
                }
                if at == 0 {
                    return false;
                }
                at -= if at % 8 == 0 { 8 } else { 1 };
            }
        })
        .collect()
    }

    fn add_sample(&self, sample: &Arc<Sample>, found: &mut Found) {
        let number = self.numbers.get(&sample.at.boottime_ns).copied();
        let number = number.filter(|&number| self.samples[number] == *sample).expect("a sample that was never recorded");
        assert!(found.sound.last().is_none_or(|&last| last < number), "samples are out of order");
        found.sound.insert(number);
    }

    /// Reads all of it. `None` when the file header, or every copy of the meta frame, is gone.
    pub fn read_file(&self, bytes: &[u8]) -> Option<Found> {
        let mut replayer = match Replayer::from_bytes(bytes.to_vec()) {
            Ok(replayer) => replayer,
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        RecordingError::NotARecording { .. }
                            | RecordingError::HeaderDamaged { .. }
                            | RecordingError::NewerFormat { .. }
                            | RecordingError::DevelopmentVersion { .. }
                            | RecordingError::UnknownFlags { .. }
                            | RecordingError::NoMeta { .. }
                    ),
                    "{error}"
                );
                return None;
            }
        };
        let mut found = Found::default();
        for index in 0..replayer.len() {
            match replayer.sample(index) {
                Ok(sample) => self.add_sample(&sample, &mut found),
                Err(RecordingError::DamagedFrame { .. }) => assert!(!replayer.damage().is_empty()),
                // The index was wrong, and the rebuilt one is shorter.
                Err(RecordingError::NoSuchSample { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let ends_well = matches!(replayer.tail(), Tail::Closed | Tail::Unfinished);
        assert_eq!(replayer.verify().unwrap(), found.sound.len(), "verify sees what replay sees");
        found.damaged = !replayer.damage().is_empty() || !ends_well;
        Some(found)
    }

    /// The same from a pipe.
    pub fn read_pipe(&self, bytes: &[u8]) -> Option<Found> {
        let mut reader = match StreamReader::open(bytes) {
            Ok(reader) => reader,
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        RecordingError::NotARecording { .. }
                            | RecordingError::HeaderDamaged { .. }
                            | RecordingError::NewerFormat { .. }
                            | RecordingError::DevelopmentVersion { .. }
                            | RecordingError::UnknownFlags { .. }
                            | RecordingError::NoMeta { .. }
                    ),
                    "{error}"
                );
                return None;
            }
        };
        let mut found = Found::default();
        while let Some(event) = reader.next_event().unwrap() {
            match event {
                StreamEvent::Sample(sample) => self.add_sample(&sample, &mut found),
                StreamEvent::Damage(_) => found.damaged = true,
                _ => {}
            }
        }
        Some(found)
    }

    /// Reads from a file and from a pipe; returns the number of lost samples. Only samples that depend on the damaged bytes
    /// may be lost, where those are known.
    pub fn survives(&self, bytes: &[u8], hit: Option<&Range<usize>>, what: &str) -> usize {
        let mut allowed = hit.map_or_else(|| (0..self.samples.len()).collect(), |hit| self.lost_with(hit));
        let missing = |found: Option<Found>, allowed: &BTreeSet<usize>, how: &str| {
            let sound = found.map(|found| found.sound).unwrap_or_default();
            let missing: BTreeSet<usize> = (0..self.samples.len()).filter(|number| !sound.contains(number)).collect();
            let too_many: Vec<_> = missing.difference(allowed).collect();
            assert!(too_many.is_empty(), "{what}, as {how}: {too_many:?} are lost, and nothing of theirs was damaged");
            missing.len()
        };
        let lost = missing(self.read_file(bytes), &allowed, "a file");
        // A pipe gives no samples before its meta frame.
        let whole = |frame: &&Place| hit.is_some_and(|hit| frame.end() <= hit.start || hit.end <= frame.at);
        let begins = self.frames.iter().filter(|frame| frame.kind == 1).find(whole).map_or(0, |meta| meta.at);
        allowed.extend((0..self.samples.len()).filter(|&number| self.frame(number).at < begins));
        lost.max(missing(self.read_pipe(bytes), &allowed, "a pipe"))
    }
}
