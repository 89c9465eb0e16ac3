//! Samples that are decoded ahead are the same, in the same order.

use std::ops::Range;
use std::sync::Arc;

use stalltop::recording::{Recorder, RecordingError, Replayer, SampleParts};
use stalltop::sample::waits::Waits;
use stalltop::sample::{Absent, Sample};

use crate::generator;
use crate::support::places::frames;
use crate::support::{PATIENCE, few_samples, options, record};

/// Each sample with its index.
fn samples_of(
    replayer: &Replayer,
    range: Range<usize>,
    parts: SampleParts,
) -> impl Iterator<Item = (usize, Result<Arc<Sample>, RecordingError>)> {
    replayer.decode_ahead(range, parts).map(|decoded| (decoded.index, decoded.sample))
}

#[test]
fn samples_come_in_order_and_are_those_of_a_sequential_read() {
    let samples = few_samples(400);
    let mut replayer = Replayer::from_bytes(record(&samples)).unwrap();
    for range in [0..400, 0..0, 7..8, 119..121, 50..333, 350..9999] {
        let expected = range.start..range.end.min(400);
        let read: Vec<_> =
            samples_of(&replayer, range, SampleParts::All).map(|(index, sample)| (index, sample.unwrap())).collect();
        assert_eq!(read.iter().map(|(index, _)| *index).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert!(read.iter().all(|(index, sample)| *sample == samples[*index]));
    }
    // Dropped before its end.
    assert_eq!(samples_of(&replayer, 0..400, SampleParts::All).take(3).count(), 3);
    // Of a part of a recording.
    replayer.restrict_to(130..140);
    let read: Vec<_> = samples_of(&replayer, 0..10, SampleParts::All).map(|(_, sample)| sample.unwrap()).collect();
    assert!(read.iter().zip(&samples[130..]).all(|(read, sample)| read == sample) && read.len() == 10);
}

#[test]
fn without_tasks_everything_else_is_the_same() {
    let samples = few_samples(130);
    assert!(samples.iter().any(|sample| sample.tasks.is_ok() && !sample.waits.threads.is_empty()), "there is nothing to omit");
    let replayer = Replayer::from_bytes(record(&samples)).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..130, SampleParts::WithoutTasks).collect();
    assert!(read.iter().map(|(index, _)| *index).eq(0..130));
    for (index, sample) in read {
        let mut expected = Sample::clone(&samples[index]);
        (expected.tasks, expected.delays, expected.waits) = (Err(Absent::NotRead), Err(Absent::NotRead), Waits::default());
        assert_eq!(*sample.unwrap(), expected, "sample {index}");
    }
}

#[test]
fn a_damaged_sample_is_an_error_in_its_place() {
    let samples = few_samples(250);
    let mut bytes = record(&samples);
    let damaged = frames(&bytes).into_iter().filter(|place| place.is_sample()).nth(127).unwrap();
    bytes[damaged.at + 60] ^= 1;
    let replayer = Replayer::from_bytes(bytes).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..250, SampleParts::All).collect();
    assert!(read.iter().map(|(index, _)| *index).eq(0..250), "each has its place");
    let mut wrong = Vec::new();
    for (index, sample) in read {
        match sample {
            Ok(sample) => assert_eq!(sample, samples[index]),
            Err(RecordingError::DamagedFrame { .. }) => wrong.push(index),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(wrong, [127]);
}

/// Two files in a folder, of 130 samples each.
fn two_files(samples: &[Arc<Sample>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, part) in [("a.stalltop", &samples[..130]), ("b.stalltop", &samples[130..])] {
        let mut recorder = Recorder::create(&folder.path().join(name), &generator::meta(), options(200)).unwrap();
        part.iter().for_each(|sample| recorder.offer(sample.clone()));
        recorder.finish(PATIENCE);
    }
    folder
}

#[test]
fn several_files_are_read_as_one() {
    let samples = few_samples(260);
    let folder = two_files(&samples);
    let replayer = Replayer::open(folder.path()).unwrap();
    let read: Vec<_> = samples_of(&replayer, 0..260, SampleParts::All).map(|(_, sample)| sample.unwrap()).collect();
    assert_eq!(read, samples);
}

#[test]
fn samples_of_a_file_that_was_read_are_not_kept() {
    let folder = two_files(&few_samples(260));
    let replayer = Replayer::open(folder.path()).unwrap();
    let mut read = samples_of(&replayer, 0..260, SampleParts::All).map(|(_, sample)| Arc::downgrade(&sample.unwrap()));
    let of_first_file: Vec<_> = read.by_ref().take(130).collect();
    assert_eq!(read.by_ref().take(60).count(), 60);
    assert!(of_first_file.iter().all(|sample| sample.strong_count() == 0));
}
